# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Take a node of a cluster out of service before its GPUs change, and return it to service.

An annotation of the node records what was changed, in the same write as the change itself: whether the node was
cordoned, the former values of labels, and by which run. A later run can therefore continue or return a node at any point.
"""

from __future__ import annotations

import base64
import binascii
import json
import typing as t

from . import _dra, _mig_configs, _readiness, _runs
from ._cluster_nodes import Data, labels_of, name_of
from ._gpu_pods import gpus_of
from ._runs import Run
from ._workloads import Workload

RECORD = "gpufleet.node/out-of-service"
PAUSED = "paused-for-mig-change"  # a value that the GPU operator respects, as its MIG manager writes it
DEPLOY = "nvidia.com/gpu.deploy."
OPERANDS = (
    *("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm", "client"),
    *("dra-validator", "dcgm-dra", "dcgm-exporter-dra"),
)
DRA_DRIVER = ("dra-driver",)  # after the others, whose pods have claims, and do not end without it
# Pods of the paused operands, by their label app, and checks of the operator that ran before the change.
_OPERAND_APPS = ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-dcgm")
_VALIDATOR_APPS = ("nvidia-operator-validator", "nvidia-cuda-validator", "nvidia-device-plugin-validator")
_MIRROR = "kubernetes.io/config.mirror"  # annotation of static pods, which the API cannot evict


class Record(t.NamedTuple):
    cordoned: bool  # false: someone else had cordoned the node, and it remains so
    drained: bool = False  # whether all pods were evicted, so that its GPUs may have been changed
    labels: t.Mapping[str, str] = {}  # former values
    workloads: t.Sequence[Workload] = ()  # of the evicted pods
    run: Run = Run()  # that returns it to service

    def text(self) -> str:
        return json.dumps({**self._asdict(), "run": self.run._asdict()}, sort_keys=True)


def interrupted(node: Data) -> list[str]:
    """A problem if an earlier run has left a node out of service."""
    if RECORD not in (node["metadata"].get("annotations") or {}):
        return []
    return [
        "an earlier run has left its node %s out of service: run its playbook again with gpu_cluster_drain set to true, "
        "which returns the node" % name_of(node)
    ]


class Held(ValueError):
    """Another run has taken the node out of service."""


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


def record(node: t.Mapping[str, t.Any]) -> Record | None:
    """What a run of this collection changed; None if the node is in service. Raises ValueError."""
    text = (node["metadata"].get("annotations") or {}).get(RECORD)
    if text is None:
        return None
    try:
        found = json.loads(text)
        return Record(
            bool(found["cordoned"]),
            bool(found["drained"]),
            dict(found["labels"]),
            [Workload(*each) for each in found["workloads"]],
            Run(**found["run"]),
        )
    except (ValueError, TypeError, KeyError):
        raise ValueError(
            "the annotation %s of node %s is damaged: %r. Remove it, set the labels %s* that are %s to true, and "
            "uncordon the node if it should be in service" % (RECORD, name_of(node), text, DEPLOY, PAUSED)
        ) from None


def held(node: Data, run: Run, takeover: int) -> Record | None:
    """The record of a node that this run may change. Raises Held if another run may still be changing the node.

    A run on another controller is taken to have ended so many seconds after its last change.
    """
    known = record(node)
    if known is None or _runs.is_same(known.run, run) or _runs.has_ended(known.run, takeover):
        return known
    raise Held(
        "node %s is out of service for another run, %s, which changed it %d seconds ago. Wait until that run has ended; "
        "if it was on another controller and has ended, set gpu_cluster_drain_takeover to 0"
        % (name_of(node), known.run, max(0, run.written - known.run.written))
    )


def guarded(make: t.Callable[[Data], Data], run: Run, takeover: int) -> t.Callable[[Data], Data]:
    """The same patch, which raises Held if another run has taken the node over in the meantime."""

    def checked(node: Data) -> Data:
        held(node, run, takeover)
        return make(node)

    return checked


def cordoned(node: Data) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def returned(node: Data) -> str:
    """The state of a node after uncordon(), as a sentence without a full stop."""
    return "The node remains cordoned, as it was before" if cordoned(node) else "The node is in service"


def cordon(node: Data, run: Run, workloads: t.Sequence[Workload] = ()) -> Data:
    """The patch that cordons a node for a run; empty if the run has done that."""
    known = record(node) or Record(cordoned=False)
    uids = {each.uid for each in known.workloads}
    new = [each for each in workloads if each.uid not in uids]
    if _runs.is_same(known.run, run) and cordoned(node) and not new:
        return {}
    known = known._replace(run=run, workloads=[*known.workloads, *new])
    if not cordoned(node):
        return _patch(known._replace(cordoned=True), unschedulable=True)
    return _patch(known)


def pause(node: Data, run: Run, operands: t.Iterable[str] = OPERANDS) -> Data:
    """The patch that records that a node is drained, and pauses operands of the GPU operator; empty if that is done."""
    known = record(node) or Record(cordoned=False)
    labels = labels_of(node)
    found = {DEPLOY + name: labels.get(DEPLOY + name, "false") for name in operands}
    names = [name for name, value in found.items() if value != "false" and not value.startswith("paused-")]
    if _runs.is_same(known.run, run) and known.drained and not names:
        return {}
    former = {**known.labels, **{name: labels[name] for name in names}}
    return _patch(known._replace(run=run, drained=True, labels=former), dict.fromkeys(names, PAUSED))


def resume(node: Data, run: Run) -> Data:
    """The patch that restores the labels; empty if none were changed. The node stays cordoned."""
    known = record(node)
    if known is None or not known.labels:
        return {}
    return _patch(known._replace(labels={}, run=run), _former(node, known))


def uncordon(node: Data) -> Data:
    """The patch that returns a node to service, restores all labels and removes the record; empty without a record."""
    known = record(node)
    if known is None:
        return {}
    metadata: Data = {"annotations": {RECORD: None}}
    if _former(node, known):
        metadata["labels"] = _former(node, known)
    return {"metadata": metadata, **({"spec": {"unschedulable": False}} if known.cordoned else {})}


def _former(node: Data, known: Record) -> Data:
    """A label that has another value now was changed by someone else."""
    labels = labels_of(node)
    return {name: value for name, value in known.labels.items() if labels.get(name) == PAUSED}


def _patch(new: Record, labels: t.Mapping[str, str] | None = None, unschedulable: bool = False) -> Data:
    out: Data = {"metadata": {"annotations": {RECORD: new.text()}}}
    if labels:
        out["metadata"]["labels"] = dict(labels)
    if unschedulable:
        out["spec"] = {"unschedulable": True}
    return out


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


def pod_of(pod: Data) -> Pod:
    return Pod(str(pod["metadata"].get("namespace")), name_of(pod), str(pod["metadata"].get("uid")))


def _selected(pod: Data, settings: Settings, change: Change) -> bool:
    if settings.pods == "all":
        return True
    held = (change.held or {}).get(str(pod["metadata"].get("uid")))
    if not (gpus_of(pod) or held) or _finished(pod):
        return False
    # The kubelet may not have recorded the devices of a pod that is starting.
    if settings.pods == "gpu" or change.devices is None or held is None:
        return True
    return _dra.UNKNOWN in held or not set(held).isdisjoint(change.devices)


def _reason(pod: Data, settings: Settings) -> str | None:
    """Why a pod must not be evicted: empty if it can be, None if it is left alone."""
    metadata = pod["metadata"]
    if _MIRROR in (metadata.get("annotations") or {}):
        return None
    owner: Data = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), {})
    if owner.get("kind") == "DaemonSet" and not _finished(pod):
        return (
            None if settings.ignore_daemonsets else "belongs to a DaemonSet (see gpu_cluster_drain_ignore_daemonsets)"
        )
    if _finished(pod):
        return ""
    if not owner and not settings.force:
        return "has no controller that would replace it (see gpu_cluster_drain_force)"
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if not settings.delete_emptydir_data and any("emptyDir" in volume for volume in volumes):
        return "has data in an emptyDir volume (see gpu_cluster_drain_delete_emptydir_data)"
    return ""


def _finished(pod: Data) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def operands(node: Data, pods: t.Iterable[Data]) -> list[Pod]:
    """Pods that pause() stops: those of DaemonSets that select nodes by the paused labels."""
    paused = {name for name, value in labels_of(node).items() if value == PAUSED}
    return [pod_of(pod) for pod in pods if paused.intersection((pod.get("spec") or {}).get("nodeSelector") or ())]


def outdated(pods: t.Iterable[Data], by_operator: bool = False) -> list[Data]:
    """Pods that read the GPUs before the change.

    The operator's checks, the device plugin of its own chart, and the MIG manager, which applies its configuration when
    it starts. If the MIG manager has made the change (``by_operator``), it has restarted them.
    """
    if by_operator:
        return []
    apps = (*_VALIDATOR_APPS, _readiness.MIG_MANAGER)
    return [pod for pod in pods if labels_of(pod).get("app") in apps or _is_standalone(pod)]


def unconfirmed(pods: t.Iterable[Data]) -> Data:
    """The patch that removes the state of the MIG configuration if a MIG manager is about to set it again."""
    if not any(labels_of(pod).get("app") == _readiness.MIG_MANAGER for pod in pods):
        return {}
    return {"metadata": {"labels": {_mig_configs.STATE: None}}}


def _is_standalone(pod: Data) -> bool:
    """Whether it belongs to the device plugin of its own chart, whose pods all have the same labels."""
    other = any(name in name_of(pod) for name in ("gpu-feature-discovery", "mps-control-daemon"))
    return not other and labels_of(pod).get("app.kubernetes.io/name") == "nvidia-device-plugin"


def unready(
    node: Data, pods: t.Sequence[Data], resources: t.Mapping[str, int] | None, former: t.Sequence[Data]
) -> list[str]:
    """Why a node cannot return to service yet. ``former`` are the outdated pods, which were deleted."""
    old = {pod_of(pod) for pod in former}
    new = [pod for pod in pods if pod_of(pod) not in old]
    labels = labels_of(node)
    plugins = [pod for pod in new if _is_standalone(pod) or labels_of(pod).get("app") == _OPERAND_APPS[0]]
    others = [pod for pod in new if labels_of(pod).get("app") in _OPERAND_APPS + _VALIDATOR_APPS]
    has_plugin = labels.get(DEPLOY + "device-plugin") == "true" or any(map(_is_standalone, former))
    has_validator = labels.get(DEPLOY + "operator-validator") == "true"
    has_manager = any(labels_of(pod).get("app") == _readiness.MIG_MANAGER for pod in [*former, *new])
    config = labels.get(_mig_configs.LABEL, "") if has_manager else ""
    wanted = _readiness.Wanted(resources, config, has_validator)
    state = _readiness.state({name_of(node): wanted}, [node], [*plugins, *others])
    out = [*state.failed, *state.waiting]
    if has_plugin and not any(map(_readiness.is_ready, plugins)):
        out.append("%s: the device plugin is not ready" % name_of(node))
    return out


def strategy(node: Data) -> str:
    """The MIG strategy of the node's device plugin, as GPU feature discovery shows it; empty if unknown."""
    labels = labels_of(node)
    return labels.get("nvidia.com/mig.strategy") or ("none" if "nvidia.com/gpu.product" in labels else "")


def devices_held(checkpoint: str | None) -> dict[str, set[str]] | None:
    """The UUIDs of GPUs and MIG devices by UID of the pod; None if the kubelet's checkpoint cannot be read.

    ``checkpoint`` is the base64-encoded file device-plugins/kubelet_internal_checkpoint, in the format of Kubernetes
    1.20 and later.
    """
    out: dict[str, set[str]] = {}
    try:
        entries = json.loads(base64.b64decode(checkpoint or "", validate=True))["Data"]["PodDeviceEntries"]
        for entry in entries or ():
            if entry["ResourceName"].startswith("nvidia.com/"):
                ids = {device for devices in entry["DeviceIDs"].values() for device in devices}
                # Replicas of time-slicing are called UUID::NUMBER.
                out.setdefault(entry["PodUID"], set()).update(each.partition("::")[0] for each in ids)
    except (ValueError, TypeError, KeyError, AttributeError, binascii.Error):
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
        mode = gpu.get("mode")
        # A plan that processes block has no mode. On a GPU without MIG devices, they block its change.
        changes = mode["before"] != mode["wanted"] if mode else not facts["mig"]["devices"]
        interrupted = gpu.get("reset_required") or changes
        kept = [] if interrupted else gpu["kept"]
        stay = {each["uuid"] for instance in kept for each in instance["compute_instances"]}
        gone = {device["uuid"] for device in facts["mig"]["devices"]} - stay
        if interrupted or gone:
            out |= gone | {gpu["uuid"]}  # with the strategy none, pods have the whole GPU
    return out
