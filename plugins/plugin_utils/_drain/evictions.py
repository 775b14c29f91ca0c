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

from ...module_utils._common.data import Data
from .._cluster.pods import Pod, controller_of, gpus_of, has_ended, is_terminating, pod_of
from .._layout import resources
from . import dra_devices

_MIRROR = "kubernetes.io/config.mirror"  # annotation of static pods, which the API cannot evict


class EvictionOptions(t.NamedTuple):
    """Which pods are evicted. The last three have the meaning of kubectl drain's options."""

    pods: str = "all"  # or "gpu", or "affected"
    ignore_daemonsets: bool = True
    delete_emptydir_data: bool = False
    force: bool = False


class DeviceChange(t.NamedTuple):
    """The GPUs and MIG devices that the change removes or interrupts, and which pods have which devices."""

    devices: t.Optional[t.Collection[str]]  # UUIDs; None if unknown
    allocated: t.Optional[t.Mapping[str, t.Collection[str]]]  # UUIDs by UID of the pod; None if unknown


def pods_to_evict(
    pods: t.Iterable[Data], options: EvictionOptions, change: DeviceChange
) -> tuple[list[Data], list[str]]:
    """The pods to evict from a node, and the reasons why pods cannot be evicted."""
    evicted, problems = [], []
    for pod in pods:
        if _stays(pod, options) or not _is_selected(pod, options.pods, change):
            continue
        protection = _protection(pod, options)
        if protection:
            problems.append("pod %s %s" % (pod_of(pod), protection))
        else:
            evicted.append(pod)
    return evicted, problems


def pods_that_stay(pods: t.Iterable[Data], change: DeviceChange) -> list[Pod]:
    """Pods of DaemonSets, and static pods, that are not evicted although the change may take their devices."""
    return [pod_of(pod) for pod in pods if _stays(pod, EvictionOptions()) and _is_selected(pod, "affected", change)]


def evictions_to_request(pods: t.Iterable[Data]) -> list[Pod]:
    """Those of the pods whose eviction is not under way."""
    return [pod_of(pod) for pod in pods if not is_terminating(pod)]


def waiting_reason(pod: Data, rejected: t.Mapping[str, str]) -> str:
    """Why a pod is still there. ``rejected`` are the reasons for which the API rejected evictions, by pod."""
    name = str(pod_of(pod))
    if name in rejected:
        return "pod %s: %s" % (name, rejected[name])
    if not is_terminating(pod):
        return "pod %s is being evicted" % name
    finalizers = ", ".join(pod["metadata"].get("finalizers") or ())
    return "pod %s is terminating%s" % (name, " (finalizers: %s)" % finalizers if finalizers else "")


def _is_selected(pod: Data, selection: str, change: DeviceChange) -> bool:
    """Whether the option ``pods`` selects a pod."""
    if selection == "all":
        return True
    allocated = (change.allocated or {}).get(str(pod["metadata"].get("uid")))
    if not (gpus_of(pod) or allocated) or has_ended(pod):
        return False
    # The kubelet may not have recorded the devices of a pod that is starting.
    if selection == "gpu" or change.devices is None or allocated is None:
        return True
    return dra_devices.UNKNOWN in allocated or not set(allocated).isdisjoint(change.devices)


def _stays(pod: Data, options: EvictionOptions) -> bool:
    """Whether a pod remains on the node: a static pod, and one of a DaemonSet, whose controller ignores the cordon."""
    is_static = _MIRROR in (pod["metadata"].get("annotations") or {})
    return is_static or (options.ignore_daemonsets and _is_of_daemonset(pod))


def _is_of_daemonset(pod: Data) -> bool:
    return controller_of(pod).get("kind") == "DaemonSet" and not has_ended(pod)


def _protection(pod: Data, options: EvictionOptions) -> str:
    """Why a pod must not be evicted; empty if it can be."""
    if has_ended(pod):
        return ""
    if _is_of_daemonset(pod):
        return "belongs to a DaemonSet (see gpu_cluster_drain_ignore_daemonsets)"
    if not controller_of(pod) and not options.force:
        return "has no controller that would replace it (see gpu_cluster_drain_force)"
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if not options.delete_emptydir_data and any("emptyDir" in volume for volume in volumes):
        return "has data in an emptyDir volume (see gpu_cluster_drain_delete_emptydir_data)"
    return ""


def devices_allocated(checkpoint: str | None) -> dict[str, set[str]] | None:
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
        interrupted = gpu["reset_required"] or gpu["mode"]["before"] != gpu["mode"]["desired"]
        kept = [] if interrupted else gpu["kept"]
        stay = {each["uuid"] for instance in kept for each in instance["compute_instances"]}
        gone = {device["uuid"] for device in facts["mig"]["devices"]} - stay
        if interrupted or gone:
            out |= gone | {gpu["uuid"]}  # with the strategy none, pods have the whole GPU
    return out
