# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The fallback backend: the command nvidia-smi, if pynvml cannot be imported.

It is slower, and reports neither whether a mode change needs a reset (derived from the
architecture) nor the numbers of profile constants (only needed by NVML).
"""

from __future__ import annotations

import contextlib
import typing as t

from .._mig import codes
from .._mig.backend import BackendError, CiProfile, Versions
from .._mig.model import Board, Gpu, GpuInstance, Placement
from . import capable, remedies, smi_list, smi_log, smi_model, smi_prefetch, smi_tables
from .boards import board_of, mark_reduced
from .command import CommandResult, Runner
from .command import run as run_command
from .reset import reset
from .smi_command import NvidiaSmi, command_line, parsed
from .smi_errors import failure


class _Kind(t.NamedTuple):
    name: str
    pci_device_id: int
    pci_subsystem_id: int
    memory_mib: t.Optional[int]
    mode: bool


class SmiBackend:
    """Access through nvidia-smi, one process per call."""

    name = "nvidia_smi"

    def __init__(self, run: Runner = run_command) -> None:
        self._run = run
        self._smi = NvidiaSmi(run)
        self._gpus: t.List[smi_list.Listed] = []
        self._problem: t.Optional[BackendError] = None  # why some of them are unreachable
        # Immutable until the MIG mode changes, and equal for GPUs of one kind, so only queried once: calls are slow.
        self._boards: t.Dict[_Kind, t.Optional[Board]] = {}
        self._ci_profiles: t.Dict[t.Tuple[_Kind, int], t.Tuple[CiProfile, ...]] = {}
        self._prefetched: t.Dict[int, smi_prefetch.Prefetched] = {}

    def open(self) -> None:
        try:
            self._gpus = smi_list.listed(self._smi)
        except BackendError as error:
            # If one GPU is unreachable, nvidia-smi fails to query all GPUs, but can list them and query one of the
            # others.
            if error.code in (codes.FUNCTION_NOT_FOUND, codes.DRIVER_NOT_LOADED, codes.LIBRARY_NOT_FOUND):
                raise
            self._problem = error
            self._gpus = smi_list.reachable(self._smi, error)

    def close(self) -> None:
        """Nothing is held open."""

    def count(self) -> int:
        return len(self._gpus)

    def versions(self) -> Versions:
        index = next((index for index, gpu in enumerate(self._gpus) if gpu.uuid is not None), None)
        if index is None:
            if self._problem is not None:
                raise self._problem
            return Versions()
        log = self._prefetched[index].log if index in self._prefetched else self._log(index)
        for name, text in (("driver", log.driver), ("CUDA", log.cuda)):
            if text is not None and smi_log.ERROR.match(text):
                self._clear_cache()  # the cached values may be stale
                raise failure("nvidia-smi -q -x", CommandResult(0, "%s version: %s" % (name, text), ""))
        return Versions(driver=log.driver, cuda=log.cuda)

    def identify(self, index: int) -> Gpu:
        """Identity and mode, which any user may read, without profiles, instances and processes."""
        return smi_model.gpu(index, self._log(index), self._gpus[index].compute_capability)

    def prefetch(self) -> None:
        self._prefetched = {}
        uuids = [gpu.uuid for gpu in self._gpus if gpu.uuid is not None]
        if len(uuids) == len(self._gpus) > 1:
            # If this fails, reading the GPUs one by one reports the error of each.
            with contextlib.suppress(BackendError):
                self._prefetched = smi_prefetch.prefetch(uuids, self._smi)

    def read(self, index: int) -> Gpu:
        prefetched = self._prefetched.pop(index, None)
        try:
            if prefetched is not None:
                try:
                    return self._read(index, prefetched)
                except BackendError as error:
                    if error.code == codes.TIMEOUT:  # a retry would time out too
                        raise
                    # Otherwise the prefetched result was stale: query the GPU itself.
            return self._read(index, smi_prefetch.Prefetched(self._log(index)))
        except BackendError:
            self._clear_cache()  # the cached values may be stale
            raise

    def set_mode(self, index: int, enabled: bool) -> int:
        self._clear_cache()
        return self._smi.set_mode(self._address(index), enabled)

    def create_gpu_instance(self, index: int, profile_id: int, placement: Placement) -> int:
        return self._create(index, ["-cgi", "%d:%d" % (profile_id, placement.start)])

    def destroy_gpu_instance(self, index: int, gi_id: int) -> None:
        self._destroy(index, ["-dgi", "-gi", str(gi_id)])

    def compute_profiles(self, index: int, gi_id: int) -> t.Tuple[CiProfile, ...]:
        inside = ["-gi", str(gi_id)]
        address = self._address(index)
        rows = self._smi.mig(address, ["-lcip"] + inside, smi_tables.compute_profiles)
        places = self._smi.mig(address, ["-lcipp"] + inside, smi_tables.compute_placements)
        return mark_reduced(smi_model.ci_profile(row, places.get(row.id, [])) for row in rows if row.gi_id == gi_id)

    def create_compute_instance(self, index: int, gi_id: int, profile_id: int, start: t.Optional[int]) -> int:
        what = str(profile_id) if start is None else "%d:%d" % (profile_id, start)
        return self._create(index, ["-cci", what, "-gi", str(gi_id)])

    def destroy_compute_instance(self, index: int, gi_id: int, ci_id: int) -> None:
        self._destroy(index, ["-dci", "-gi", str(gi_id), "-ci", str(ci_id)])

    def reset(self, index: int) -> None:
        self._clear_cache()
        reset(self._run, self._address(index))

    def _read(self, index: int, prefetched: smi_prefetch.Prefetched) -> Gpu:
        log = prefetched.log
        gpu = smi_model.gpu(index, log, self._gpus[index].compute_capability)
        gpu = gpu._replace(processes=smi_model.processes(log))
        capable.require_mode(gpu, "nvidia-smi -q -x")
        if not gpu.mig_capable:
            return gpu
        board = self._board(gpu)
        if board is None:
            return gpu
        instances = self._instances(gpu, prefetched) if gpu.mode_current else ()
        return gpu._replace(board=board, profiles_known=True, instances=instances)

    def _clear_cache(self) -> None:
        self._boards.clear()
        self._ci_profiles.clear()
        self._prefetched = {}

    def _address(self, index: int) -> str:
        """The argument of ``-i`` for the GPU."""
        if not 0 <= index < len(self._gpus):
            raise BackendError(codes.NOT_FOUND, "nvidia-smi", "GPU %d does not exist" % index)
        address = self._gpus[index].address
        if address is None and self._problem is not None:
            problem = self._problem
            raise BackendError(problem.code, problem.call, "GPU %d: %s" % (index, problem.detail), problem.remedy)
        return str(address)

    def _log(self, index: int) -> smi_log.Log:
        argv = ["-q", "-x", "-i", self._address(index)]
        log = self._smi.query(argv, smi_log.parse)
        if log.uuid != self._gpus[index].uuid:
            raise BackendError(
                codes.NOT_FOUND,
                command_line(argv),
                "GPU %d was %s and is %s now" % (index, self._gpus[index].uuid, log.uuid),
                remedies.GPU_GONE,
            )
        return log

    def _board(self, gpu: Gpu) -> t.Optional[Board]:
        """The board of the GPU; None if the driver does not list profiles while MIG mode is off."""
        key = _kind(gpu)
        try:
            return self._boards[key]
        except KeyError:  # also after another thread cleared the table
            board = self._boards[key] = self._read_board(gpu)
        return board

    def _read_board(self, gpu: Gpu) -> t.Optional[Board]:
        address = self._address(gpu.index)
        try:
            rows = self._smi.mig(address, ["-lgip"], smi_tables.profiles)
            places = self._smi.mig(address, ["-lgipp"], smi_tables.placements)
        except BackendError as error:
            if gpu.mode_current or error.code not in (codes.NOT_SUPPORTED, codes.NOT_FOUND):
                raise
            return None
        return board_of(gpu, [smi_model.profile(row, places) for row in rows], "nvidia-smi mig -lgip")

    def _instances(self, gpu: Gpu, prefetched: smi_prefetch.Prefetched) -> t.Tuple[GpuInstance, ...]:
        index, address, devices = gpu.index, self._address(gpu.index), prefetched.log.devices
        rows = prefetched.instances or self._smi.instances(address, ["-lgi"], smi_tables.instances)
        if not rows and devices:
            raise BackendError(codes.UNKNOWN, "nvidia-smi mig -lgi", "GPU %d: no GPU instance, but MIG devices" % index)
        if not rows:
            return ()
        inside = prefetched.compute_instances or self._smi.instances(address, ["-lci"], smi_tables.compute_instances)
        kinds = self._kinds(gpu, rows, inside)
        smi_model.require_complete(index, rows, inside, devices)
        listed = self._listed_devices(prefetched) if inside else []
        return smi_model.instances(rows, inside, kinds, smi_model.mig_uuids(index, devices, inside, listed))

    def _kinds(
        self, gpu: Gpu, rows: t.Sequence[smi_tables.InstanceRow], inside: t.Sequence[smi_tables.ComputeRow]
    ) -> smi_model.Kinds:
        """The compute instance profiles."""
        key = _kind(gpu)
        if inside and any((key, row.profile_id) not in self._ci_profiles for row in rows):
            offered = self._smi.mig(self._address(gpu.index), ["-lcip"], smi_tables.compute_profiles)
            for row in rows:
                self._ci_profiles[(key, row.profile_id)] = mark_reduced(
                    smi_model.ci_profile(each, []) for each in offered if each.gi_id == row.id
                )
        return {
            (row.profile_id, each.id): each for row in rows for each in self._ci_profiles.get((key, row.profile_id), ())
        }

    def _listed_devices(self, prefetched: smi_prefetch.Prefetched) -> t.List[smi_tables.DeviceRow]:
        # A lost GPU makes -L fail, after it has listed the others.
        text = prefetched.listed or self._smi.result(["-L"]).out
        return parsed(["-L"], text, lambda out: smi_tables.mig_devices(out, prefetched.log.uuid))

    def _create(self, index: int, argv: t.List[str]) -> int:
        self._prefetched = {}
        return self._smi.create(self._address(index), argv)

    def _destroy(self, index: int, argv: t.List[str]) -> None:
        self._prefetched = {}
        self._smi.destroy(self._address(index), argv)


def _kind(gpu: Gpu) -> _Kind:
    return _Kind(gpu.name, gpu.pci_device_id, gpu.pci_subsystem_id, gpu.memory_mib, bool(gpu.mode_current))
