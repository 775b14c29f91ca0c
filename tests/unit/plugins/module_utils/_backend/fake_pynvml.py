# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A pynvml in memory: one GPU, real structures, and the differences between versions."""

from __future__ import annotations

import ctypes
import types

NO_INSTANCE = 0xFFFFFFFF


class Error(Exception):
    """Like pynvml's NVMLError: the code is in ``value``."""

    def __init__(self, value):
        super().__init__("error %d" % value)
        self.value = value


class Placement(ctypes.Structure):
    _fields_ = [("start", ctypes.c_uint), ("size", ctypes.c_uint)]


class _Instance(ctypes.Structure):
    pass


GiHandle = ctypes.POINTER(_Instance)
CiHandle = ctypes.POINTER(_Instance)


def record(**fields):
    return types.SimpleNamespace(**fields)


class FakeNvml(types.ModuleType):
    """The module. ``errors`` maps a function to the code that it raises, ``lacks`` lists missing functions."""

    NVMLError = Error
    c_nvmlGpuInstance_t = GiHandle
    c_nvmlComputeInstance_t = CiHandle
    c_nvmlGpuInstancePlacement_t = Placement
    c_nvmlComputeInstancePlacement_t = Placement

    def __init__(self, lacks=(), old=False):
        super().__init__("pynvml")
        self.calls = []
        self.errors = {}
        self.mode = [1, 1]
        self.uuid = "GPU-one"
        self.pci_device_id = 0x20B010DE
        self.virtualization = 0
        self.memory_mib = 40960
        self.architecture = 7
        self.resetless_field = None
        self.old = old  # bytes instead of text, no versions of profile calls
        self.names_known = True
        # constant -> (id, slices, memory, multiprocessors, how many), and placements by id
        self.profiles = {0: (19, 1, 4864, 14, 7), 2: (9, 3, 19968, 42, 2), 7: (20, 1, 4864, 14, 1)}
        self.placements = {19: [(start, 1) for start in range(7)], 9: [(0, 4), (4, 4)], 20: [(0, 1)]}
        self.instances = {}  # GI id -> (profile id, start, size, {CI id: (profile id, start, size)})
        self.holes = 2  # MIG device numbers without a device, before the devices
        self.entries = {}  # (kind, MIG device or "gpu") -> entries of a process list
        self.made = None
        for name in dir(type(self)):
            if name.startswith("fake_") and name[5:] not in lacks:
                setattr(self, name[5:], self._wrapped(name[5:], getattr(self, name)))
        if old:
            for name in ("nvmlDeviceGetGpuInstanceProfileInfo", "nvmlGpuInstanceGetComputeInstanceProfileInfo"):
                setattr(self, name, self._without_version(name, getattr(self, name)))

    def _wrapped(self, name, function):
        def call(*args, **kwargs):
            self.calls.append(name)
            problem = self.errors.get(name)
            if isinstance(problem, Exception):
                raise problem
            if problem is not None:
                raise Error(problem)
            return function(*args, **kwargs)

        if "ProfileInfo" in name:

            def versioned(parent, profile, *rest, version=2):
                return call(parent, profile, *rest)

            return versioned
        return call

    @staticmethod
    def _without_version(name, function):
        if name == "nvmlDeviceGetGpuInstanceProfileInfo":
            return lambda device, profile: function(device, profile, 1)
        return lambda instance, profile, engine: function(instance, profile, engine, 1)

    def text(self, value):
        return value.encode() if self.old else value

    # library

    def fake_nvmlInit(self):
        pass

    def fake_nvmlShutdown(self):
        pass

    def fake_nvmlSystemGetDriverVersion(self):
        return self.text("550.163.01")

    def fake_nvmlSystemGetCudaDriverVersion_v2(self):
        return 12040

    def fake_nvmlSystemGetNVMLVersion(self):
        return self.text("12.550.163.01")

    def fake_nvmlSystemGetProcessName(self, pid):
        return self.text("/usr/bin/process%d" % pid)

    # the GPU

    def fake_nvmlDeviceGetCount(self):
        return 1

    def fake_nvmlDeviceGetHandleByIndex(self, index):
        return "gpu"

    def fake_nvmlDeviceGetUUID(self, device):
        return self.text(self.uuid if device == "gpu" else "MIG-%d-%d" % device)

    def fake_nvmlDeviceGetName(self, device):
        return self.text("NVIDIA A100-SXM4-40GB")

    def fake_nvmlDeviceGetPciInfo(self, device):
        return record(busId=self.text("00000000:0f:00.0"), pciDeviceId=self.pci_device_id, pciSubSystemId=0x134F10DE)

    def fake_nvmlDeviceGetMemoryInfo(self, device):
        return record(total=self.memory_mib * 1024 * 1024)

    def fake_nvmlDeviceGetCudaComputeCapability(self, device):
        return (8, 0)

    def fake_nvmlDeviceGetArchitecture(self, device):
        return self.architecture

    def fake_nvmlDeviceGetSerial(self, device):
        return self.text("1234567890123")

    def fake_nvmlDeviceGetMinorNumber(self, device):
        return 0

    def fake_nvmlDeviceGetFieldValues(self, device, fields):
        known = self.resetless_field is not None
        return [record(nvmlReturn=0 if known else 3, value=record(uiVal=self.resetless_field))]

    # MIG

    def fake_nvmlDeviceGetMigMode(self, device):
        return list(self.mode)

    def fake_nvmlDeviceSetMigMode(self, device, mode):
        self.mode = [mode, mode]
        return 0

    def fake_nvmlDeviceGetGpuInstanceProfileInfo(self, device, constant, version=2):
        if version == 2 and not self.names_known:
            raise Error(13)
        if constant > 17:
            raise Error(2)
        if constant not in self.profiles:
            raise Error(3)
        identity, slices, memory, multiprocessors, count = self.profiles[constant]
        info = record(
            id=identity,
            sliceCount=slices,
            instanceCount=count,
            multiprocessorCount=multiprocessors,
            memorySizeMB=memory,
            copyEngineCount=1,
            decoderCount=0,
            encoderCount=0,
            jpegCount=0,
            ofaCount=0,
        )
        if version == 2:
            info.name = self.text("MIG %dg.%dgb%s" % (slices, 20 if slices == 3 else 5, "+me" if constant == 7 else ""))
        return info

    def fake_nvmlDeviceGetGpuInstancePossiblePlacements(self, device, profile_id, array, count):
        self._fill(self.placements.get(profile_id, []), array, count)

    @staticmethod
    def _fill(places, array, count):
        target = count._obj
        if array is not None:
            for position, (start, size) in enumerate(places):
                array[position].start, array[position].size = start, size
        target.value = len(places)

    def fake_nvmlDeviceGetGpuInstances(self, device, profile_id, array, count):
        found = [key for key, value in self.instances.items() if value[0] == profile_id]
        self._handles(found, array, count)

    @staticmethod
    def _handles(found, array, count):
        for position, key in enumerate(found):
            array[position] = ctypes.cast(key + 1, type(array[position]))
        count._obj.value = len(found)

    @staticmethod
    def _key(handle):
        return ctypes.cast(handle, ctypes.c_void_p).value - 1

    def fake_nvmlDeviceGetGpuInstanceById(self, device, gi_id):
        if gi_id not in self.instances:
            raise Error(6)
        return ctypes.cast(gi_id + 1, GiHandle)

    def fake_nvmlGpuInstanceGetInfo(self, handle):
        gi_id = self._key(handle)
        profile_id, start, size, _inside = self.instances[gi_id]
        return record(id=gi_id, profileId=profile_id, placement=record(start=start, size=size))

    def fake_nvmlDeviceCreateGpuInstanceWithPlacement(self, device, profile_id, placement):
        self.instances[5] = (profile_id, placement._obj.start, placement._obj.size, {})
        return ctypes.cast(6, GiHandle)

    def fake_nvmlGpuInstanceDestroy(self, handle):
        del self.instances[self._key(handle)]

    def fake_nvmlGpuInstanceGetComputeInstanceProfileInfo(self, handle, constant, engine, version=2):
        if constant > 8:
            raise Error(2)
        if constant not in (0, 2):
            raise Error(3)
        info = record(
            id=constant, sliceCount=constant + 1, instanceCount=3 - constant, multiprocessorCount=14 + 14 * constant
        )
        if version == 2:
            info.name = self.text("MIG 1c.3g.20gb" if constant == 0 else "MIG 3g.20gb")
        return info

    def fake_nvmlGpuInstanceGetComputeInstancePossiblePlacements(self, handle, profile_id, array, count):
        self._fill([(0, 1), (1, 1), (2, 1)] if profile_id == 0 else [(0, 3)], array, count)

    def fake_nvmlGpuInstanceGetComputeInstances(self, handle, profile_id, array, count):
        gi_id = self._key(handle)
        inside = self.instances[gi_id][3]
        self._handles([gi_id * 16 + ci for ci, value in inside.items() if value[0] == profile_id], array, count)

    def fake_nvmlGpuInstanceGetComputeInstanceById(self, handle, ci_id):
        return ctypes.cast(self._key(handle) * 16 + ci_id + 1, CiHandle)

    def fake_nvmlComputeInstanceGetInfo_v2(self, handle):
        gi_id, ci_id = divmod(self._key(handle), 16)
        profile_id, start, size = self.instances[gi_id][3][ci_id]
        return record(id=ci_id, profileId=profile_id, placement=record(start=start, size=size))

    def fake_nvmlGpuInstanceCreateComputeInstance(self, handle, profile_id):
        self.made = (profile_id, None)
        return self._new_ci(handle, profile_id, 0, profile_id + 1)

    def fake_nvmlGpuInstanceCreateComputeInstanceWithPlacement(self, handle, profile_id, placement):
        self.made = (profile_id, (placement._obj.start, placement._obj.size))
        return self._new_ci(handle, profile_id, placement._obj.start, placement._obj.size)

    def _new_ci(self, handle, profile_id, start, size):
        gi_id = self._key(handle)
        self.instances[gi_id][3][3] = (profile_id, start, size)
        return ctypes.cast(gi_id * 16 + 3 + 1, CiHandle)

    def fake_nvmlComputeInstanceDestroy(self, handle):
        gi_id, ci_id = divmod(self._key(handle), 16)
        del self.instances[gi_id][3][ci_id]

    # MIG devices and processes

    def _devices(self):
        return [(gi_id, ci_id) for gi_id, value in sorted(self.instances.items()) for ci_id in sorted(value[3])]

    def fake_nvmlDeviceGetVirtualizationMode(self, device):
        return self.virtualization

    def fake_nvmlDeviceGetMaxMigDeviceCount(self, device):
        return 7

    def fake_nvmlDeviceGetMigDeviceHandleByIndex(self, device, number):
        devices = [None] * self.holes + self._devices()
        if number >= len(devices) or devices[number] is None:
            raise Error(6)
        return devices[number]

    def fake_nvmlDeviceGetGpuInstanceId(self, device):
        return device[0]

    def fake_nvmlDeviceGetComputeInstanceId(self, device):
        return device[1]

    def fake_nvmlDeviceGetComputeRunningProcesses_v3(self, device):
        return self.entries.get(("compute", device), [])

    fake_nvmlDeviceGetComputeRunningProcesses_v2 = fake_nvmlDeviceGetComputeRunningProcesses_v3

    def fake_nvmlDeviceGetGraphicsRunningProcesses_v3(self, device):
        return self.entries.get(("graphics", device), [])

    def fake_nvmlDeviceGetMPSComputeRunningProcesses_v3(self, device):
        return self.entries.get(("mps", device), [])


def entry(pid, gi=NO_INSTANCE, ci=NO_INSTANCE):
    return record(pid=pid, gpuInstanceId=gi, computeInstanceId=ci)
