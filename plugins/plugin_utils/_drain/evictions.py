# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which pods are evicted from a node before its GPUs change."""

from __future__ import annotations

import base64
import binascii
import json
import typing as t
from collections import Counter

from .._cluster.nodes import Data, name_of
from .._layout import resources
from . import dra

_MIRROR = "kubernetes.io/config.mirror"  # annotation of static pods, which the API cannot evict


class Settings(t.NamedTuple):
    """Which pods are evicted. The last three have the meaning of kubectl drain's options."""

    pods: str = "all"  # or "gpu", or "affected"
    ignore_daemonsets: bool = True
    delete_emptydir_data: bool = False
    force: bool = False


class Change(t.NamedTuple):
    """The GPUs and MIG devices that the change removes or interrupts, and which pods have which devices."""

    devices: t.Optional[t.Collection[str]]  # UUIDs; None if unknown
    held: t.Optional[t.Mapping[str, t.Collection[str]]]  # UUIDs by UID of the pod; None if unknown


class Pod(t.NamedTuple):
    """A pod to evict or delete."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


def to_evict(pods: t.Iterable[Data], settings: Settings, change: Change) -> tuple[list[Data], list[str]]:
    """The pods to evict from a node, and the reasons why pods cannot be evicted."""
    evicted, problems = [], []
    for pod in pods:
        if not _selected(pod, settings, change):
            continue
        why = _reason(pod, settings)
        if why:
            problems.append("pod %s %s" % (pod_of(pod), why))
        elif why is not None:
            evicted.append(pod)
    return evicted, problems


def staying(pods: t.Iterable[Data], change: Change) -> list[Pod]:
    """Pods of DaemonSets, and static pods, that are not evicted although the change may take their devices."""
    left = (pod for pod in pods if _reason(pod, Settings()) is None)
    return [pod_of(pod) for pod in left if _selected(pod, Settings("affected"), change)]


def pod_of(pod: Data) -> Pod:
    return Pod(str(pod["metadata"].get("namespace")), name_of(pod), str(pod["metadata"].get("uid")))


def _selected(pod: Data, settings: Settings, change: Change) -> bool:
    if settings.pods == "all":
        return True
    held = (change.held or {}).get(str(pod["metadata"].get("uid")))
    if not (gpus_of(pod) or held) or has_ended(pod):
        return False
    # The kubelet may not have recorded the devices of a pod that is starting.
    if settings.pods == "gpu" or change.devices is None or held is None:
        return True
    return dra.UNKNOWN in held or not set(held).isdisjoint(change.devices)


def _reason(pod: Data, settings: Settings) -> str | None:
    """Why a pod must not be evicted: empty if it can be, None if it is left alone."""
    metadata = pod["metadata"]
    if _MIRROR in (metadata.get("annotations") or {}):
        return None
    owner: Data = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), {})
    if owner.get("kind") == "DaemonSet" and not has_ended(pod):
        return (
            None if settings.ignore_daemonsets else "belongs to a DaemonSet (see gpu_cluster_drain_ignore_daemonsets)"
        )
    if has_ended(pod):
        return ""
    if not owner and not settings.force:
        return "has no controller that would replace it (see gpu_cluster_drain_force)"
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if not settings.delete_emptydir_data and any("emptyDir" in volume for volume in volumes):
        return "has data in an emptyDir volume (see gpu_cluster_drain_delete_emptydir_data)"
    return ""


def has_ended(pod: Data) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def devices_held(checkpoint: str | None) -> dict[str, set[str]] | None:
    """The UUIDs of GPUs and MIG devices by UID of the pod; None if the kubelet's checkpoint cannot be read.

    ``checkpoint`` is the base64-encoded file device-plugins/kubelet_internal_checkpoint, in the format of Kubernetes
    1.20 and later.
    """
    out: dict[str, set[str]] = {}
    try:
        entries = json.loads(base64.b64decode(checkpoint or "", validate=True))["Data"]["PodDeviceEntries"]
        for entry in entries or ():
            if resources.is_gpu(entry["ResourceName"]):
                ids = {device for devices in entry["DeviceIDs"].values() for device in devices}
                # Replicas of time-slicing are called UUID::NUMBER.
                out.setdefault(entry["PodUID"], set()).update(each.partition("::")[0] for each in ids)
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error, RecursionError):
        return None
    return out


def devices_changed(planned: t.Iterable[Data], present: t.Iterable[Data]) -> set[str] | None:
    """The UUIDs that a planned change removes or interrupts; None if they are unknown.

    ``planned`` is the return value gpus of nvidia_mig in check mode, and ``present`` the GPUs in the facts.
    """
    known = {gpu["uuid"]: gpu for gpu in present}
    out: set[str] = set()
    for gpu in planned:
        facts = known.get(gpu["uuid"])
        if facts is None or facts["mig"]["devices"] is None:
            return None
        interrupted = gpu["reset_required"] or gpu["mode"]["before"] != gpu["mode"]["wanted"]
        kept = [] if interrupted else gpu["kept"]
        stay = {each["uuid"] for instance in kept for each in instance["compute_instances"]}
        gone = {device["uuid"] for device in facts["mig"]["devices"]} - stay
        if interrupted or gone:
            out |= gone | {gpu["uuid"]}  # with the strategy none, pods have the whole GPU
    return out


def gpus_of(pod: Data) -> Counter[str]:
    """The GPUs and MIG devices that a pod requests, by resource."""
    spec = pod.get("spec") or {}
    first = spec.get("initContainers") or ()
    sidecars = [each for each in first if each.get("restartPolicy") == "Always"]
    out: Counter[str] = Counter()
    for container in (*sidecars, *(spec.get("containers") or ())):
        out += _limits(container)
    for container in first:  # they run one after the other, before the others
        out |= _limits(container)
    return out


def _limits(container: Data) -> Counter[str]:
    return resources.counts((container.get("resources") or {}).get("limits"))
