# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts, from a fully equipped node to an empty one."""

from __future__ import annotations

import threading

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Board
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.facts import gather
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.installation import DriverInstallation
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.node import (
    FabricManager,
    KernelModule,
    Package,
    PciGpu,
    PciSwitch,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import H100, FakeBackend, FakeGpu

INSTALLATION = {"installation": {"method": "packages", "evidence": ["nvidia-dkms-580"]}}
UNKNOWN = {"capable": None, "current": None, "pending": None, "instances": None, "devices": None}

NO_MODULE = KernelModule("none", None, None)


class FakeNode:
    """The data of a node that do not come from the driver; empty by default."""

    def __init__(self, gpus=(), kernel=NO_MODULE, packages=()):
        self.gpus = lambda: None if gpus is None else tuple(gpus)
        self.kernel_module = lambda: kernel
        self.packages = lambda: None if packages is None else tuple(packages)
        self.installation = lambda: DriverInstallation("packages", ("nvidia-dkms-580",))
        self.device_files = lambda bus_id, gi, ci: ["%s/gi%d/ci%d" % (bus_id, gi, ci)]
        self.secure_boot = lambda: "disabled"
        self.fabric_manager = lambda: FabricManager(True, True, False)
        self.nvswitches = lambda: (PciSwitch("00000000:05:00.0", 0x22A310DE),)


class Driver(FakeBackend):
    name = "nvml"
    closed = 0

    def close(self):
        self.closed += 1

    def identify(self, index):
        gpu = self._call("identify", index, self.gpus[index].snapshot)
        return gpu._replace(board=Board(gpu.name, (), 0, 0, 0), profiles_known=False, instances=(), processes=())


def device(uuid, gi, ci, profile):
    files = ["00000000:07:00.0/gi%d/ci%d" % (gi, ci)]
    return {"uuid": uuid, "gi_id": gi, "ci_id": ci, "profile": profile, "device_files": files}


def broken(code=codes.LIBRARY_NOT_FOUND, call="nvmlInit"):
    """A node without a working driver."""

    def open_backend():
        raise BackendError(code, call, "", "Install the driver")

    return open_backend


def test_facts_of_a_working_driver():
    gpu = FakeGpu()
    gpu.add("3g.20gb", 4, cis=(2, 1))
    gpu.add("1g.5gb", 0)
    driver = Driver(gpu, FakeGpu(index=1, mode=False))
    facts = gather(FakeNode(kernel=KernelModule("open", "550.163.01", "580.95.05")), lambda: driver)
    assert facts["driver"] == {"version": "550.163.01", "source": "nvml", "problem": None, **INSTALLATION}
    assert facts["cuda_version"] == "12.4"
    assert facts["nvml_version"] == "12.550.163.01"
    assert facts["kernel_module"] == {
        "flavour": "open",
        "loaded_version": "550.163.01",
        "installed_version": "580.95.05",
        "versions_match": False,
    }
    assert facts["secure_boot"] == "disabled"
    assert facts["fabric_manager"] == {"installed": True, "active": True, "enabled": False}
    assert facts["nvswitches"] == [{"pci_bus_id": "00000000:05:00.0", "pci_device_id": "0x22A310DE"}]
    first, second = facts["gpus"]
    keys = ("index", "uuid", "pci_bus_id", "pci_device_id", "pci_subsystem_id", "name", "problem")
    assert {key: first[key] for key in keys} == {
        "index": 0,
        "uuid": gpu.uuid,
        "pci_bus_id": "00000000:07:00.0",
        "pci_device_id": "0x20B010DE",
        "pci_subsystem_id": "0x134F10DE",
        "name": "NVIDIA A100-SXM4-40GB",
        "problem": None,
    }
    assert first["mig"] == {
        "capable": True,
        "current": True,
        "pending": True,
        "instances": [
            {
                "id": 7,
                "profile": "1g.5gb",
                "start": 0,
                "size": 1,
                "compute_instances": [{"id": 0, "profile": "1g.5gb", "slices": 1, "uuid": "MIG-0-7-0"}],
            },
            {
                "id": 2,
                "profile": "3g.20gb",
                "start": 4,
                "size": 4,
                "compute_instances": [
                    {"id": 0, "profile": "2c.3g.20gb", "slices": 2, "uuid": "MIG-0-2-0"},
                    {"id": 1, "profile": "1c.3g.20gb", "slices": 1, "uuid": "MIG-0-2-1"},
                ],
            },
        ],
        "devices": [
            device("MIG-0-7-0", 7, 0, "1g.5gb"),
            device("MIG-0-2-0", 2, 0, "2c.3g.20gb"),
            device("MIG-0-2-1", 2, 1, "1c.3g.20gb"),
        ],
    }
    assert second["mig"] == {"capable": True, "current": False, "pending": False, "instances": [], "devices": []}
    assert driver.closed == 1


def test_a_compute_instance_with_fewer_multiprocessors_has_its_own_name():
    gpu = FakeGpu(board=H100)
    gpu.add("1g.20gb", 2, slices=1, reduced=True)
    gpu.add("1g.20gb", 4, slices=1)
    (found,) = gather(FakeNode(), lambda: Driver(gpu))["gpus"]
    assert [one["profile"] for one in found["mig"]["instances"]] == ["1g.20gb", "1g.20gb"]
    assert [one["profile"] for one in found["mig"]["devices"]] == ["1c.1g.20gb", "1g.20gb"]


def test_the_source_is_the_driver_that_was_opened():
    driver = Driver(FakeGpu())
    driver.name = "nvidia_smi"
    facts = gather(FakeNode(), lambda: driver)
    assert facts["driver"] == {"version": "550.163.01", "source": "nvidia_smi", "problem": None, **INSTALLATION}


def test_without_a_working_driver_the_kernel_module_and_the_bus_are_read():
    facts = gather(
        FakeNode(
            gpus=[PciGpu("00000000:47:00.0", 0x20B510DE, "NVIDIA A100 80GB PCIe", "GPU-9f0c")],
            kernel=KernelModule("proprietary", "550.163.01", "550.163.01"),
        ),
        broken(),
    )
    assert facts["driver"] == {
        "version": "550.163.01",
        "source": "proc",
        "problem": "nvmlInit: LIBRARY_NOT_FOUND. Install the driver",
        **INSTALLATION,
    }
    assert facts["kernel_module"]["versions_match"] is True
    (gpu,) = facts["gpus"]
    assert (gpu["index"], gpu["uuid"], gpu["name"]) == (None, "GPU-9f0c", "NVIDIA A100 80GB PCIe")
    assert gpu["mig"] == UNKNOWN


def test_a_library_without_a_kernel_module_is_a_problem_but_not_a_failure():
    facts = gather(
        FakeNode(packages=[Package("libnvidia-ml1", "550.163.01")]),
        broken(codes.DRIVER_NOT_LOADED),
    )
    problem = "nvmlInit: DRIVER_NOT_LOADED. Install the driver"
    assert facts["driver"] == {"version": "550.163.01", "source": "package", "problem": problem, **INSTALLATION}
    assert facts["kernel_module"]["flavour"] == "none"


def test_a_module_on_disk_is_a_version_that_is_installed():
    facts = gather(FakeNode(kernel=KernelModule("open", None, "580.95.05")), broken())
    assert facts["driver"]["version"] == "580.95.05"
    assert facts["driver"]["source"] == "package"
    assert facts["kernel_module"]["versions_match"] is None


@pytest.mark.parametrize("call", ["count", "versions", "read"])
def test_a_transient_error_is_retried(call):
    driver = FakeBackend(FakeGpu())
    driver.fail[(call, 0)] = codes.UNKNOWN
    facts = gather(FakeNode(), lambda: driver)
    assert [gpu["problem"] for gpu in facts["gpus"]] == [None]
    assert (facts["driver"]["version"], facts["driver"]["problem"]) == ("550.163.01", None)


def test_unreadable_versions_do_not_hide_the_gpus():
    driver = Driver(FakeGpu())
    driver.always["versions"] = codes.UNKNOWN
    facts = gather(FakeNode(kernel=KernelModule("open", "550.163.01", None)), lambda: driver)
    assert (facts["driver"]["version"], facts["driver"]["source"], facts["cuda_version"]) == (
        "550.163.01",
        "proc",
        None,
    )
    assert "UNKNOWN" in facts["driver"]["problem"]
    assert [gpu["problem"] for gpu in facts["gpus"]] == [None]


def test_versions_that_time_out_end_the_query():
    """Each GPU would time out too."""
    driver = Driver(FakeGpu())
    driver.always["versions"] = codes.TIMEOUT
    facts = gather(FakeNode(gpus=None), lambda: driver)
    assert facts["gpus"] is None and "TIMEOUT" in facts["driver"]["problem"]


def test_unreadable_values_are_null():
    node = FakeNode(gpus=None, kernel=KernelModule(None, None, None), packages=None)
    node.secure_boot = lambda: None
    node.fabric_manager = lambda: FabricManager(None, None, None)
    node.nvswitches = lambda: None
    facts = gather(node, broken())
    assert facts["driver"]["version"] is None
    assert facts["kernel_module"] == dict.fromkeys(("flavour", "loaded_version", "installed_version", "versions_match"))
    assert (facts["secure_boot"], facts["nvswitches"], facts["gpus"]) == (None, None, None)
    assert facts["fabric_manager"] == dict.fromkeys(("installed", "active", "enabled"))


def test_a_device_id_that_cannot_be_read_is_null():
    (gpu,) = gather(FakeNode(gpus=[PciGpu("00000000:47:00.0", None, None, None)]), broken())["gpus"]
    assert gpu["pci_device_id"] is None and gpu["pci_subsystem_id"] is None


def test_the_drivers_list_is_enough_if_the_pci_bus_cannot_be_read():
    assert gather(FakeNode(gpus=None), Driver)["gpus"] == []
    assert len(gather(FakeNode(gpus=None), lambda: Driver(FakeGpu()))["gpus"]) == 1


def test_an_empty_node_gives_empty_lists():
    facts = gather(FakeNode(), broken())
    assert facts["driver"]["version"] is None
    assert facts["driver"]["source"] is None
    assert facts["gpus"] == []


def test_gpus_that_the_driver_does_not_list_come_after_its_own():
    node = FakeNode(
        gpus=[
            PciGpu("00000000:01:00.0", 0x20B510DE, None, None),  # for example, passed through to a virtual machine
            PciGpu("00000000:07:00.0", 0x20B010DE, None, None),
        ]
    )
    gpus = gather(node, lambda: Driver(FakeGpu()))["gpus"]
    assert [(gpu["index"], gpu["pci_bus_id"]) for gpu in gpus] == [(0, "00000000:07:00.0"), (None, "00000000:01:00.0")]
    assert set(gpus[0]) == set(gpus[1])


def test_without_root_identity_and_mode_are_known_and_the_rest_is_explained():
    driver = Driver(FakeGpu())
    driver.always["read"] = codes.NO_PERMISSION
    (gpu,) = gather(FakeNode(), lambda: driver)["gpus"]
    assert gpu["uuid"] == driver.gpus[0].uuid
    assert "NO_PERMISSION" in gpu["problem"]
    assert gpu["mig"] == {"capable": True, "current": True, "pending": True, "instances": None, "devices": None}


def test_gpus_are_read_in_parallel():
    """A slow driver call delays the node once: all GPUs are in it at the same time."""
    driver = Driver(*(FakeGpu(index=index) for index in range(4)))
    together = threading.Barrier(4, timeout=10)
    driver.before = lambda name: together.wait() if name == "read" else None
    assert [gpu["index"] for gpu in gather(FakeNode(gpus=None), lambda: driver)["gpus"]] == [0, 1, 2, 3]


def test_a_known_board_that_denies_mig_is_a_problem_not_an_answer():
    driver = Driver(FakeGpu())
    driver.gpus[0].current = driver.gpus[0].pending = None  # as the backends identify it
    driver.always["read"] = codes.NOT_SUPPORTED
    (gpu,) = gather(FakeNode(), lambda: driver)["gpus"]
    assert gpu["uuid"] == driver.gpus[0].uuid and "NOT_SUPPORTED" in gpu["problem"]
    assert gpu["mig"] == {"capable": True, "current": None, "pending": None, "instances": None, "devices": None}


def test_a_mig_device_that_the_driver_does_not_list_has_no_uuid_and_is_a_problem():
    fake = FakeGpu()
    fake.add("3g.20gb", 4, cis=(2, 1))
    driver = Driver(fake)
    read = fake.snapshot()
    (gi,) = read.instances
    listed, missing = gi.compute_instances
    gi = gi._replace(compute_instances=(listed, missing._replace(uuid=None)))
    fake.snapshot = lambda: read._replace(instances=(gi,))
    (gpu,) = gather(FakeNode(), lambda: driver)["gpus"]
    assert [device["uuid"] for device in gpu["mig"]["devices"]] == [listed.uuid, None]
    assert "compute instance %d of GPU instance %d" % (missing.id, gi.id) in gpu["problem"]


def test_a_lost_gpu_does_not_hide_the_others():
    driver = Driver(FakeGpu(), FakeGpu(index=1))
    driver.fail[("read", 0)] = codes.GPU_IS_LOST
    driver.always["identify"] = codes.GPU_IS_LOST
    lost, good = gather(FakeNode(), lambda: driver)["gpus"]
    assert (lost["index"], lost["uuid"]) == (0, None)
    assert "GPU_IS_LOST" in lost["problem"]
    assert lost["mig"] == UNKNOWN
    assert good["problem"] is None


BUS = [PciGpu("00000000:%02X:00.0" % (7 + number), 0x20B010DE, "A100", "GPU-%d" % number) for number in range(4)]


def with_lost(count, *lost):
    """A driver that lists this many GPUs and can read all but the lost ones; its bus ids are those of ``BUS``."""
    driver = Driver(*(FakeGpu(index=number) for number in range(count)))
    real = driver.read

    def read(index):
        if index in lost:
            raise BackendError(codes.GPU_IS_LOST, "nvmlDeviceGetHandleByIndex", "GPU %d" % index)
        return real(index)._replace(pci_bus_id=BUS[index].pci_bus_id)

    driver.read = driver.identify = read
    return driver


def listed(gpus):
    return [(gpu["index"], gpu["pci_bus_id"], gpu["uuid"]) for gpu in gpus]


def test_lost_gpus_are_listed_once_with_their_data_from_the_bus():
    gpus = gather(FakeNode(BUS), lambda: with_lost(4, 1, 3))["gpus"]
    assert [(gpu["index"], gpu["pci_bus_id"]) for gpu in gpus] == list(enumerate(gpu.pci_bus_id for gpu in BUS))
    assert (gpus[1]["uuid"], gpus[1]["name"], gpus[1]["pci_device_id"]) == ("GPU-1", "A100", "0x20B010DE")
    assert "GPU_IS_LOST" in gpus[3]["problem"]
    assert gpus[3]["mig"] == UNKNOWN


def test_a_passed_through_gpu_is_not_matched_to_the_lost_one():
    away = PciGpu("00000000:01:00.0", 0x20B010DE, None, None)
    gpus = gather(FakeNode([away, *BUS[:2]]), lambda: with_lost(2, 1))["gpus"]
    assert listed(gpus)[1:] == [(1, BUS[1].pci_bus_id, "GPU-1"), (None, away.pci_bus_id, None)]


def test_a_lost_gpu_that_could_be_several_on_the_bus_is_listed_once_and_names_them():
    gpus = gather(FakeNode(BUS[:3]), lambda: with_lost(2, 1))["gpus"]
    assert listed(gpus)[1:] == [(1, None, None)]
    assert gpus[1]["problem"].endswith("(on the PCI bus, it may be 00000000:08:00.0 or 00000000:09:00.0)")


def test_a_lost_gpu_that_has_left_the_bus_keeps_its_index():
    gpus = gather(FakeNode(BUS[:1]), lambda: with_lost(2, 1))["gpus"]
    assert listed(gpus)[1:] == [(1, None, None)]
