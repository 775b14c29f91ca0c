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
import csv
import re
import typing as t

from .._mig import codes
from .._mig.backend import BackendError, CiProfile, Versions
from .._mig.model import Board, ComputeInstance, Gpu, GpuInstance, Placement, Process, Profile
from . import architecture, capable, names, smi_log, smi_prefetch, smi_tables
from .boards import board_of, mark_reduced
from .command import Result, Runner
from .command import run as run_command
from .reset import reset
from .smi_errors import code_of, failure, words_of

_NO_CONSTANT = -1
_NONE_FOUND = "instances found: Not Found"
_CREATED = re.compile(r"Successfully created (?:GPU|compute) instance ID +(\d+) ")
_PENDING = re.compile(r"MIG mode is in pending \w+ state for GPU [0-9A-Fa-f:.]+: *(.*)$", re.MULTILINE)

_T = t.TypeVar("_T")


class _Listed(t.NamedTuple):
    uuid: t.Optional[str]  # None: the GPU cannot be reached
    compute_capability: t.Optional[str] = None
    address: t.Optional[str] = None


class _Kind(t.NamedTuple):
    name: str
    pci_device_id: int
    pci_subsystem_id: int
    memory_mib: t.Optional[int]
    mode: bool


class SmiBackend:
    """Access through nvidia-smi, one process per call. GPUs are addressed by UUID, because indices may change."""

    name = "nvidia_smi"

    def __init__(self, run: Runner = run_command) -> None:
        self._run = run
        self._gpus: t.List[_Listed] = []
        self._problem: t.Optional[BackendError] = None  # why some of them are unreachable
        # Immutable until the MIG mode changes, and equal for GPUs of one kind, so only queried once: calls are slow.
        self._boards: t.Dict[_Kind, t.Optional[Board]] = {}
        self._ci_profiles: t.Dict[t.Tuple[_Kind, int], t.Tuple[CiProfile, ...]] = {}
        self._prefetched: t.Dict[int, smi_prefetch.Prefetched] = {}

    def open(self) -> None:
        try:
            self._gpus = self._listed()
        except BackendError as error:
            # If one GPU is unreachable, nvidia-smi fails to query all GPUs, but can list them and query one of the
            # others.
            if error.code in (codes.FUNCTION_NOT_FOUND, codes.DRIVER_NOT_LOADED, codes.LIBRARY_NOT_FOUND):
                raise
            self._problem = error
            self._gpus = self._slots(error)

    def _listed(self) -> t.List[_Listed]:
        argv = ["--query-gpu=index,uuid,compute_cap,count", "--format=csv,noheader"]
        result = self._try(argv)
        # If there is more text, or if -L lists GPUs, the GPUs exist but cannot be accessed.
        if result.out.strip() == "No devices were found" and not smi_tables.gpu_slots(self._try(["-L"]).out):
            return []
        if result.rc != 0:
            raise failure(_command(argv), result)
        rows = list(csv.reader(result.out.splitlines(), skipinitialspace=True))
        if any(
            len(row) != 4 or row[0] != str(index) or not row[1].startswith("GPU-") for index, row in enumerate(rows)
        ):
            raise _not_understood(argv, result)
        if any(row[3] != str(len(rows)) for row in rows):
            # nvidia-smi omits GPUs that this user may not access, and exits with status 0.
            raise failure(_command(argv), Result(codes.NO_PERMISSION, "%d of %s GPUs" % (len(rows), rows[0][3]), ""))
        return [_Listed(uuid, _capability(capability), uuid) for _index, uuid, capability, _count in rows]

    def _slots(self, problem: BackendError) -> t.List[_Listed]:
        """The GPUs that ``-L`` lists, which works if one GPU is lost. Raises ``problem`` if it lists none.

        Given a UUID, nvidia-smi searches all GPUs, and fails if one is lost. Given a bus id, it does not.
        """
        slots = smi_tables.gpu_slots(self._try(["-L"]).out)
        if not slots:
            raise problem
        return [self._slot(index, uuid) for index, uuid in enumerate(slots)]

    def _slot(self, index: int, uuid: t.Optional[str]) -> _Listed:
        lost = _Listed(None)
        if uuid is None:
            return lost
        try:
            log = self._query(["-q", "-x", "-i", str(index)], smi_log.parse)
            row = self._query(["--query-gpu=compute_cap", "--format=csv,noheader", "-i", log.pci_bus_id], str)
        except BackendError:
            return lost
        return _Listed(uuid, _capability(row.strip()), log.pci_bus_id) if log.uuid == uuid else lost

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
                raise failure("nvidia-smi -q -x", Result(0, "%s version: %s" % (name, text), ""))
        return Versions(driver=log.driver, cuda=log.cuda)

    def identify(self, index: int) -> Gpu:
        """Identity and mode, which any user may read, without profiles, instances and processes."""
        return self._gpu(index, self._log(index))

    def prefetch(self) -> None:
        self._prefetched = {}
        uuids = [gpu.uuid for gpu in self._gpus if gpu.uuid is not None]
        if len(uuids) == len(self._gpus) > 1:
            # If this fails, reading the GPUs one by one reports the error of each.
            with contextlib.suppress(BackendError):
                self._prefetched = smi_prefetch.prefetch(uuids, self._query)

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
        argv = ["-i", self._address(index), "-mig", str(int(enabled))]
        result = self._try(argv)
        pending = _PENDING.search(result.out)
        if pending is not None:
            return code_of(Result(0, pending.group(1), ""))
        # A refused change also exits with status 0, "treated as a warning".
        if result.rc != 0 or ("Enabled" if enabled else "Disabled") + " MIG Mode" not in result.out:
            raise failure(_command(argv), result)
        return codes.SUCCESS

    def create_gpu_instance(self, index: int, profile_id: int, placement: Placement) -> int:
        return self._create(index, ["-cgi", "%d:%d" % (profile_id, placement.start)])

    def destroy_gpu_instance(self, index: int, gi_id: int) -> None:
        self._destroy(index, ["-dgi", "-gi", str(gi_id)])

    def compute_profiles(self, index: int, gi_id: int) -> t.Tuple[CiProfile, ...]:
        inside = ["-gi", str(gi_id)]
        rows = self._mig(index, ["-lcip"] + inside, smi_tables.compute_profiles)
        places = self._mig(index, ["-lcipp"] + inside, smi_tables.compute_placements)
        return mark_reduced(_ci_profile(row, places.get(row.id, [])) for row in rows if row.gi_id == gi_id)

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
        gpu = self._gpu(index, log)._replace(processes=self._processes(log))
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
        log = self._query(argv, smi_log.parse)
        if log.uuid != self._gpus[index].uuid:
            raise BackendError(
                codes.NOT_FOUND,
                _command(argv),
                "GPU %d was %s and is %s now" % (index, self._gpus[index].uuid, log.uuid),
            )
        return log

    def _gpu(self, index: int, log: smi_log.Log) -> Gpu:
        mig = log.mode_current is not None or (log.pci_device_id in capable.DEVICES and not log.virtual)
        capability = self._gpus[index].compute_capability
        family = log.architecture or architecture.of_capability(capability)
        return Gpu(
            index=index,
            uuid=log.uuid,
            pci_bus_id=log.pci_bus_id,
            name=log.name,
            pci_device_id=log.pci_device_id,
            pci_subsystem_id=log.pci_subsystem_id,
            mig_capable=mig,
            mode_current=log.mode_current,
            mode_pending=log.mode_pending,
            resetless=architecture.resetless(family) if mig else None,
            board=Board(log.name, (), 0, 0, 0),
            profiles_known=False,
            memory_mib=log.memory_mib,
            architecture=family,
            compute_capability=capability,
            serial=log.serial,
            minor=log.minor,
        )

    @staticmethod
    def _processes(log: smi_log.Log) -> t.Tuple[Process, ...]:
        return tuple(
            process if process.name else process._replace(name=names.process_name(process.pid))
            for process in log.processes
        )

    def _board(self, gpu: Gpu) -> t.Optional[Board]:
        """The board of the GPU; None if the driver does not list profiles while MIG mode is off."""
        key = _kind(gpu)
        board = self._boards.get(key)  # another thread may clear the table
        if board is None:
            try:
                rows = self._mig(gpu.index, ["-lgip"], smi_tables.profiles)
                places = self._mig(gpu.index, ["-lgipp"], smi_tables.placements)
            except BackendError as error:
                if gpu.mode_current or error.code not in (codes.NOT_SUPPORTED, codes.NOT_FOUND):
                    raise
                return None
            profiles = [_profile(row, places) for row in rows]
            if not profiles or not all(profile.placements for profile in profiles):
                if gpu.mode_current:
                    raise BackendError(
                        codes.NOT_SUPPORTED,
                        "nvidia-smi mig -lgip",
                        "%s has MIG mode on but lists no profiles or placements" % gpu.label,
                    )
                return None
            board = self._boards[key] = board_of(gpu.name, profiles)
        return board

    def _instances(self, gpu: Gpu, prefetched: smi_prefetch.Prefetched) -> t.Tuple[GpuInstance, ...]:
        index = gpu.index
        rows = prefetched.instances or self._listing(index, ["-lgi"], smi_tables.instances)
        if not rows and prefetched.log.devices:
            raise BackendError(codes.UNKNOWN, "nvidia-smi mig -lgi", "GPU %d: no GPU instance, but MIG devices" % index)
        if not rows:
            return ()
        inside = prefetched.compute_instances or self._listing(index, ["-lci"], smi_tables.compute_instances)
        kinds = self._kinds(gpu, rows, inside)
        unmatched: t.List[t.Any] = sorted(
            {(row.gi_id, row.id) for row in inside}
            ^ {(device.gi_id, device.ci_id) for device in prefetched.log.devices}
        )
        unmatched += sorted({row.gi_id for row in inside} - {row.id for row in rows})
        if unmatched:
            raise BackendError(
                codes.UNKNOWN,
                "nvidia-smi mig -lci",
                "GPU %d: %s is missing from one of the lists" % (index, unmatched[0]),
            )
        uuids = self._mig_uuids(index, prefetched, inside) if inside else {}
        return tuple(
            GpuInstance(
                row.id,
                row.profile_id,
                Placement(row.start, row.size),
                tuple(
                    _compute_instance(ci, kinds.get((row.profile_id, ci.profile_id)), uuids.get((row.id, ci.id)))
                    for ci in sorted(inside, key=lambda ci: ci.id)
                    if ci.gi_id == row.id
                ),
            )
            for row in sorted(rows, key=lambda row: row.id)
        )

    def _kinds(
        self, gpu: Gpu, rows: t.Sequence[smi_tables.InstanceRow], inside: t.Sequence[smi_tables.ComputeRow]
    ) -> t.Dict[t.Tuple[int, int], CiProfile]:
        """Compute instance profiles, by profile id of the GPU instance and of the compute instance."""
        key = _kind(gpu)
        if inside and any((key, row.profile_id) not in self._ci_profiles for row in rows):
            offered = self._mig(gpu.index, ["-lcip"], smi_tables.compute_profiles)
            for row in rows:
                self._ci_profiles[(key, row.profile_id)] = mark_reduced(
                    _ci_profile(each, []) for each in offered if each.gi_id == row.id
                )
        return {
            (row.profile_id, each.id): each for row in rows for each in self._ci_profiles.get((key, row.profile_id), ())
        }

    def _mig_uuids(
        self, index: int, prefetched: smi_prefetch.Prefetched, inside: t.Sequence[smi_tables.ComputeRow]
    ) -> t.Dict[t.Tuple[int, int], str]:
        """UUIDs by ids. ``-L`` shows no ids and omits unreadable devices, so only a complete list can be used."""
        log = prefetched.log
        # A lost GPU makes -L fail, after it has listed the others.
        text = prefetched.listed or self._try(["-L"]).out
        listed = self._parsed(["-L"], text, lambda out: smi_tables.mig_devices(out, log.uuid))
        slices = {(row.gi_id, row.id): smi_tables.slices(row.name) for row in inside}
        ids = [(device.gi_id, device.ci_id) for device in sorted(log.devices)]
        if [row.slices for row in listed] != [slices[each] for each in ids]:
            raise BackendError(
                codes.UNKNOWN, "nvidia-smi -L", "GPU %d: its MIG devices differ from those in nvidia-smi -q -x" % index
            )
        return {each: row.uuid for each, row in zip(ids, listed)}

    def _create(self, index: int, argv: t.List[str]) -> int:
        self._prefetched = {}
        result = self._checked(self._on(index, argv))
        created = _CREATED.search(result.out)
        if created is None:
            raise _not_understood(self._on(index, argv), result)
        return int(created.group(1))

    def _destroy(self, index: int, argv: t.List[str]) -> None:
        self._prefetched = {}
        result = self._checked(self._on(index, argv))
        if "Successfully destroyed" not in result.out:
            raise _not_understood(self._on(index, argv), result)

    def _listing(self, index: int, argv: t.List[str], parse: t.Callable[[str], t.List[_T]]) -> t.List[_T]:
        """Instances of one GPU, possibly none."""

        def parse_or_none(text: str) -> t.List[_T]:
            return [] if _NONE_FOUND in text else parse(text)

        return self._mig(index, argv, parse_or_none, codes.NOT_FOUND)

    def _mig(self, index: int, argv: t.List[str], parse: t.Callable[[str], _T], tolerated: int = 0) -> _T:
        """The parsed output of a ``mig`` command for one GPU; ``tolerated`` is an exit status that is valid as well."""
        argv = self._on(index, argv)
        result = self._try(argv)
        # With the mode off, some versions print this and exit with status 0.
        refused = result.rc not in (0, tolerated) or result.out.startswith("No MIG-enabled devices found")
        if refused or (result.rc != 0 and _NONE_FOUND not in result.out):
            raise failure(_command(argv), result)
        return self._parsed(argv, result.out, parse)

    def _on(self, index: int, argv: t.List[str]) -> t.List[str]:
        return ["mig"] + argv + ["-i", self._address(index)]

    def _query(self, argv: t.List[str], parse: t.Callable[[str], _T]) -> _T:
        return self._parsed(argv, self._checked(argv).out, parse)

    def _checked(self, argv: t.List[str]) -> Result:
        result = self._try(argv)
        if result.rc != 0:
            raise failure(_command(argv), result)
        return result

    def _try(self, argv: t.List[str]) -> Result:
        return self._run(["nvidia-smi"] + argv)

    @staticmethod
    def _parsed(argv: t.List[str], text: str, parse: t.Callable[[str], _T]) -> _T:
        try:
            return parse(text)
        except smi_tables.ParseError as error:
            raise BackendError(codes.UNKNOWN, _command(argv), str(error)) from error


def _capability(text: str) -> t.Optional[str]:
    return text if text[:1].isdigit() else None


def _kind(gpu: Gpu) -> _Kind:
    return _Kind(gpu.name, gpu.pci_device_id, gpu.pci_subsystem_id, gpu.memory_mib, bool(gpu.mode_current))


def _command(argv: t.Sequence[str]) -> str:
    return " ".join(["nvidia-smi"] + list(argv))


def _not_understood(argv: t.Sequence[str], result: Result) -> BackendError:
    return BackendError(codes.UNKNOWN, _command(argv), "unexpected output: %s" % words_of(result))


def _profile(row: smi_tables.ProfileRow, places: t.Mapping[int, t.Sequence[t.Tuple[int, int]]]) -> Profile:
    return Profile(
        name=row.name,
        id=row.id,
        constant=_NO_CONSTANT,
        slices=smi_tables.compute_slices(row.name),
        memory_mib=row.memory_mib,
        multiprocessors=row.multiprocessors,
        max_instances=row.total,
        placements=tuple(Placement(start, size) for start, size in places.get(row.id, ())),
        copy_engines=row.copy_engines,
        decoders=row.decoders,
        encoders=row.encoders,
        jpeg=row.jpeg,
        ofa=row.ofa,
    )


def _compute_instance(
    row: smi_tables.ComputeRow, kind: t.Optional[CiProfile], uuid: t.Optional[str]
) -> ComputeInstance:
    return ComputeInstance(
        id=row.id,
        profile_id=row.profile_id,
        slices=smi_tables.compute_slices(row.name),
        placement=Placement(row.start, row.size),
        uuid=uuid,
        multiprocessors=None if kind is None else kind.multiprocessors,
        reduced=kind is not None and kind.reduced,
    )


def _ci_profile(row: smi_tables.ComputeProfileRow, places: t.Sequence[t.Tuple[int, int]]) -> CiProfile:
    return CiProfile(
        id=row.id,
        slices=smi_tables.compute_slices(row.name),
        multiprocessors=row.multiprocessors,
        max_instances=row.total,
        placements=tuple(places),
    )
