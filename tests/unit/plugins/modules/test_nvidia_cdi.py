# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_cdi with simulated nvidia-ctk and systemctl."""

from __future__ import annotations

import json
import threading
import types

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import cdi
from ansible_collections.gpufleet.node.plugins.modules import nvidia_cdi

from .module_support import cycle, run

# Prints the file "devices", and the specification in the file "json". Creates nodes as a file "tool" does.
NVIDIA_CTK = """#!/bin/sh
if [ "$1" = system ]; then
    echo "nvidia-ctk $*" >>%(work)s/calls
    . %(work)s/tool
    exit
fi
if [ "$*" = "cdi generate --format=json" ]; then
    cat %(work)s/log >&2
    cat %(work)s/json
    exit
fi
[ "$*" = "--quiet cdi generate --format=yaml" ] || [ "$*" = "--quiet cdi generate --format=json" ] || exit 64
[ -z "$NVIDIA_CTK_CDI_OUTPUT_FILE_PATH" ] || exit 65
[ ! -e %(work)s/error ] || { cat %(work)s/error >&2; exit 1; }
cat %(work)s/devices
echo "$HOOKS"
"""
# Records each call. The service writes the content of the file "service" if it exists.
SYSTEMCTL = """#!/bin/sh
case "$1" in
show) cat %(work)s/units/"$3" 2>/dev/null || echo LoadState=not-found; exit ;;
restart) [ ! -e %(work)s/service ] || cp %(work)s/service %(work)s/nvidia.yaml ;;
stop) printf 'LoadState=loaded\\nActiveState=inactive\\n' >%(work)s/units/"$2" ;;
esac
echo "$*" >>%(work)s/calls
"""
NVIDIA_MODPROBE = """#!/bin/sh
echo "nvidia-modprobe $*" >>%(work)s/calls
. %(work)s/tool
"""
LOG = """\
time="2026-11-27T12:26:44Z" level=info msg="Using driver version 550.163.01"
time="2026-11-27T12:26:44Z" level=warning msg="Could not locate /dev/nvidia-uvm: /dev/nvidia-uvm: not found"
time="2026-11-27T12:26:44Z" level=warning msg="Could not locate libcuda.so: pattern \\"libcuda.so\\" not found\\nlibcuda.so"
"""


def specification(*devices, control=("/dev/nvidiactl", "/dev/nvidia-uvm")):
    """In JSON, from the device nodes of each device."""

    def edits(nodes):
        return {"deviceNodes": [{"path": node} for node in nodes]} if nodes else {}

    listed = [{"name": str(index), "containerEdits": edits(nodes)} for index, nodes in enumerate(devices)]
    return json.dumps({"kind": "nvidia.com/gpu", "devices": listed, "containerEdits": edits(control)})


def gpu(minor, *gpu_instances, mig=False):
    """A GPU with as many compute instances as the numbers say."""
    instances = [types.SimpleNamespace(compute_instances=(None,) * number) for number in gpu_instances]
    return types.SimpleNamespace(index=minor, minor=minor, uuid="GPU-%d" % minor, mode_current=mig, instances=instances)


class Backend:
    def __init__(self, gpus):
        self.gpus = gpus

    def prefetch(self):
        pass

    def close(self):
        pass

    def count(self):
        return len(self.gpus)

    def read(self, index):
        return self.gpus[index]


class Node:
    def __init__(self, work):
        self.work = work
        self.specification = work / "nvidia.yaml"
        self.gpus = [gpu(0)]

    def json(self, *devices, **more):
        (self.work / "json").write_text(specification(*devices, **more))

    def tool(self, *devices, **more):
        """Creating device nodes makes the specification this one."""
        (self.work / "tool").write_text("cat >%s/json <<'E'\n%s\nE\n" % (self.work, specification(*devices, **more)))

    def program(self, name, text):
        path = self.work / "bin" / name
        path.write_text(text % {"work": self.work})
        path.chmod(0o755)

    def unit(self, name, state):
        (self.work / "units" / name).write_text("LoadState=loaded\nActiveState=%s\n" % state)

    def calls(self):
        path = self.work / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, **options):
        return run(nvidia_cdi.main, **options)

    def warnings(self):
        """Of a run. From ansible-core 2.19 on, they are events."""
        return [item if isinstance(item, str) else item["event"]["msg"] for item in self.run().get("warnings", [])]


@pytest.fixture
def node(tmp_path, monkeypatch):
    for name in ("bin", "units"):
        (tmp_path / name).mkdir()
    for name in ("driver", "devices"):
        (tmp_path / name).write_text("GPU-1\n")
    monkeypatch.setattr(cdi, "SETTINGS", str(tmp_path / "settings"))
    monkeypatch.setattr(cdi, "DRIVER", str(tmp_path / "driver"))
    monkeypatch.setattr(cdi, "DEFAULT_OUTPUT", str(tmp_path / "nvidia.yaml"))
    monkeypatch.setenv("PATH", "%s:/usr/bin:/bin" % (tmp_path / "bin"))
    made = Node(tmp_path)
    monkeypatch.setattr(cdi, "open_backend", lambda: Backend(made.gpus))
    made.json(["/dev/nvidia0", "/dev/dri/card0"])
    for name in ("log", "tool"):
        (tmp_path / name).write_text("")
    made.program("nvidia-ctk", NVIDIA_CTK)
    made.program("systemctl", SYSTEMCTL)
    return made


def test_create_change_and_remove(node):
    def snapshot():
        return node.specification.exists() and node.specification.read_text()

    for values in ({}, {}, {"state": "absent"}):
        cycle(node.run, snapshot, **values)
        (node.work / "devices").write_text("GPU-2\n")
    assert not node.specification.exists()


def test_a_specification_is_written_once(node):
    result = node.run()
    assert (result["changed"], bool(result["problems"]), result["reason"]) == (True, False, "outdated")
    assert result["msg"].endswith("did not list the GPUs and MIG devices of the node, and has been written")
    assert node.specification.read_text() == "GPU-1\n\n"
    assert node.specification.stat().st_mode & 0o777 == 0o644
    result = node.run()
    assert (result["changed"], bool(result["problems"]), result["reason"]) == (False, False, "current")
    assert node.calls() == []


def test_check_mode_only_compares(node):
    result = node.run(check=True)
    assert (result["changed"], result["reason"]) == (True, "outdated")
    assert result["problems"] == [result["msg"] + ". Run site.yml --tags toolkit"]
    assert not node.specification.exists()


def test_the_toolkits_service_is_preferred(node):
    node.unit(cdi.SERVICE, "inactive")
    node.unit(cdi.PATH, "active")
    (node.work / "service").write_text("GPU-1\n\n")
    node.specification.write_text("GPU-0\n\n")
    assert node.run()["changed"]
    assert node.calls() == ["restart nvidia-cdi-refresh.service", "start nvidia-cdi-refresh.path"]
    assert node.specification.read_text() == "GPU-1\n\n"


def test_a_service_that_does_nothing_is_not_trusted(node):
    node.unit(cdi.SERVICE, "inactive")
    assert node.run()["changed"]
    assert node.specification.read_text() == "GPU-1\n\n"


def test_the_services_settings_apply(node):
    target = node.work / "other.json"
    (node.work / "settings").write_text(
        "# As an administrator may write it\nNVIDIA_CTK_CDI_OUTPUT_FILE_PATH='%s'\nHOOKS=a $(b) \\\n c\n" % target
    )
    result = node.run()
    assert result["path"] == str(target)
    assert target.read_text() == "GPU-1\na $(b)  c\n"
    assert not node.specification.exists()


def test_another_output_is_written_beside_the_services(node):
    node.unit(cdi.SERVICE, "inactive")
    (node.work / "service").write_text("GPU-1\n\n")
    assert node.run(output=str(node.work / "cdi" / "mine.yaml"))["changed"]
    assert (node.work / "cdi" / "mine.yaml").read_text() == "GPU-1\n\n"


def test_empty_output_does_not_replace_the_specification(node):
    node.specification.write_text("GPU-0\n")
    (node.work / "devices").write_text("")
    result = node.run()
    assert result["failed"] and "without a specification" in result["msg"]
    assert node.specification.read_text() == "GPU-0\n"


def test_without_devices_no_specification_and_no_failed_unit_is_left(node):
    node.unit(cdi.SERVICE, "failed")
    node.unit(cdi.PATH, "active")
    node.gpus = [gpu(0, mig=True)]
    node.specification.write_text("GPU-0\n")
    (node.work / "error").write_text("failed to get spec: empty device edits\n")

    result = node.run(check=True)
    assert (result["changed"], result["reason"]) == (True, "outdated")
    assert node.specification.exists() and node.calls() == []

    result = node.run()
    assert result["changed"] and result["msg"].endswith("and has been removed")
    assert not node.specification.exists()
    assert node.calls() == [
        "stop nvidia-cdi-refresh.path",
        "stop nvidia-cdi-refresh.service",
        "reset-failed nvidia-cdi-refresh.path nvidia-cdi-refresh.service",
    ]
    result = node.run()
    assert (result["changed"], bool(result["problems"]), result["reason"]) == (False, False, "no_devices")


def test_without_devices_and_specification_only_the_units_are_stopped(node):
    node.unit(cdi.SERVICE, "failed")
    node.gpus = [gpu(0, mig=True)]
    (node.work / "error").write_text("failed to get spec: empty device edits\n")
    result = node.run()
    assert (result["changed"], result["problems"], result["reason"]) == (True, [], "no_devices")


@pytest.mark.parametrize(("missing", "reason"), [("driver", "no_driver"), ("bin/nvidia-ctk", "no_toolkit")])
def test_nothing_to_compare(node, missing, reason):
    (node.work / missing).unlink()
    node.specification.write_text("GPU-0\n")
    result = node.run()
    assert (result["changed"], result["reason"], result["problems"] == []) == (False, reason, reason == "no_driver")
    assert node.specification.exists()


def test_gpus_that_cannot_be_described(node):
    (node.work / "error").write_text("failed to initialize NVML: ERROR_UNKNOWN\n")
    node.specification.write_text("GPU-0\n")
    result = node.run()
    assert result["failed"]
    assert "ERROR_UNKNOWN. Check that nvidia-smi works" in result["msg"]
    assert node.specification.exists()


# --- The specification is compared with the devices ------------------------------------------------------------------

CAP = "/dev/nvidia-caps/nvidia-cap%d"
MIG = [gpu(0, 1, 2, mig=True), gpu(1)]
SLICES = [["/dev/nvidia0", CAP % 3, CAP % 4], ["/dev/nvidia0", CAP % 5, CAP % 6], ["/dev/nvidia0", CAP % 5, CAP % 7]]
ALL = ["/dev/nvidia0", "/dev/nvidia1", *(CAP % number for number in range(3, 8))]


def test_a_complete_specification_with_mig_devices(node):
    node.gpus = MIG
    node.json(*SLICES, ["/dev/nvidia1"], ["/dev/nvidia1"], ALL)  # by index and by UUID
    assert node.run()["reason"] == "outdated"
    assert node.calls() == []


@pytest.mark.parametrize(
    ("gpus", "devices", "control", "words"),
    [
        ([gpu(0)], [["/dev/nvidia0"]], ["/dev/nvidiactl"], "/dev/nvidia-uvm"),
        ([gpu(0), gpu(1)], [["/dev/nvidia0"], []], None, "GPU 1 (GPU-1, /dev/nvidia1)"),
        (MIG, [*SLICES[:2], ["/dev/nvidia0"], ["/dev/nvidia1"], ALL], None, "1 of 3 MIG devices of GPU 0 (GPU-0"),
        (MIG, [*SLICES[:2], SLICES[0], ["/dev/nvidia1"]], None, "1 of 3 MIG devices of GPU 0 (GPU-0"),
        ([gpu(0, mig=True), gpu(1)], [[]], None, "GPU 1 (GPU-1, /dev/nvidia1)"),
    ],
)
def test_missing_device_nodes_are_created_or_an_error(node, gpus, devices, control, words):
    node.gpus = gpus
    node.json(*devices, **({"control": control} if control else {}))
    (node.work / "log").write_text(LOG)
    node.specification.write_text("GPU-0\n")

    result = node.run(check=True)
    assert (result["changed"], result["reason"]) == (True, "incomplete")
    assert "nvidia-ctk leaves out of the CDI specification: " + words in result["problems"][0]
    assert node.calls() == []

    result = node.run()
    assert result["failed"] and words in result["msg"]
    assert "It warns: Could not locate /dev/nvidia-uvm: /dev/nvidia-uvm: not found. Check that" in result["msg"]
    assert node.specification.read_text() == "GPU-0\n"


def test_nodes_that_nvidias_tools_create(node):
    node.json(["/dev/nvidia0"], control=[])
    node.tool(["/dev/nvidia0"])
    result = node.run()
    assert (result["changed"], bool(result["problems"]), result["reason"]) == (True, False, "incomplete")
    assert node.calls() == ["nvidia-ctk system create-device-nodes --control-devices --load-kernel-modules"]
    assert node.specification.read_text() == "GPU-1\n\n"
    assert not node.run()["changed"]


def test_without_kernel_modules_on_disk_nodes_of_loaded_modules_are_created(node):
    node.json(["/dev/nvidia0"], control=[])
    node.tool(["/dev/nvidia0"])
    node.program("nvidia-ctk", NVIDIA_CTK.replace("    . ", '    [ -z "$4" ] || exit 1\n    . '))
    assert node.run()["changed"]
    assert node.calls()[1:] == ["nvidia-ctk system create-device-nodes --control-devices"]


def test_capability_devices_are_created_with_nvidia_modprobe(node, monkeypatch):
    node.program("nvidia-modprobe", NVIDIA_MODPROBE)
    capabilities = node.work / "gpu0" / "mig" / "gi1"
    (capabilities / "ci0").mkdir(parents=True)
    for path in (capabilities / "access", capabilities / "ci0" / "access"):
        path.write_text("")
    monkeypatch.setattr(
        cdi, "CAPABILITIES", ["%s/gpu*/mig/gi*/%saccess" % (node.work, folder) for folder in ("", "ci*/")]
    )
    node.gpus = [gpu(0, 1, mig=True)]
    node.json(["/dev/nvidia0"])
    node.tool(SLICES[0])
    assert node.run()["changed"]
    assert node.calls() == [
        "nvidia-modprobe -c 0",
        "nvidia-modprobe -f %s" % (capabilities / "access"),
        "nvidia-modprobe -f %s" % (capabilities / "ci0" / "access"),
    ]


def test_a_node_without_device_nodes_is_not_a_node_without_devices(node):
    (node.work / "error").write_text("failed to get spec: empty device edits\n")
    node.specification.write_text("GPU-0\n")
    result = node.run()
    assert result["failed"] and "GPU 0 (GPU-0, /dev/nvidia0)" in result["msg"]
    assert node.specification.exists()


def test_warnings_are_shown_with_a_change(node):
    (node.work / "log").write_text(LOG)
    assert node.warnings() == [
        "nvidia-ctk cdi generate warns: Could not locate /dev/nvidia-uvm: /dev/nvidia-uvm: not found; "
        'Could not locate libcuda.so: pattern "libcuda.so" not found; libcuda.so'
    ]
    assert node.warnings() == []


@pytest.mark.parametrize(("log", "end"), [("", []), (LOG, ["; 2 optional files are missing, too"])])
def test_missing_files_that_only_graphics_need_are_counted(node, log, end):
    optional = (
        "Could not locate vulkan/icd.d/nvidia_icd.json: not found",
        "Could not locate libnvidia-egl-gbm.so.1.1.1",
    )
    (node.work / "log").write_text(log + "".join('level=warning msg="%s"\n' % each for each in optional))
    assert [each[each.rindex("; ") :] for each in node.warnings()] == end


@pytest.mark.parametrize("setting", ["NVIDIA_CTK_CDI_GENERATE_DEVICE_IDS=0", "NVIDIA_CTK_CDI_GENERATE_MODE=management"])
def test_devices_that_the_settings_exclude_are_not_missing(node, setting):
    node.gpus = [gpu(0), gpu(1)]
    (node.work / "settings").write_text(setting + "\n")
    assert node.run()["reason"] == "outdated"


def test_gpus_that_cannot_be_read_are_not_compared(node, monkeypatch):
    def fail():
        raise BackendError(1, "nvmlInit", "NVML does not respond", "Check the driver")

    monkeypatch.setattr(cdi, "open_backend", fail)
    assert node.run(check=True)["reason"] == "outdated"
    assert node.warnings()[0].startswith("The CDI specification cannot be compared with the GPUs: ")


def test_gpus_are_read_in_parallel(node, monkeypatch):
    """A slow driver call delays the node once: all GPUs are in it at the same time."""
    node.gpus = [gpu(0), gpu(1)]
    node.json(["/dev/nvidia0"], ["/dev/nvidia1"])
    together = threading.Barrier(2, timeout=10)
    monkeypatch.setattr(Backend, "read", lambda self, index: (together.wait(), self.gpus[index])[1])
    assert node.run()["reason"] == "outdated"


@pytest.mark.parametrize("text", ["", "[]", '{"devices": 1}'])
def test_a_specification_that_cannot_be_read(node, text):
    (node.work / "json").write_text(text)
    result = node.run()
    assert result["failed"] and "its output with --format=json (status 0) cannot be read" in result["msg"]
