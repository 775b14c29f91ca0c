# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text that tenants and local users write: parsing takes time that is at most proportional to its length."""

from __future__ import annotations

import contextlib
import time
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import logs
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import cdi_devices
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import causes
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import log as rke2_log
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit import runtime_check, runtime_service
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import device_jobs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import kubeconfig as cluster_kubeconfig
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs, responses
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import report

SMALL, TIMES = 20000, 8
MOST = 30  # times the time of the small input. A quadratic parser takes 64 times


def journal(text: str) -> object:
    return runtime_service.restart("docker", lambda argv: (1, text if argv[0] == "journalctl" else "", ""))


def rke2(text: str) -> object:
    lines = logs.lines(text)
    return rke2_log.explain(lines), rke2_log.ignored_keys(lines), rke2_log.tail(lines)


def devices(text: str) -> object:
    node: t.Any = {"metadata": {"name": "a", "annotations": {device_jobs.NODE: "a", device_jobs.RESOURCE: "b"}}}
    return device_jobs.listed_devices([node], {"a": text}, {}, "mixed")


def kubeconfig(text: str) -> object:
    with pytest.raises(Refusal):
        cluster_kubeconfig.rebuild(text, "a")
    return None


def config_map(text: str) -> object:
    with contextlib.suppress(Refusal):
        return mig_configs.config_map({}, {"data": {mig_configs.KEY: text}}, ())
    return None


CASES: t.Sequence[tuple[t.Callable[[str], object], str, str]] = (
    (journal, "", "a"),
    (journal, "", "failed to start\n"),
    (rke2, "", "failed to get CA certs: "),
    (rke2, "", "toml: "),
    (rke2, "", "a"),
    (rke2, "lookup ", "a"),
    (rke2, "Unknown flag ", "-"),
    (rke2, "", "a\n"),
    (runtime_check.reported, "Message:", " "),
    (lambda text: causes.cause(text, "nvidia_driver"), "", "repomd.xml "),
    (lambda text: causes.cause(text, "nvidia_driver"), "", "Public key for "),
    (cdi_devices.warnings, "", 'level=warning msg="\\'),
    (lambda text: responses.message({"msg": text}), "", '"message":"'),
    (devices, "GPU 0: ", "(UUID: GPU-"),
    (devices, " MIG ", "(UUID: MIG-"),
    (kubeconfig, "a: 1", ":1"),  # a number with the base 60
    (config_map, "mig-configs: {a: 1", ":1"),
    (lambda text: report.verification_message("a", [{"msg": text}]), "Task failed: ", "The filter plugin 'a"),
)


def seconds(parse: t.Callable[[str], object], text: str) -> float:
    taken = []
    for _attempt in range(3):
        start = time.process_time()
        parse(text)
        taken.append(time.process_time() - start)
    return max(min(taken), 0.0001)  # shorter times are noise


@pytest.mark.parametrize(("parse", "start", "repeated"), CASES)
def test_time_is_proportional_to_length(parse: t.Callable[[str], object], start: str, repeated: str) -> None:
    small, large = (start + repeated * (size // len(repeated)) for size in (SMALL, SMALL * TIMES))
    assert seconds(parse, large) / seconds(parse, small) < MOST


def test_a_log_is_cut_before_it_is_searched() -> None:
    assert sum(map(len, logs.lines("a" * 1000000 + "\n" + "b\n" * 1000000))) < 1000000
    assert logs.lines("first\n" + "b\n" * logs.LINES)[0] == "b"


def shared(name: str, levels: int) -> t.Sequence[str]:
    """Lists of lists that share their items: two of them are equal, but not the same."""
    pairs = [
        "%s%d: &%s%d [*%s%d, *%s%d]" % (name, each, *(name, each, *(name, each - 1) * 2)) for each in range(1, levels)
    ]
    return ["%s0: &%s0 [x]" % (name, name), *pairs]


def test_shared_lists_are_not_compared() -> None:
    names = ["current-context: *a27", "contexts: [{name: *b27, context: {}}]"]
    assert seconds(kubeconfig, "\n".join([*shared("a", 28), *shared("b", 28), *names])) < 1


@pytest.mark.parametrize("parse", [kubeconfig, config_map])
def test_merged_mappings_do_not_grow(parse: t.Callable[[str], object]) -> None:
    """Each one merges ten copies of the one before."""
    levels = ["a%d: &a%d {<<: [%s]}" % (level, level, ", ".join(["*a%d" % (level - 1)] * 10)) for level in range(1, 8)]
    assert seconds(parse, "\n".join(["a0: &a0 {b: 1, c: 2}", *levels])) < 1
