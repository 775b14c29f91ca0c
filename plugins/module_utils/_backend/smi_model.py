# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Parsed output of nvidia-smi as the types of the engine."""

from __future__ import annotations

import typing as t

from .._mig import codes
from .._mig.backend import BackendError, CiProfile
from .._mig.model import Board, ComputeInstance, Gpu, GpuInstance, Placement, Process, Profile
from . import architecture, capable, names, smi_log, smi_tables

_NO_CONSTANT = -1


Kinds = t.Mapping[t.Tuple[int, int], CiProfile]  # by profile id of the GPU instance and of the compute instance


def gpu(index: int, log: smi_log.Log, compute_capability: t.Optional[str]) -> Gpu:
    """Identity and mode, without profiles, instances and processes."""
    mig = log.mode_current is not None or (log.pci_device_id in capable.DEVICES and not log.virtual)
    family = log.architecture or architecture.of_capability(compute_capability)
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
        compute_capability=compute_capability,
        serial=log.serial,
        minor=log.minor,
    )


def processes(log: smi_log.Log) -> t.Tuple[Process, ...]:
    return tuple(
        process if process.name else process._replace(name=names.process_name(process.pid)) for process in log.processes
    )


def profile(row: smi_tables.ProfileRow, places: t.Mapping[int, t.Sequence[t.Tuple[int, int]]]) -> Profile:
    return Profile(
        name=row.name,
        id=row.id,
        constant=_NO_CONSTANT,
        slices=smi_tables.compute_slices(row.name),
        memory_mib=row.memory_mib,
        multiprocessors=row.multiprocessors,
        max_instances=row.total,
        placements=tuple(Placement(start, size) for start, size in places.get(row.id, ())),
    )


def require_complete(
    index: int,
    rows: t.Sequence[smi_tables.InstanceRow],
    inside: t.Sequence[smi_tables.ComputeRow],
    devices: t.Sequence[smi_log.SmiDevice],
) -> None:
    """Raise BackendError unless the three lists contain the same instances."""
    unmatched: t.List[t.Any] = sorted(
        {(row.gi_id, row.id) for row in inside} ^ {(device.gi_id, device.ci_id) for device in devices}
    )
    unmatched += sorted({row.gi_id for row in inside} - {row.id for row in rows})
    if unmatched:
        raise BackendError(
            codes.UNKNOWN,
            "nvidia-smi mig -lci",
            "GPU %d: %s is missing from one of the lists" % (index, unmatched[0]),
        )


def mig_uuids(
    index: int,
    devices: t.Sequence[smi_log.SmiDevice],
    inside: t.Sequence[smi_tables.ComputeRow],
    listed: t.Sequence[smi_tables.DeviceRow],
) -> t.Dict[t.Tuple[int, int], str]:
    """UUIDs by ids. ``-L`` shows no ids and omits unreadable devices, so only a complete list can be used."""
    slices = {(row.gi_id, row.id): smi_tables.slices(row.name) for row in inside}
    ids = [(device.gi_id, device.ci_id) for device in sorted(devices)]
    if [row.slices for row in listed] != [slices[each] for each in ids]:
        raise BackendError(
            codes.UNKNOWN, "nvidia-smi -L", "GPU %d: its MIG devices differ from those in nvidia-smi -q -x" % index
        )
    return {each: row.uuid for each, row in zip(ids, listed)}


def instances(
    rows: t.Sequence[smi_tables.InstanceRow],
    inside: t.Sequence[smi_tables.ComputeRow],
    kinds: Kinds,
    uuids: t.Mapping[t.Tuple[int, int], str],
) -> t.Tuple[GpuInstance, ...]:
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


def ci_profile(row: smi_tables.ComputeProfileRow, places: t.Sequence[t.Tuple[int, int]]) -> CiProfile:
    return CiProfile(
        id=row.id,
        slices=smi_tables.compute_slices(row.name),
        multiprocessors=row.multiprocessors,
        max_instances=row.total,
        placements=tuple(places),
    )
