# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""With several GPUs, the nvidia-smi backend queries all at once, with the same result."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import command
from ansible_collections.gpufleet.node.plugins.module_utils._backend.command import CommandResult
from ansible_collections.gpufleet.node.plugins.module_utils._backend.smi import SmiBackend
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend import smi_texts as texts

QUERY = "--query-gpu=index,uuid,compute_cap,count --format=csv,noheader"
BOTH = "-i GPU-aaaa,GPU-bbbb"
GPU = texts.LOG[texts.LOG.index("    <gpu ") : texts.LOG.index("</nvidia_smi_log>")]
EMPTY = GPU[: GPU.index("<mig_devices>")] + GPU[GPU.index("<serial>") :]


HANGS = BackendError(codes.TIMEOUT, "nvidia-smi", "no answer")


class Node:
    """Two GPUs, the first with instances, and the commands that were run."""

    def __init__(self):
        self.answers = {
            QUERY: texts.QUERY,
            "-q -x": self.log(GPU + EMPTY.replace("GPU-aaaa", "GPU-bbbb")),
            "-q -x -i GPU-aaaa": self.log(GPU),
            "-q -x -i GPU-bbbb": self.log(EMPTY.replace("GPU-aaaa", "GPU-bbbb")),
            "mig -lgip": texts.PROFILES,
            "mig -lgipp": texts.PLACEMENTS,
            "mig -lgi " + BOTH: texts.INSTANCES,
            "mig -lci " + BOTH: texts.COMPUTE_INSTANCES,
            "mig -lgi -i GPU-aaaa": texts.INSTANCES,
            "mig -lci -i GPU-aaaa": texts.COMPUTE_INSTANCES,
            "mig -lgi -i GPU-bbbb": CommandResult(6, "No GPU instances found: Not Found\n", ""),
            "mig -lcip": texts.COMPUTE_PROFILES,
            "mig -dgi -gi 1 -i GPU-aaaa": "Successfully destroyed GPU instance ID  1 from GPU  0\n",
            "-L": texts.LIST[: texts.LIST.index("  MIG 1g.10gb")],
        }
        self.commands = []

    @staticmethod
    def log(gpus):
        return texts.LOG[: texts.LOG.index("    <gpu ")] + gpus + "</nvidia_smi_log>\n"

    def __call__(self, argv):
        line = " ".join(argv[1:])
        self.commands.append(line)
        known = [line] + [line[: -len(" -i GPU-aaaa")]] * line.startswith(("mig -lgip", "mig -lcip"))
        answer = next(self.answers[each] for each in known if each in self.answers)
        if isinstance(answer, BackendError):
            raise answer
        return answer if isinstance(answer, CommandResult) else CommandResult(0, answer, "")


@pytest.fixture
def node():
    return Node()


def driver_of(node):
    driver = SmiBackend(node)
    driver.open()
    return driver


def both(driver):
    return [driver.read(0), driver.read(1)]


def test_combined_queries_match_single_queries(node):
    single = both(driver_of(node))
    assert [len(gpu.instances) for gpu in single] == [2, 0]
    node.commands.clear()
    driver = driver_of(node)
    driver.prefetch()
    driver.versions()
    assert both(driver) == single
    assert node.commands == [
        *(QUERY, "-q -x", "mig -lgi " + BOTH, "mig -lci " + BOTH, "-L"),
        *("mig -lgip -i GPU-aaaa", "mig -lgipp -i GPU-aaaa", "mig -lcip -i GPU-aaaa"),
        "mig -lgi -i GPU-bbbb",  # an empty GPU is not in the combined table
    ]


def test_the_result_is_used_once(node):
    driver = driver_of(node)
    driver.prefetch()
    driver.read(0)
    assert "-q -x -i GPU-aaaa" not in node.commands
    driver.read(0)
    assert "-q -x -i GPU-aaaa" in node.commands


def test_the_result_is_discarded_on_the_first_change(node):
    driver = driver_of(node)
    driver.prefetch()
    driver.destroy_gpu_instance(0, 1)
    driver.read(1)
    assert "-q -x -i GPU-bbbb" in node.commands


@pytest.mark.parametrize(
    "line, answer",
    [
        ("-q -x", CommandResult(255, "Unable to determine the device handle for GPU0001:00:00.0: Unknown Error\n", "")),
        ("-q -x", "invalid XML"),
        ("-q -x", Node.log(GPU)),  # one is missing
        ("mig -lgi " + BOTH, CommandResult(6, "No GPU instances found: Not Found\n", "")),
        ("mig -lgi " + BOTH, "not a table"),
        ("mig -lci " + BOTH, CommandResult(3, "Failed to display\n", "")),
        # An instance was destroyed during the queries.
        ("mig -lci " + BOTH, texts.COMPUTE_INSTANCES.replace("|   0      1 ", "|   0      7 ")),
    ],
)
def test_inconsistent_results_are_queried_one_by_one(node, line, answer):
    single = both(driver_of(node))
    node.answers[line] = answer
    driver = driver_of(node)
    driver.prefetch()
    assert both(driver) == single


def test_a_changed_index_is_detected(node):
    single = both(driver_of(node))
    whole = dict(node.answers)
    for line in ("mig -lgi " + BOTH, "mig -lci " + BOTH):
        node.answers[line] = node.answers[line].replace("|   0 ", "|   1 ")
    node.answers["-L"] = "".join(
        "GPU %d: NVIDIA A100 80GB PCIe (UUID: GPU-%s)\n" % (index, uuid) for index, uuid in enumerate(("bbbb", "aaaa"))
    )
    driver = driver_of(node)
    driver.prefetch()
    node.answers = whole
    assert both(driver) == single


def test_gpus_without_instances_are_queried_together_too(node):
    """As after a reboot or after all were destroyed; nvidia-smi then exits with a nonzero status."""
    none = CommandResult(6, "No GPU instances found: Not Found\n", "")
    node.answers["-q -x"] = node.log(EMPTY + EMPTY.replace("GPU-aaaa", "GPU-bbbb"))
    node.answers.update({"mig -lgi " + BOTH: none, "mig -lgi -i GPU-aaaa": none})
    driver = driver_of(node)
    driver.prefetch()
    assert [gpu.instances for gpu in both(driver)] == [(), ()]
    assert not any(line.startswith("-q -x -i") for line in node.commands)


def test_a_gpu_that_cannot_be_read_does_not_hide_the_other(node):
    lost = CommandResult(255, "Unable to determine the device handle for GPU0001:00:00.0: GPU is lost\n", "")
    node.answers.update({"-q -x": lost, "-q -x -i GPU-aaaa": lost})
    driver = driver_of(node)
    driver.prefetch()
    with pytest.raises(BackendError):
        driver.read(0)
    assert driver.read(1).uuid == "GPU-bbbb"


@pytest.mark.parametrize(
    "hangs, times",
    [
        (("-q -x", "-q -x -i GPU-aaaa"), 2),
        (("mig -lgi " + BOTH, "mig -lgi -i GPU-aaaa"), 2),
        (("mig -lcip -i GPU-aaaa",), 1),
    ],
)
def test_hanging_commands_are_not_repeated(node, hangs, times):
    """Once for all GPUs and once for each hanging one: each takes a minute or two, and the boot restore has five."""
    node.answers.update(dict.fromkeys(hangs, HANGS))
    driver = driver_of(node)
    driver.prefetch()
    with pytest.raises(BackendError) as error:
        driver.read(0)
    assert error.value.code == codes.TIMEOUT
    assert driver.read(1).uuid == "GPU-bbbb"
    assert sum(line in hangs for line in node.commands) == times


@pytest.mark.parametrize(
    "arguments, seconds",
    [
        (["-q", "-x"], 60),
        (["mig", "-lgi", "-i", "GPU-aaaa,GPU-bbbb"], 60),
        (["-q", "-x", "-i", "GPU-aaaa"], 120),
        (["mig", "-lgi", "-i", "GPU-aaaa"], 120),
        (["-L"], 60),
        (["mig", "-dgi", "-gi", "1", "-i", "GPU-aaaa"], 300),
    ],
)
def test_the_combined_query_leaves_time_for_single_queries(monkeypatch, arguments, seconds):
    limits = []

    def done(_argv, **options):
        limits.append(options["timeout"])
        return subprocess.CompletedProcess([], 0, b"", b"")

    monkeypatch.setattr(subprocess, "run", done)
    command.run(["nvidia-smi", *arguments])
    assert limits == [seconds]
