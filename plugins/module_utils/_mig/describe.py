# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Convert the engine's types to plain data, in the format that results, facts and filters share."""

from __future__ import annotations

import typing as t

from .._common.data import Data
from .profile import compute_name

if t.TYPE_CHECKING:
    from .model import DesiredInstance, Gpu, GpuInstance, Placement, Process
    from .operations import Created, Kept, Operation


def identity(gpu: Gpu) -> Data:
    return {"index": gpu.index, "uuid": gpu.uuid, "pci_bus_id": gpu.pci_bus_id, "name": gpu.name}


def gpu_name(identified: Data) -> str:
    """A GPU in lists of GPUs: index and UUID."""
    return "GPU %d %s" % (identified["index"], identified["uuid"])


def instances(gpu: Gpu) -> t.List[Data]:
    """The existing GPU instances, in order of placement."""
    return [existing(gpu, instance) for instance in sorted(gpu.instances, key=lambda item: item.placement)]


def existing(gpu: Gpu, instance: GpuInstance) -> Data:
    profile = gpu.listed_profile(instance.profile_id)
    name = gpu.profile_name(instance.profile_id)
    return _gpu_instance(
        name,
        instance.placement,
        instance.id,
        [
            _compute_instance(
                compute_name(profile, ci.slices, ci.reduced) if profile else name, ci.slices, ci.id, ci.uuid
            )
            for ci in instance.compute_instances
        ],
    )


def kept(gpu: Gpu, item: Kept) -> Data:
    """A GPU instance that is kept, with its compute instances after the change."""
    found = existing(gpu, item.instance)
    staying = [ci for ci in found["compute_instances"] if ci["id"] in item.keep]
    return dict(found, compute_instances=staying + _planned(item.desired, item.create))


def created(item: Created) -> Data:
    """A GPU instance that does not exist yet."""
    desired = item.desired
    return _gpu_instance(desired.profile.name, item.placement, None, _planned(desired, desired.slices))


def mig_devices(gpu_instances: t.Iterable[Data]) -> t.List[Data]:
    """The compute instances of GPU instances, as a flat list of MIG devices."""
    return [
        {"uuid": ci["uuid"], "gi_id": instance["id"], "ci_id": ci["id"], "profile": ci["profile"]}
        for instance in gpu_instances
        for ci in instance["compute_instances"]
    ]


def clients(processes: t.Iterable[Process]) -> t.List[Data]:
    return [{"pid": process.pid, "name": process.name} for process in processes]


def operation(gpu: Gpu, done: Operation) -> Data:
    """One write, planned or made. Without ids, because planned instances have none yet."""
    name = None
    if done.profile is not None:
        name = done.profile.name
        if done.slices is not None:
            name = compute_name(done.profile, done.slices, done.reduced)
    return {
        "gpu": gpu.index,
        "kind": done.kind,
        "profile": name,
        "placement": None if done.placement is None else str(done.placement),
        "enabled": done.enabled,
    }


def _gpu_instance(name: str, placement: Placement, gi_id: t.Optional[int], compute_instances: t.List[Data]) -> Data:
    """A GPU instance; without id, it does not exist yet."""
    return {
        "id": gi_id,
        "profile": name,
        "start": placement.start,
        "size": placement.size,
        "compute_instances": compute_instances,
    }


def _compute_instance(name: str, slices: int, ci_id: t.Optional[int] = None, uuid: t.Optional[str] = None) -> Data:
    """A compute instance; without id and UUID, it does not exist yet."""
    return {"id": ci_id, "profile": name, "slices": slices, "uuid": uuid}


def _planned(desired: DesiredInstance, sizes: t.Iterable[int]) -> t.List[Data]:
    """Compute instances that do not exist yet."""
    return [_compute_instance(compute_name(desired.profile, slices, desired.reduced), slices) for slices in sizes]
