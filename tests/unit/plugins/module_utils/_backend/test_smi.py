# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import command
from ansible_collections.gpufleet.node.plugins.module_utils._backend.command import CommandResult
from ansible_collections.gpufleet.node.plugins.module_utils._backend.smi import SmiBackend
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import ComputeInstance, Placement
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend import smi_texts as texts
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.backend_support import refusal

QUERY = "--query-gpu=index,uuid,compute_cap,count --format=csv,noheader"


class Script:
    """Answers commands from a table; an unknown command fails the test."""

    def __init__(self, **answers):
        self.answers = {
            QUERY: texts.QUERY,
            "-q -x -i GPU-aaaa": texts.LOG,
            "mig -lgip -i GPU-aaaa": texts.PROFILES,
            "mig -lgipp -i GPU-aaaa": texts.PLACEMENTS,
            "mig -lgi -i GPU-aaaa": texts.INSTANCES,
            "mig -lci -i GPU-aaaa": texts.COMPUTE_INSTANCES,
            "mig -lcip -i GPU-aaaa": texts.COMPUTE_PROFILES,
            "-L": texts.LIST,
        }
        self.commands = []

    def __call__(self, argv):
        assert argv[0] == "nvidia-smi"
        line = " ".join(argv[1:])
        self.commands.append(line)
        answer = self.answers[line]
        return answer if isinstance(answer, CommandResult) else CommandResult(0, answer, "")


@pytest.fixture
def script():
    return Script()


@pytest.fixture
def driver(script):
    driver = SmiBackend(script)
    driver.open()
    return driver


def test_reads_a_gpu(driver):
    gpu = driver.read(0)
    assert (gpu.index, gpu.uuid, gpu.compute_capability, gpu.architecture, gpu.resetless) == (
        0,
        "GPU-aaaa",
        "8.0",
        "ampere",
        False,
    )
    assert [profile.name for profile in gpu.board.profiles] == ["1g.10gb", "1g.10gb+me", "3g.40gb"]
    assert gpu.board.memory_units == 8 and gpu.profiles_known
    assert [(gi.id, gi.profile_id, gi.placement) for gi in gpu.instances] == [
        (1, 9, Placement(4, 4)),
        (11, 19, Placement(0, 1)),
    ]
    assert gpu.instances[0].compute_instances == (
        ComputeInstance(0, 0, 1, Placement(2, 1), "MIG-0", 14),
        ComputeInstance(1, 1, 2, Placement(0, 2), "MIG-1", 28),
    )
    assert gpu.instances[1].compute_instances == ()
    assert [process.pid for process in gpu.processes] == [42, 4711]
    assert driver.count() == 2
    assert driver.versions() == ("550.163.01", "12.4", None)


def test_profiles_are_queried_once_per_mode(driver, script):
    driver.read(0)
    driver.read(0)
    assert script.commands.count("mig -lgip -i GPU-aaaa") == 1
    assert script.commands.count("mig -lcip -i GPU-aaaa") == 1


@pytest.mark.parametrize("memory, times", [("81920 MiB", 1), ("40960 MiB", 2)])
def test_gpus_of_one_product_share_a_profile_query(driver, script, memory, times):
    """Each call takes long, and a node may have sixteen GPUs."""
    other = texts.LOG.replace("GPU-aaaa", "GPU-bbbb").replace("81920 MiB", memory)
    script.answers["-q -x -i GPU-bbbb"] = other[: other.index("<mig_devices>")] + other[other.index("<serial>") :]
    for what in ("-lgip", "-lgipp"):
        script.answers["mig %s -i GPU-bbbb" % what] = script.answers["mig %s -i GPU-aaaa" % what]
    script.answers["mig -lgi -i GPU-bbbb"] = CommandResult(6, "No GPU instances found: Not Found", "")
    assert driver.read(0).board == driver.read(1).board
    assert sum(line.startswith("mig -lgip ") for line in script.commands) == times


LOG_WITHOUT_DEVICE_1 = re.sub(r"<mig_device>\s*<index>1.*?</mig_device>", "", texts.LOG, flags=re.DOTALL)
LIST_0, LIST_1 = (line for line in texts.LIST.splitlines(True) if "3g.40gb" in line)


@pytest.mark.parametrize(
    ("line", "answer", "reason"),
    [
        (
            "mig -lci -i GPU-aaaa",
            "\n".join(texts.COMPUTE_INSTANCES.splitlines()[:-2]),
            "(1, 0) is missing from one of the lists",
        ),
        (
            "mig -lci -i GPU-aaaa",
            CommandResult(6, "No compute instances found: Not Found\n", ""),
            "(1, 0) is missing from one of the lists",
        ),
        ("-q -x -i GPU-aaaa", LOG_WITHOUT_DEVICE_1, "(1, 1) is missing from one of the lists"),
        # nvidia-smi renumbers the remaining MIG devices.
        (
            "-L",
            texts.LIST.replace(LIST_0 + LIST_1, LIST_1.replace("Device  1", "Device  0")),
            "its MIG devices differ from those in nvidia-smi -q -x",
        ),
        ("-L", texts.LIST.replace(LIST_1, ""), "its MIG devices differ from those in nvidia-smi -q -x"),
        ("-L", texts.LIST.replace("1c.3g", "2c.3g"), "its MIG devices differ from those in nvidia-smi -q -x"),
    ],
)
def test_a_mig_device_that_is_not_listed_everywhere_is_an_error(driver, script, line, answer, reason):
    """Its UUID, or that of another one, would be wrong."""
    script.answers[line] = answer
    assert reason in str(refusal(driver.read, 0))


def test_mig_devices_are_matched_by_order_because_nvml_numbers_them_with_gaps(driver, script):
    script.answers["-q -x -i GPU-aaaa"] = texts.LOG.replace("<index>1<", "<index>3<")
    script.answers["-L"] = texts.LIST.replace("40gb ", "39gb ")
    assert [ci.uuid for ci in driver.read(0).instances[0].compute_instances] == ["MIG-0", "MIG-1"]


def test_no_instances_is_a_valid_response_but_other_errors_are_not(driver, script):
    script.answers["-q -x -i GPU-aaaa"] = (
        texts.LOG[: texts.LOG.index("<mig_devices>")] + texts.LOG[texts.LOG.index("<serial>") :]
    )
    script.answers["mig -lgi -i GPU-aaaa"] = CommandResult(6, "No GPU instances found: Not Found\n", "")
    assert driver.read(0).instances == ()
    script.answers["mig -lgi -i GPU-aaaa"] = CommandResult(6, "No devices were found\n", "")
    assert refusal(driver.read, 0).code == codes.NOT_FOUND
    script.answers["mig -lgi -i GPU-aaaa"] = CommandResult(4, "No GPU instances found: Insufficient Permissions\n", "")
    error = refusal(driver.read, 0)
    assert error.code == codes.NO_PERMISSION and "become: true" in str(error)


@pytest.mark.parametrize("line, answer", [("-lgip", texts.PROFILES[: texts.PROFILES.index("|   0")]), ("-lgipp", "")])
def test_a_gpu_without_profiles_is_not_empty(driver, script, line, answer):
    script.answers["mig %s -i GPU-aaaa" % line] = answer
    error = refusal(driver.read, 0)
    assert error.code == codes.NOT_SUPPORTED and "MIG mode on but lists no profiles" in str(error)
    off = texts.LOG.replace("Enabled", "Disabled")
    script.answers["-q -x -i GPU-aaaa"] = off[: off.index("<mig_devices>")] + off[off.index("<serial>") :]
    assert not driver.read(0).profiles_known


@pytest.mark.parametrize(
    "answer",
    [
        CommandResult(6, "No MIG-enabled devices found.\n", ""),
        CommandResult(0, "No MIG-enabled devices found.\n", ""),
        CommandResult(3, texts.PROFILES[: texts.PROFILES.index("|   0")] + "Failed to display: Not Supported\n", ""),
    ],
)
def test_profiles_may_be_unknown_while_the_mode_is_off(driver, script, answer):
    script.answers["mig -lgip -i GPU-aaaa"] = answer
    assert refusal(driver.read, 0).code == codes.NOT_SUPPORTED
    off = texts.LOG.replace("Enabled", "Disabled")
    script.answers["-q -x -i GPU-aaaa"] = off[: off.index("<mig_devices>")] + off[off.index("<serial>") :]
    gpu = driver.read(0)
    assert not gpu.profiles_known and gpu.mode_current is False
    del script.answers["mig -lgip -i GPU-aaaa"]
    assert driver.read(0) == gpu  # queried once


def test_no_gpu():
    script = Script()
    script.answers[QUERY] = CommandResult(6, "No devices were found\n", "")
    script.answers["-L"] = "No devices found.\n"
    driver = SmiBackend(script)
    driver.open()
    assert driver.count() == 0
    assert driver.versions() == (None, None, None)
    assert refusal(driver.read, 0).code == codes.NOT_FOUND


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (CommandResult(9, texts.NO_DRIVER, ""), codes.DRIVER_NOT_LOADED),
        (
            CommandResult(12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", ""),
            codes.LIBRARY_NOT_FOUND,
        ),
        (
            CommandResult(18, "Failed to initialize NVML: Driver/library version mismatch\n", ""),
            codes.LIB_RM_VERSION_MISMATCH,
        ),
        (CommandResult(255, "Unable to determine the number of GPUs", ""), codes.UNKNOWN),
        (CommandResult(15, "", ""), codes.GPU_IS_LOST),
        (CommandResult(-9, "", ""), codes.UNKNOWN),
        (CommandResult(0, "1, GPU-aaaa, 8.0, 1\n", ""), codes.UNKNOWN),
        (CommandResult(0, "0, GPU-aaaa, 8.0\n", ""), codes.UNKNOWN),
        (CommandResult(0, "0, GPU-aaaa, 8.0, 1\nUnable to determine\n", ""), codes.UNKNOWN),
    ],
)
def test_errors_on_opening(answer, code):
    script = Script()
    script.answers[QUERY] = answer
    script.answers["-L"] = CommandResult(answer.rc or 255, answer.out, "")
    assert refusal(SmiBackend(script).open).code == code


LOST = "Unable to determine the device handle for GPU: GPU is lost.  Reboot the system to recover this GPU\n"


@pytest.mark.parametrize(
    "failure",
    [CommandResult(15, LOST, ""), CommandResult(0, "0, GPU-aaaa, 8.0, 2\n1, [GPU is lost], [GPU is lost], 2\n", "")],
)
@pytest.mark.parametrize("listed", [LOST, "GPU 1: GPU is lost (UUID: GPU is lost)\n", ""])
def test_a_lost_gpu_does_not_affect_the_others(failure, listed):
    """A query of all GPUs then fails, but nvidia-smi lists and reads the others."""
    script = Script()
    script.answers[QUERY] = failure
    script.answers["-L"] = CommandResult(
        15, texts.LIST.partition("GPU 1:")[0] + listed + "GPU 2: X (UUID: GPU-cccc)\n", ""
    )
    bus_id = re.search("<pci_bus_id>(.*?)</pci_bus_id>", texts.LOG).group(1).upper()
    for line in [line for line in script.answers if line.endswith(" -i GPU-aaaa")]:
        script.answers[line.replace("GPU-aaaa", bus_id)] = script.answers.pop(line)
    script.answers["-q -x -i 0"] = texts.LOG
    script.answers["-q -x -i 2"] = texts.LOG.replace("GPU-aaaa", "GPU-cccc")
    script.answers["--query-gpu=compute_cap --format=csv,noheader -i " + bus_id] = "8.0\n"
    backend = SmiBackend(script)
    backend.open()
    backend.prefetch()
    assert backend.count() == 3
    assert backend.read(0).uuid == "GPU-aaaa" and len(backend.read(0).instances) == 2
    assert "GPU 2 was GPU-cccc and is GPU-aaaa now" in str(refusal(backend.read, 2)), "both have one bus id here"
    assert backend.versions().driver == "550.163.01"
    lost = refusal(backend.read, 1)
    assert lost.code in (codes.GPU_IS_LOST, codes.UNKNOWN) and "GPU 1" in str(lost)


NO_HANDLE = "Unable to determine the device handle for gpu : %s\n"


@pytest.mark.parametrize(
    ("query", "reason", "code"),
    [
        (
            CommandResult(
                4, "No devices were found. Please make sure /dev/nvidia* files are readable by current user.\n", ""
            ),
            "Insufficient Permissions",
            codes.NO_PERMISSION,
        ),
        (CommandResult(255, NO_HANDLE % "Unknown Error", ""), "Unknown Error", codes.UNKNOWN),
        (CommandResult(6, "No devices were found\n", ""), "Not Found", codes.NOT_FOUND),
    ],
)
def test_gpus_that_cannot_be_accessed_are_listed_with_the_reason(query, reason, code):
    """An empty list would mean that the node has no GPU."""
    script = Script()
    script.answers[QUERY] = query
    script.answers["-L"] = CommandResult(query.rc, NO_HANDLE % reason * 2, "")
    backend = SmiBackend(script)
    backend.open()
    backend.prefetch()
    assert backend.count() == 2
    for work, args in ((backend.read, (0,)), (backend.identify, (1,)), (backend.versions, ())):
        error = refusal(work, *args)
        assert error.code == code and ("become: true" in str(error)) == (code == codes.NO_PERMISSION)


def test_gpus_that_nvidia_smi_leaves_out_are_listed_with_the_reason():
    """It skips GPUs that this user may not access, and exits with status 0."""
    script = Script()
    script.answers[QUERY] = "0, GPU-aaaa, 8.0, 2\n"
    script.answers["-L"] = CommandResult(
        4, texts.LIST.partition("GPU 1:")[0] + NO_HANDLE % "Insufficient Permissions", ""
    )
    script.answers["-q -x -i 0"] = script.answers["-q -x -i 00000001:00:00.0"] = texts.LOG
    script.answers["--query-gpu=compute_cap --format=csv,noheader -i 00000001:00:00.0"] = "8.0\n"
    backend = SmiBackend(script)
    backend.open()
    assert backend.count() == 2 and backend.identify(0).uuid == "GPU-aaaa"
    error = refusal(backend.read, 1)
    assert error.code == codes.NO_PERMISSION and "GPU 1: 1 of 2 GPUs" in str(error)


@pytest.mark.parametrize("text", ["Unknown Error", "GPU is lost", "GPU is lost.  Reboot the system"])
def test_error_texts_of_nvidia_smi_are_not_values(driver, script, text):
    """In particular, they must not be mistaken for an architecture that needs no reset."""
    log = texts.LOG.replace(">Ampere<", ">%s<" % text)
    log = re.sub("<serial>.*?</serial>", "<serial>%s</serial>" % text, log)
    script.answers["-q -x -i GPU-aaaa"] = log
    gpu = driver.read(0)
    assert (gpu.architecture, gpu.serial, gpu.resetless) == ("ampere", None, False), "by its compute capability"
    for path in ("pci_device_id", "pci_sub_system_id", "uuid", "current_mig"):
        broken = re.sub("<%s>.*?</%s>" % (path, path), "<%s>%s</%s>" % (path, text, path), texts.LOG)
        script.answers["-q -x -i GPU-aaaa"] = broken
        assert refusal(driver.read, 0).code == codes.UNKNOWN, path


def test_a_known_board_that_denies_mig_is_an_error(driver, script):
    denied = re.sub("(?s)<mig_devices>.*?</mig_devices>", "<mig_devices>None</mig_devices>", texts.LOG)
    denied = re.sub("<(current|pending)_mig>Enabled<", r"<\1_mig>N/A<", denied)
    script.answers["-q -x -i GPU-aaaa"] = denied
    assert "(PCI device id 0x20B510DE) supports MIG, but the driver reports no MIG mode" in str(refusal(driver.read, 0))
    known = driver.identify(0)
    assert (known.mig_capable, known.mode_current) == (True, None)
    virtual = "<gpu_virtualization_mode><virtualization_mode>VGPU</virtualization_mode></gpu_virtualization_mode>"
    for vgpu_or_other_board in (
        denied.replace("<mig_mode>", virtual + "<mig_mode>"),
        denied.replace("20B510DE", "1EB810DE"),
    ):
        script.answers["-q -x -i GPU-aaaa"] = vgpu_or_other_board
        assert not driver.read(0).mig_capable


@pytest.mark.parametrize("path, name", [("driver_version", "driver version"), ("cuda_version", "CUDA version")])
def test_error_texts_of_nvidia_smi_are_not_versions(driver, script, path, name):
    script.answers["-q -x -i GPU-aaaa"] = re.sub(
        "<%s>.*?</%s>" % (path, path), "<%s>GPU is lost</%s>" % (path, path), texts.LOG
    )
    error = refusal(driver.versions)
    assert error.code == codes.GPU_IS_LOST and name in str(error)
    assert driver.read(0).instances, "the GPU can be read"
    script.answers["-q -x -i GPU-aaaa"] = texts.LOG
    assert driver.versions().driver == "550.163.01"


def test_mig_devices_without_gpu_instances_are_an_error(driver, script):
    script.answers["mig -lgi -i GPU-aaaa"] = CommandResult(6, "No GPU instances found: Not Found", "")
    assert "no GPU instance, but MIG devices" in str(refusal(driver.read, 0))


@pytest.mark.parametrize(
    ("enabled", "text", "status"),
    [
        (True, texts.MODE_ON, codes.SUCCESS),
        (False, texts.MODE_OFF, codes.SUCCESS),
        (True, texts.MODE_PENDING_IN_USE, codes.IN_USE),
        (False, texts.MODE_PENDING_RESET, codes.RESET_REQUIRED),
    ],
)
def test_mode_changes_have_an_activation_status(driver, script, enabled, text, status):
    script.answers["-i GPU-aaaa -mig %d" % enabled] = text
    assert driver.set_mode(0, enabled) == status


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (texts.MODE_NOT_SUPPORTED, codes.NOT_SUPPORTED),  # with exit status 0
        (CommandResult(4, texts.MODE_NO_PERMISSION, ""), codes.NO_PERMISSION),
        (texts.MODE_OFF, codes.UNKNOWN),  # the reverse
        ("All done.\n", codes.UNKNOWN),
    ],
)
def test_mode_changes_that_are_refused(driver, script, answer, code):
    script.answers["-i GPU-aaaa -mig 1"] = answer
    assert refusal(driver.set_mode, 0, True).code == code


def test_creates_at_the_given_placement(driver, script):
    script.answers["mig -cgi 9:4 -i GPU-aaaa"] = (
        "Successfully created GPU instance ID  1 on GPU  0 using profile MIG 3g.40gb (ID  9)\n"
    )
    assert driver.create_gpu_instance(0, 9, Placement(4, 4)) == 1
    made = "Successfully created compute instance ID %2d on GPU  0 GPU instance ID  1 using profile MIG 1c.3g.40gb (ID  0)\n"
    script.answers["mig -cci 0:2 -gi 1 -i GPU-aaaa"] = made % 0
    script.answers["mig -cci 0 -gi 1 -i GPU-aaaa"] = made % 12
    assert driver.create_compute_instance(0, 1, 0, 2) == 0
    assert driver.create_compute_instance(0, 1, 0, None) == 12


def test_destroys(driver, script):
    script.answers["mig -dci -gi 1 -ci 0 -i GPU-aaaa"] = (
        "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  1\n"
    )
    script.answers["mig -dgi -gi 1 -i GPU-aaaa"] = "Successfully destroyed GPU instance ID  1 from GPU  0\n"
    driver.destroy_compute_instance(0, 1, 0)
    driver.destroy_gpu_instance(0, 1)
    assert script.commands[-2:] == ["mig -dci -gi 1 -ci 0 -i GPU-aaaa", "mig -dgi -gi 1 -i GPU-aaaa"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            CommandResult(19, "Unable to destroy GPU instance ID  1 from GPU  0: In use by another client\n", ""),
            codes.IN_USE,
        ),
        (CommandResult(6, "No GPU instances found: Not Found\n", ""), codes.NOT_FOUND),
        (CommandResult(-9, "", ""), codes.UNKNOWN),
        (CommandResult(0, "", ""), codes.UNKNOWN),
    ],
)
def test_destroying_that_fails(driver, script, answer, code):
    script.answers["mig -dgi -gi 1 -i GPU-aaaa"] = answer
    error = refusal(driver.destroy_gpu_instance, 0, 1)
    assert error.code == code
    assert error.call == "nvidia-smi mig -dgi -gi 1 -i GPU-aaaa"


def test_creating_that_fails(driver, script):
    script.answers["mig -cgi 9:4 -i GPU-aaaa"] = CommandResult(
        23, "Unable to create a GPU instance on GPU  0 using profile 9:4: Insufficient Resources\n", ""
    )
    assert refusal(driver.create_gpu_instance, 0, 9, Placement(4, 4)).code == codes.INSUFFICIENT_RESOURCES
    script.answers["mig -cgi 9:4 -i GPU-aaaa"] = "Something else\n"
    assert "unexpected output: Something else" in str(refusal(driver.create_gpu_instance, 0, 9, Placement(4, 4)))


def test_compute_profiles_of_an_instance(driver, script):
    script.answers["mig -lcip -gi 1 -i GPU-aaaa"] = texts.COMPUTE_PROFILES
    script.answers["mig -lcipp -gi 1 -i GPU-aaaa"] = texts.COMPUTE_PLACEMENTS
    assert [(profile.id, profile.slices, profile.placements) for profile in driver.compute_profiles(0, 1)] == [
        (0, 1, ((0, 1), (1, 1), (2, 1))),
        (1, 2, ((0, 2),)),
        (2, 3, ((0, 3),)),
    ]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (CommandResult(255, texts.RESET_IN_USE, ""), codes.IN_USE),
        (CommandResult(3, "Resetting GPU 00000001:00:00.0 is not supported.\n", ""), codes.NOT_SUPPORTED),
        (CommandResult(4, "GPU reset unavailable: Insufficient Permissions\n", ""), codes.NO_PERMISSION),
        (CommandResult(255, texts.RESET_TOGETHER, ""), codes.RESET_TYPE_NOT_SUPPORTED),
        (CommandResult(0, "All done.\n", ""), codes.UNKNOWN),
    ],
)
def test_resets_that_fail(driver, script, answer, code):
    script.answers["--gpu-reset -i GPU-aaaa"] = answer
    assert refusal(driver.reset, 0).code == code


def test_a_reset(driver, script):
    script.answers["--gpu-reset -i GPU-aaaa"] = texts.RESET
    driver.reset(0)
    assert script.commands[-1] == "--gpu-reset -i GPU-aaaa"


# Running commands


def test_a_missing_command(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    error = refusal(SmiBackend().open)
    assert error.code == codes.FUNCTION_NOT_FOUND and "nvidia-smi" in str(error) and "Install" in str(error)


def test_a_command_that_cannot_run(monkeypatch, tmp_path):
    (tmp_path / "nvidia-smi").write_text("neither a script nor a program\n")
    (tmp_path / "nvidia-smi").chmod(0o644)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(SmiBackend().open).code == codes.UNKNOWN


def install(monkeypatch, folder, script):
    """Install a script as nvidia-smi."""
    command_file = folder / "nvidia-smi"
    command_file.write_text(script)
    command_file.chmod(0o755)
    monkeypatch.setenv("PATH", "%s:/bin:/usr/bin" % folder)


def test_commands_run_in_the_c_locale_without_a_shell(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, '#!/bin/sh\nprintf "%s|%s|" "$LC_ALL" "$1"; cat; echo oops >&2; exit 3\n')
    assert command.run(["nvidia-smi", "$(id) ; *"]) == CommandResult(3, "C|$(id) ; *|", "oops\n")


def test_a_hanging_command_times_out(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(command, "_SHORT_TIMEOUT_SECONDS", 0.05)
    given_up = refusal(command.run, ["nvidia-smi"])
    assert given_up.waited
    assert given_up.code == codes.TIMEOUT
    assert "no response after 0.05 seconds" in str(given_up)
    assert "dmesg for NVRM and Xid" in str(given_up)


def test_writes_are_not_interrupted(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path, "#!/bin/sh\nsleep 0.3\n")
    monkeypatch.setattr(command, "_TIMEOUT_SECONDS", 0.05)
    assert command.run(["nvidia-smi", "mig", "-dgi", "-gi", "1"]).rc == 0
