# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The default backend: NVML, through pynvml."""

from __future__ import annotations

import contextlib
import typing as t

from .._mig import codes
from .._mig.backend import BackendError, CiProfile, Versions
from .._mig.model import Board, ComputeInstance, Gpu, GpuInstance, Placement, Process, Profile
from . import architecture, capable, names, remedies
from .boards import board_of, mark_reduced
from .command import Runner
from .command import run as run_command
from .nvml_library import Library
from .readers_writer_lock import ReadersWriterLock

_NO_INSTANCE = 0xFFFFFFFF
_VIRTUAL = 2  # NVML_GPU_VIRTUALIZATION_MODE_VGPU: the device id is that of the physical GPU
_RESETLESS_FIELD = 184  # NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED
# Profile constants are queried until the driver reports no more, up to this limit.
_MAX_CONSTANTS = 64
# Array size for the instances of one profile. The driver's count is wrong on the A30, and it writes past a small array.
_MAX_INSTANCES = 64
_MIB = 1024 * 1024
_PROCESS_LISTS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


class _MigDevice(t.NamedTuple):
    handle: t.Any
    gi_id: int
    ci_id: int
    uuid: str


class NvmlBackend:
    """Access through NVML. Calls for different GPUs may come from different threads; a reset waits for all of them."""

    name = "nvml"

    def __init__(self, run: Runner = run_command) -> None:
        self._run = run
        self._library = Library()
        self._lock = ReadersWriterLock()
        self._initialised = False
        self._uuids: t.Dict[int, str] = {}
        # Immutable until the MIG mode changes, according to nvml.h.
        self._boards: t.Dict[t.Tuple[int, bool], t.Optional[Board]] = {}
        self._ci_profiles: t.Dict[t.Tuple[int, int], t.Tuple[CiProfile, ...]] = {}

    def open(self) -> None:
        self._library.load()
        self._initialise()

    def close(self) -> None:
        if self._initialised:
            self._initialised = False
            with contextlib.suppress(BackendError):
                self._library.call("nvmlShutdown")

    def count(self) -> int:
        with self._lock.shared():
            return int(self._library.call("nvmlDeviceGetCount"))

    def versions(self) -> Versions:
        with self._lock.shared():
            cuda = self._optional("nvmlSystemGetCudaDriverVersion_v2")
            return Versions(
                driver=self._optional("nvmlSystemGetDriverVersion"),
                cuda="%d.%d" % (cuda // 1000, cuda % 1000 // 10) if cuda else None,
                nvml=self._optional("nvmlSystemGetNVMLVersion"),
            )

    def prefetch(self) -> None:
        """Does nothing: querying GPUs one by one is not slower."""

    def identify(self, index: int) -> Gpu:
        """Identity and mode, which any user may read, without profiles, instances and processes."""
        with self._lock.shared():
            return self._identify(index, self._handle(index))

    def read(self, index: int) -> Gpu:
        with self._lock.shared():
            try:
                return self._read(index)
            except BackendError:
                self._clear_cache(index)  # the cached values may be stale
                raise

    def set_mode(self, index: int, enabled: bool) -> int:
        with self._lock.shared():
            self._clear_cache(index)
            handle = self._handle(index)
            return int(self._library.call("nvmlDeviceSetMigMode", handle, int(enabled), where=_where(index)))

    def create_gpu_instance(self, index: int, profile_id: int, placement: Placement) -> int:
        with self._lock.shared():
            where = _where(index)
            created = self._library.create_gpu_instance(
                self._handle(index), profile_id, placement.start, placement.size, where
            )
            return int(self._library.call("nvmlGpuInstanceGetInfo", created, where=where).id)

    def destroy_gpu_instance(self, index: int, gi_id: int) -> None:
        with self._lock.shared():
            self._library.call("nvmlGpuInstanceDestroy", self._gi_handle(index, gi_id), where=_where(index, gi_id))

    def compute_profiles(self, index: int, gi_id: int) -> t.Tuple[CiProfile, ...]:
        with self._lock.shared():
            handle = self._gi_handle(index, gi_id)
            info = self._library.call("nvmlGpuInstanceGetInfo", handle, where=_where(index, gi_id))
            return self._compute_profiles(index, handle, info)

    def create_compute_instance(self, index: int, gi_id: int, profile_id: int, start: t.Optional[int]) -> int:
        with self._lock.shared():
            where = _where(index, gi_id)
            parent = self._gi_handle(index, gi_id)
            if start is None:
                created = self._library.call("nvmlGpuInstanceCreateComputeInstance", parent, profile_id, where=where)
            else:
                sizes = dict(self._library.compute_instance_placements(parent, profile_id, where))
                if start not in sizes:
                    raise BackendError(
                        codes.INVALID_ARGUMENT,
                        "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
                        "%s: compute instance profile %d has no placement at %d" % (where, profile_id, start),
                    )
                created = self._library.create_compute_instance(parent, profile_id, start, sizes[start], where)
            return int(self._library.call("nvmlComputeInstanceGetInfo_v2", created, where=where).id)

    def destroy_compute_instance(self, index: int, gi_id: int, ci_id: int) -> None:
        with self._lock.shared():
            where = _where(index, gi_id, ci_id)
            parent = self._gi_handle(index, gi_id)
            handle = self._library.call("nvmlGpuInstanceGetComputeInstanceById", parent, ci_id, where=where)
            self._library.call("nvmlComputeInstanceDestroy", handle, where=where)

    def reset(self, index: int) -> None:
        from .reset import reset

        with self._lock.shared():
            self._handle(index)
            uuid = self._uuids[index]
        # This process has the GPU open through NVML, and would be a client that blocks the reset.
        with self._lock.exclusive():
            self._clear_cache(index)
            self._library.call("nvmlShutdown")
            self._initialised = False
            try:
                reset(self._run, uuid)
            finally:
                self._initialise()

    def _initialise(self) -> None:
        """Retry once: without NVML nothing can be read, such as the state after a reset."""
        try:
            self._library.call("nvmlInit")
        except BackendError:
            self._library.call("nvmlInit")
        self._initialised = True

    def _read(self, index: int) -> Gpu:
        handle = self._handle(index)
        gpu = self._identify(index, handle)
        capable.require_mode(gpu, "nvmlDeviceGetMigMode")
        if not gpu.mig_capable:
            return gpu._replace(processes=self._processes(index, handle, ()))
        board = self._board(gpu, handle)
        if board is None:
            return gpu._replace(processes=self._processes(index, handle, ()))
        devices = self._mig_devices(index, handle) if gpu.mode_current else ()
        return gpu._replace(
            board=board,
            profiles_known=True,
            instances=self._instances(index, handle, board, devices) if gpu.mode_current else (),
            processes=self._processes(index, handle, devices),
        )

    def _clear_cache(self, index: int) -> None:
        for enabled in (False, True):
            self._boards.pop((index, enabled), None)
        for key in [key for key in list(self._ci_profiles) if key[0] == index]:
            self._ci_profiles.pop(key, None)

    def _optional(self, function: str, *args: t.Any, where: str = "") -> t.Any:
        """A value that a GPU or driver may not support (None). Other errors are raised."""
        try:
            answer = self._library.call(function, *args, where=where)
        except BackendError as error:
            if error.code in (codes.NOT_SUPPORTED, codes.FUNCTION_NOT_FOUND):
                return None
            raise
        return _text(answer) if isinstance(answer, bytes) else answer

    def _handle(self, index: int) -> t.Any:
        """A new handle of the GPU. It is an error if the index now refers to a different GPU."""
        handle = self._library.call("nvmlDeviceGetHandleByIndex", index, where=_where(index))
        uuid = _text(self._library.call("nvmlDeviceGetUUID", handle, where=_where(index)))
        known = self._uuids.setdefault(index, uuid)
        if known != uuid:
            raise BackendError(
                codes.NOT_FOUND,
                "nvmlDeviceGetHandleByIndex",
                "%s was %s and is %s now" % (_where(index), known, uuid),
                remedies.GPU_GONE,
            )
        return handle

    def _identify(self, index: int, handle: t.Any) -> Gpu:
        where = _where(index)
        name = _text(self._library.call("nvmlDeviceGetName", handle, where=where))
        pci = self._library.call("nvmlDeviceGetPciInfo", handle, where=where)
        mode: t.Optional[t.Sequence[int]] = self._optional("nvmlDeviceGetMigMode", handle, where=where)
        memory = self._optional("nvmlDeviceGetMemoryInfo", handle, where=where)
        capability = self._optional("nvmlDeviceGetCudaComputeCapability", handle, where=where)
        family = architecture.NAMES.get(self._optional("nvmlDeviceGetArchitecture", handle, where=where) or 0)
        return Gpu(
            index=index,
            uuid=self._uuids[index],
            pci_bus_id=_text(pci.busId).upper(),
            name=name,
            pci_device_id=pci.pciDeviceId,
            pci_subsystem_id=pci.pciSubSystemId,
            mig_capable=mode is not None or self._may_have_mode(handle, pci.pciDeviceId, where),
            mode_current=bool(mode[0]) if mode else None,
            mode_pending=bool(mode[1]) if mode else None,
            resetless=self._resetless(handle, family, where) if mode else None,
            board=Board(name, (), 0, 0, 0),
            profiles_known=False,
            memory_mib=memory.total // _MIB if memory else None,
            architecture=family,
            compute_capability="%d.%d" % capability if capability else None,
            serial=self._optional("nvmlDeviceGetSerial", handle, where=where),
            minor=self._optional("nvmlDeviceGetMinorNumber", handle, where=where),
        )

    def _may_have_mode(self, handle: t.Any, device_id: int, where: str) -> bool:
        """Whether a GPU supports MIG although the driver does not report its mode."""
        if self._optional("nvmlDeviceGetMaxMigDeviceCount", handle, where=where):
            return True
        return (
            device_id in capable.DEVICES
            and self._optional("nvmlDeviceGetVirtualizationMode", handle, where=where) != _VIRTUAL
        )

    def _resetless(self, handle: t.Any, family: t.Optional[str], where: str) -> t.Optional[bool]:
        fields = self._optional("nvmlDeviceGetFieldValues", handle, [_RESETLESS_FIELD], where=where)
        if fields and fields[0].nvmlReturn == codes.SUCCESS:
            return bool(fields[0].value.uiVal)
        return architecture.resetless(family)

    def _board(self, gpu: Gpu, handle: t.Any) -> t.Optional[Board]:
        """The board of the GPU; None if the driver does not list profiles while MIG mode is off."""
        key = (gpu.index, bool(gpu.mode_current))
        if key not in self._boards:
            self._boards[key] = self._read_board(gpu, handle)
        return self._boards[key]

    def _read_board(self, gpu: Gpu, handle: t.Any) -> t.Optional[Board]:
        where = _where(gpu.index)
        offered = list(_all(lambda constant: self._library.gpu_instance_profile(handle, constant, where)))
        profiles = [self._profile(gpu, handle, constant, info) for constant, info in offered]
        return board_of(gpu, profiles, "nvmlDeviceGetGpuInstancePossiblePlacements")

    def _profile(self, gpu: Gpu, handle: t.Any, constant: int, info: t.Any) -> Profile:
        where = _where(gpu.index)
        try:
            places = self._library.gpu_instance_placements(handle, info.id, where)
        except BackendError as error:
            if error.code != codes.NOT_SUPPORTED:
                raise
            places = []
        name = names.profile_name(_text(getattr(info, "name", "")))
        return Profile(
            name=name or names.computed_profile_name(constant, info.sliceCount, info.memorySizeMB, gpu.memory_mib or 0),
            id=info.id,
            constant=constant,
            slices=info.sliceCount,
            memory_mib=info.memorySizeMB,
            multiprocessors=info.multiprocessorCount,
            max_instances=info.instanceCount,
            placements=tuple(Placement(start, size) for start, size in places),
        )

    def _mig_devices(self, index: int, handle: t.Any) -> t.Tuple[_MigDevice, ...]:
        where = _where(index)
        found = []
        for number in range(self._library.call("nvmlDeviceGetMaxMigDeviceCount", handle, where=where)):
            try:
                device = self._library.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, number, where=where)
            except BackendError as error:
                if error.code == codes.NOT_FOUND:  # a gap: others may follow
                    continue
                raise
            gi_id, ci_id, uuid = (
                self._library.call(function, device, where=where)
                for function in ("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetUUID")
            )
            found.append(_MigDevice(device, gi_id, ci_id, _text(uuid)))
        return tuple(found)

    def _instances(
        self, index: int, handle: t.Any, board: Board, devices: t.Sequence[_MigDevice]
    ) -> t.Tuple[GpuInstance, ...]:
        uuids = {(device.gi_id, device.ci_id): device.uuid for device in devices}
        found = []
        for profile in board.profiles:
            for gi_handle in self._library.gpu_instances(handle, profile.id, _MAX_INSTANCES, _where(index)):
                info = self._library.call("nvmlGpuInstanceGetInfo", gi_handle, where=_where(index))
                inside = self._compute_instances(index, gi_handle, info, uuids)
                place = Placement(info.placement.start, info.placement.size)
                found.append(GpuInstance(info.id, info.profileId, place, inside))
        listed = {(gi.id, ci.id) for gi in found for ci in gi.compute_instances}
        unknown = sorted(set(uuids) - listed)
        if unknown:
            raise BackendError(
                codes.UNKNOWN,
                "nvmlDeviceGetGpuInstances",
                "%s does not list the instance of MIG device %s" % (_where(index, *unknown[0]), uuids[unknown[0]]),
            )
        return tuple(sorted(found, key=lambda gi: gi.id))

    def _compute_instances(
        self, index: int, gi_handle: t.Any, gi: t.Any, uuids: t.Mapping[t.Tuple[int, int], str]
    ) -> t.Tuple[ComputeInstance, ...]:
        found = []
        for profile in self._compute_profiles(index, gi_handle, gi):
            for handle in self._library.compute_instances(gi_handle, profile.id, _MAX_INSTANCES, _where(index, gi.id)):
                info = self._library.call("nvmlComputeInstanceGetInfo_v2", handle, where=_where(index, gi.id))
                found.append(
                    ComputeInstance(
                        id=info.id,
                        profile_id=info.profileId,
                        slices=profile.slices,
                        placement=Placement(info.placement.start, info.placement.size),
                        uuid=uuids.get((gi.id, info.id)),
                        multiprocessors=profile.multiprocessors,
                        reduced=profile.reduced,
                    )
                )
        return tuple(sorted(found, key=lambda ci: ci.id))

    def _compute_profiles(self, index: int, gi_handle: t.Any, gi: t.Any) -> t.Tuple[CiProfile, ...]:
        """``gi`` is the information about the GPU instance that NVML returns."""
        key = (index, gi.profileId)
        if key not in self._ci_profiles:
            self._ci_profiles[key] = mark_reduced(self._read_compute_profiles(gi_handle, _where(index, gi.id)))
        return self._ci_profiles[key]

    def _read_compute_profiles(self, gi_handle: t.Any, where: str) -> t.Iterator[CiProfile]:
        offered = list(_all(lambda constant: self._library.compute_instance_profile(gi_handle, constant, where)))
        for _constant, info in offered:
            try:
                places = self._library.compute_instance_placements(gi_handle, info.id, where)
            except BackendError as error:
                if error.code not in (codes.NOT_SUPPORTED, codes.FUNCTION_NOT_FOUND):
                    raise
                places = []
            yield CiProfile(
                id=info.id,
                slices=info.sliceCount,
                multiprocessors=info.multiprocessorCount,
                max_instances=info.instanceCount,
                placements=tuple(places),
            )

    def _gi_handle(self, index: int, gi_id: int) -> t.Any:
        return self._library.call(
            "nvmlDeviceGetGpuInstanceById", self._handle(index), gi_id, where=_where(index, gi_id)
        )

    def _processes(self, index: int, handle: t.Any, devices: t.Sequence[_MigDevice]) -> t.Tuple[Process, ...]:
        """Processes of the GPU and of each MIG device, because the GPU's list may not contain the instances."""
        inside = {
            (entry.pid, device.gi_id, device.ci_id)
            for device in devices
            for entry in self._process_entries(device.handle, _where(index, device.gi_id, device.ci_id))
        }
        known = {pid for pid, _gi, _ci in inside} | {(pid, gi_id) for pid, gi_id, _ci in inside}
        found: t.Set[t.Tuple[int, t.Optional[int], t.Optional[int]]] = set(inside)
        for entry in self._process_entries(handle, _where(index)):
            gi_id, ci_id = _instance_id(entry, "gpuInstanceId"), _instance_id(entry, "computeInstanceId")
            if gi_id is None and entry.pid in known or ci_id is None and (entry.pid, gi_id) in known:
                continue
            found.add((entry.pid, gi_id, ci_id))
        ordered = sorted(found, key=lambda key: tuple(-1 if part is None else part for part in key[1:] + key[:1]))
        return tuple(Process(pid, self._process_name(pid), gi_id, ci_id) for pid, gi_id, ci_id in ordered)

    def _process_entries(self, handle: t.Any, where: str) -> t.Iterator[t.Any]:
        for function in _PROCESS_LISTS:
            yield from self._process_list(function, handle, where)

    def _process_list(self, function: str, handle: t.Any, where: str) -> t.Sequence[t.Any]:
        missing: t.Optional[BackendError] = None
        for version in ("_v3", "_v2"):
            try:
                return t.cast("t.Sequence[t.Any]", self._library.call(function + version, handle, where=where))
            except BackendError as error:
                if error.code == codes.NOT_SUPPORTED:
                    return ()
                if error.code != codes.FUNCTION_NOT_FOUND:
                    raise
                missing = error
        # Without the list of compute processes no instance is known to be idle; the other lists are optional.
        if function == _PROCESS_LISTS[0] and missing is not None:
            raise missing
        return ()

    def _process_name(self, pid: int) -> str:
        try:
            name = _text(self._library.call("nvmlSystemGetProcessName", pid))
        except BackendError:  # exited, or in another namespace; the name is optional
            name = ""
        return name or names.process_name(pid)


def _all(query: t.Callable[[int], t.Any]) -> t.Iterator[t.Tuple[int, t.Any]]:
    """All profiles that driver and GPU support. NVML does not list them, so every number is queried."""
    for constant in range(_MAX_CONSTANTS):
        try:
            info = query(constant)
        except BackendError as error:
            if error.code == codes.INVALID_ARGUMENT:  # beyond the last one
                return
            if error.code != codes.NOT_SUPPORTED:
                raise
        else:
            yield constant, info


def _where(index: int, gi_id: t.Optional[int] = None, ci_id: t.Optional[int] = None) -> str:
    text = "GPU %d" % index
    if gi_id is not None:
        text += ", GPU instance %d" % gi_id
    if ci_id is not None:
        text += ", compute instance %d" % ci_id
    return text


def _text(value: t.Any) -> str:
    """pynvml before 11.500 returns bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _instance_id(entry: t.Any, field: str) -> t.Optional[int]:
    value = getattr(entry, field, _NO_INSTANCE)
    return None if value is None or value == _NO_INSTANCE else int(value)
