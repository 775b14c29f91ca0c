# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys
import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.command import CommandResult
from ansible_collections.gpufleet.node.plugins.module_utils._backend.names import computed_profile_name
from ansible_collections.gpufleet.node.plugins.module_utils._backend.nvml import NvmlBackend
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Placement
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.backend_support import refusal
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake_pynvml import FakeNvml, entry

THREE = {2: (9, 4, 4, {0: (2, 0, 3)})}  # one 3g.20gb at 4 with one compute instance that fills it


@pytest.fixture
def opened(monkeypatch):
    def open_backend(nvml=None, run=None):
        nvml = nvml or FakeNvml()
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        driver = NvmlBackend(run) if run else NvmlBackend()
        driver.open()
        return driver, nvml

    return open_backend


def test_reads_identity_mode_profiles_instances_and_uuids(opened):
    driver, nvml = opened()
    nvml.instances = dict(THREE)
    gpu = driver.read(0)
    assert (gpu.uuid, gpu.name, gpu.pci_bus_id) == ("GPU-one", "NVIDIA A100-SXM4-40GB", "00000000:0F:00.0")
    assert (gpu.memory_mib, gpu.compute_capability, gpu.architecture, gpu.serial) == (
        40960,
        "8.0",
        "ampere",
        "1234567890123",
    )
    assert gpu.mig_capable and gpu.mode_current and gpu.mode_pending and gpu.profiles_known
    assert [profile.name for profile in gpu.board.profiles] == ["1g.5gb", "1g.5gb+me", "3g.20gb"]
    assert (gpu.board.compute_slices, gpu.board.memory_units, gpu.board.max_gpu_instances) == (3, 8, 7)
    (instance,) = gpu.instances
    assert (instance.id, instance.profile_id, instance.placement) == (2, 9, Placement(4, 4))
    (ci,) = instance.compute_instances
    assert (ci.id, ci.profile_id, ci.slices, ci.placement, ci.uuid, ci.multiprocessors) == (
        0,
        2,
        3,
        Placement(0, 3),
        "MIG-2-0",
        42,
    )
    assert driver.versions() == ("550.163.01", "12.4", "12.550.163.01")


def test_an_older_pynvml_reads_the_same(opened):
    """11.460 has one version of the profile calls, returns bytes, and has no names."""
    new, nvml = opened()
    nvml.instances = dict(THREE)
    old, ancient = opened(FakeNvml(old=True))
    ancient.instances = dict(THREE)
    assert old.read(0) == new.read(0)


def test_an_older_library_is_queried_with_older_calls_and_names_are_computed(opened):
    driver, nvml = opened()
    nvml.names_known = False
    assert [profile.name for profile in driver.read(0).board.profiles] == ["1g.5gb", "1g.5gb+me", "3g.20gb"]


@pytest.mark.parametrize(
    ("constant", "slices", "memory", "gpu_memory", "name"),
    [
        (0, 1, 5952, 24576, "1g.6gb"),
        (8, 2, 11968, 24576, "2g.12gb+me"),
        (3, 4, 24000, 24576, "4g.24gb"),
        (0, 1, 4864, 40960, "1g.5gb"),
        (9, 1, 9856, 40960, "1g.10gb"),
        (2, 3, 19968, 40960, "3g.20gb"),
        (4, 7, 40192, 40960, "7g.40gb"),
        (0, 1, 9728, 81920, "1g.10gb"),
        (2, 3, 40192, 81920, "3g.40gb"),
        (4, 7, 80640, 81920, "7g.80gb"),
    ],
)
def test_computed_names_match_those_of_the_driver(constant, slices, memory, gpu_memory, name):
    assert computed_profile_name(constant, slices, memory, gpu_memory) == name


def test_no_pynvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    error = refusal(NvmlBackend().open)
    assert error.code == codes.LIBRARY_NOT_FOUND
    assert "Install nvidia-ml-py for %s" % sys.executable in str(error)


def test_an_unreadable_pynvml_counts_as_missing(monkeypatch, tmp_path):
    (tmp_path / "pynvml.py").write_text("print 'made for Python 2'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pynvml", raising=False)
    assert refusal(NvmlBackend().open).code == codes.LIBRARY_NOT_FOUND


def test_a_pynvml_without_placements_is_too_old(opened):
    error = refusal(opened, FakeNvml(lacks=("nvmlDeviceCreateGpuInstanceWithPlacement",)))
    assert error.code == codes.FUNCTION_NOT_FOUND and "Update nvidia-ml-py" in str(error)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (codes.NO_PERMISSION, "become: true"),
        (codes.DRIVER_NOT_LOADED, "modprobe nvidia"),
        (codes.LIBRARY_NOT_FOUND, "install the driver"),
        (codes.LIB_RM_VERSION_MISMATCH, "reboot"),
    ],
)
def test_errors_on_opening_nvml_have_a_remedy(opened, code, remedy):
    nvml = FakeNvml()
    nvml.errors["nvmlInit"] = code
    error = refusal(opened, nvml)
    assert error.code == code and error.call == "nvmlInit"
    assert remedy in str(error)


def test_a_lost_gpu_is_named(opened):
    driver, nvml = opened()
    nvml.errors["nvmlDeviceGetUUID"] = codes.GPU_IS_LOST
    error = refusal(driver.read, 0)
    assert error.code == codes.GPU_IS_LOST
    assert "GPU 0" in str(error) and "fallen off the bus" in str(error)


def test_anything_else_that_pynvml_raises_is_a_driver_error(opened):
    driver, nvml = opened()
    nvml.errors["nvmlDeviceGetName"] = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")
    assert refusal(driver.read, 0).code == codes.UNKNOWN


def test_a_gpu_without_mig(opened):
    driver, nvml = opened()
    nvml.errors["nvmlDeviceGetMigMode"] = codes.NOT_SUPPORTED
    nvml.errors["nvmlDeviceGetMaxMigDeviceCount"] = codes.NOT_SUPPORTED
    nvml.pci_device_id = 0x1EB810DE  # Tesla T4
    nvml.entries["compute", "gpu"] = [entry(7)]
    gpu = driver.read(0)
    assert not gpu.mig_capable and gpu.mode_current is None and not gpu.profiles_known
    assert [process.pid for process in gpu.processes] == [7]


def test_contradictory_mig_values_are_an_error(opened):
    driver, nvml = opened()
    nvml.pci_device_id = 0x1EB810DE
    nvml.errors["nvmlDeviceGetMigMode"] = codes.NOT_SUPPORTED
    assert "supports MIG, but the driver reports no MIG mode" in str(refusal(driver.read, 0))


def test_a_mig_device_without_handle_has_no_uuid(opened):
    driver, nvml = opened()
    nvml.instances = dict(THREE)
    nvml.errors["nvmlDeviceGetMigDeviceHandleByIndex"] = codes.NOT_FOUND
    (instance,) = driver.read(0).instances
    assert [ci.uuid for ci in instance.compute_instances] == [None]


@pytest.mark.parametrize("code", [codes.NOT_SUPPORTED, codes.FUNCTION_NOT_FOUND])
def test_a_known_board_that_denies_mig_is_an_error(opened, code):
    driver, nvml = opened()
    nvml.errors.update(dict.fromkeys(("nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"), code))
    error = refusal(driver.read, 0)
    assert error.code == codes.UNKNOWN  # a retry may help
    assert "(PCI device id 0x20B010DE) supports MIG, but the driver reports no MIG mode" in str(error)
    known = driver.identify(0)
    assert (known.uuid, known.mig_capable, known.mode_current) == ("GPU-one", True, None)
    nvml.virtualization = 2  # a vGPU has the device id of the physical GPU
    assert not driver.read(0).mig_capable


def test_profiles_may_be_unknown_while_the_mode_is_off(opened):
    driver, nvml = opened()
    nvml.mode = [0, 0]
    nvml.profiles = {}
    assert not driver.read(0).profiles_known


def test_profiles_without_placements_count_as_unknown_while_the_mode_is_off(opened):
    driver, nvml = opened()
    nvml.errors["nvmlDeviceGetGpuInstancePossiblePlacements"] = codes.NOT_SUPPORTED
    assert refusal(driver.read, 0).code == codes.NOT_SUPPORTED
    nvml.mode = [0, 0]
    assert not driver.read(0).profiles_known


def test_errors_of_other_calls_do_not_end_the_profiles(opened):
    """INVALID_ARGUMENT ends the list only if it is returned by the profile query."""
    driver, nvml = opened()
    nvml.errors["nvmlDeviceGetGpuInstancePossiblePlacements"] = codes.INVALID_ARGUMENT
    assert refusal(driver.read, 0).code == codes.INVALID_ARGUMENT


def test_profiles_are_queried_once_per_mode(opened):
    driver, nvml = opened()
    driver.read(0)
    before = nvml.calls.count("nvmlDeviceGetGpuInstanceProfileInfo")
    driver.read(0)
    assert nvml.calls.count("nvmlDeviceGetGpuInstanceProfileInfo") == before
    driver.set_mode(0, True)
    driver.read(0)
    assert nvml.calls.count("nvmlDeviceGetGpuInstanceProfileInfo") == 2 * before


def test_a_mig_device_whose_instance_is_not_listed_is_an_error(opened):
    """Otherwise its placement would count as free."""
    driver, nvml = opened()
    nvml.instances = dict(THREE)
    nvml.profiles.pop(2)
    assert "does not list the instance of MIG device MIG-2-0" in str(refusal(driver.read, 0))


@pytest.mark.parametrize(
    ("field", "architecture", "resetless"),
    [(1, 7, True), (0, 9, False), (None, 7, False), (None, 9, True), (None, 10, True), (None, 99, None)],
)
def test_whether_a_mode_change_needs_a_reset(opened, field, architecture, resetless):
    driver, nvml = opened()
    nvml.resetless_field, nvml.architecture = field, architecture
    assert driver.read(0).resetless is resetless


def test_processes_of_gpu_and_instances_are_merged(opened):
    driver, nvml = opened()
    nvml.instances = dict(THREE)
    nvml.entries = {
        ("compute", "gpu"): [entry(1), entry(2, 2, 0), entry(3, 2), entry(4)],
        ("compute", (2, 0)): [entry(2, 2, 0), entry(3), entry(4)],
        ("graphics", "gpu"): [entry(5)],
        ("mps", (2, 0)): [entry(6)],
    }
    found = [(process.pid, process.gi_id, process.ci_id) for process in driver.read(0).processes]
    assert found == [(1, None, None), (5, None, None), (2, 2, 0), (3, 2, 0), (4, 2, 0), (6, 2, 0)]
    assert driver.read(0).processes[0].name == "/usr/bin/process1"


def test_process_lists_are_optional(opened):
    nvml = FakeNvml(lacks=("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"))
    driver, nvml = opened(nvml)
    nvml.errors["nvmlDeviceGetGraphicsRunningProcesses_v3"] = codes.NOT_SUPPORTED
    nvml.entries["compute", "gpu"] = [entry(7)]
    assert [process.pid for process in driver.read(0).processes] == [7]


def test_without_the_list_of_compute_processes_nothing_counts_as_idle(opened):
    names = ["nvmlDeviceGetComputeRunningProcesses_v%d" % version for version in (2, 3)]
    driver, _nvml = opened(FakeNvml(lacks=names))
    assert refusal(driver.read, 0).code == codes.FUNCTION_NOT_FOUND


def test_process_names_fall_back_to_those_of_the_kernel(opened):
    driver, nvml = opened()
    nvml.errors["nvmlSystemGetProcessName"] = codes.NO_PERMISSION
    nvml.entries["compute", "gpu"] = [entry(1 << 30), entry(threading.get_native_id())]
    names = {process.pid: process.name for process in driver.read(0).processes}
    assert names[1 << 30] == ""
    assert names[threading.get_native_id()] != ""


def test_instances_are_created_by_reference_and_destroyed_by_id(opened):
    driver, nvml = opened()
    assert driver.create_gpu_instance(0, 9, Placement(4, 4)) == 5
    assert nvml.instances[5][:3] == (9, 4, 4)
    assert driver.create_compute_instance(0, 5, 0, 2) == 3
    assert nvml.made == (0, (2, 1))
    assert refusal(driver.destroy_gpu_instance, 0, 9).code == codes.NOT_FOUND
    driver.destroy_compute_instance(0, 5, 3)
    assert driver.create_compute_instance(0, 5, 2, None) == 3
    assert nvml.made == (2, None)
    driver.destroy_compute_instance(0, 5, 3)
    driver.destroy_gpu_instance(0, 5)
    assert nvml.instances == {}


def test_a_compute_instance_without_a_placement(opened):
    driver, nvml = opened()
    nvml.instances = dict(THREE)
    error = refusal(driver.create_compute_instance, 0, 2, 2, 1)
    assert error.code == codes.INVALID_ARGUMENT and "no placement at 1" in str(error)


def test_compute_profiles_may_lack_placements(opened):
    driver, nvml = opened()
    nvml.instances = dict(THREE)
    assert [profile.placements for profile in driver.compute_profiles(0, 2)] == [((0, 1), (1, 1), (2, 1)), ((0, 3),)]
    driver, nvml = opened(FakeNvml(lacks=("nvmlGpuInstanceGetComputeInstancePossiblePlacements",)))
    nvml.instances = dict(THREE)
    assert [profile.placements for profile in driver.compute_profiles(0, 2)] == [(), ()]


def test_an_index_that_refers_to_another_gpu_is_an_error(opened):
    driver, nvml = opened()
    driver.read(0)
    nvml.uuid = "GPU-two"
    assert "was GPU-one and is GPU-two now" in str(refusal(driver.set_mode, 0, True))


def test_reset_closes_nvml_while_nvidia_smi_runs(opened):
    during = []

    def run(argv):
        during.append((list(argv), nvml.calls[-1]))
        return CommandResult(0, "GPU 00000000:0F:00.0 was successfully reset.\nAll done.\n", "")

    driver, nvml = opened(run=run)
    driver.reset(0)
    assert during == [(["nvidia-smi", "--gpu-reset", "-i", "GPU-one"], "nvmlShutdown")]
    assert nvml.calls[-1] == "nvmlInit"
    driver.close()
    driver.close()
    assert nvml.calls.count("nvmlShutdown") == 2


def test_nvml_is_reopened_after_a_failed_reset(opened):
    driver, nvml = opened(run=lambda argv: CommandResult(255, "  GPU 00000000:0F:00.0: In use by another client\n", ""))
    assert refusal(driver.reset, 0).code == codes.IN_USE
    assert driver.read(0).uuid == "GPU-one"


def test_a_reset_waits_for_running_calls(opened):
    order = []
    reading, go_on = threading.Event(), threading.Event()
    driver, nvml = opened(run=lambda argv: order.append("reset") or CommandResult(0, "successfully reset", ""))
    name = nvml.nvmlDeviceGetName

    def slow(device):
        reading.set()
        go_on.wait()
        order.append("read")
        return name(device)

    nvml.nvmlDeviceGetName = slow
    reader = threading.Thread(target=driver.read, args=(0,))
    reader.start()
    reading.wait()
    resetter = threading.Thread(target=driver.reset, args=(0,))
    resetter.start()
    go_on.set()
    reader.join()
    resetter.join()
    assert order == ["read", "reset"]
