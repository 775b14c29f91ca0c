# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the Kubernetes API, as the module gpu_cluster_requests returns them."""

from __future__ import annotations

import copy
import typing as t

Data = t.Dict[str, t.Any]


def node(name: str, allocatable: t.Optional[Data] = None, ready: bool = True, **labels: str) -> Data:
    """A node. Dots and slashes in labels are given as a mapping: **{"nvidia.com/gpu.present": "true"}."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "allocatable": {"cpu": "4", **(allocatable or {})},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
            "nodeInfo": {"kubeletVersion": "v1.35.7+rke2r1"},
        },
    }


def pod(
    name: str, node_name: str = "", ready: bool = True, started: str = "2026-11-23T06:00:00Z", **labels: str
) -> Data:
    return {
        "metadata": {"name": name, "namespace": "gpu-operator", "labels": labels},
        "spec": {"nodeName": node_name, "containers": [{"name": "main"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": started}}}],
        },
    }


def waiting(name: str, reason: str, message: str = "", node_name: str = "", last: t.Optional[int] = None) -> Data:
    """A pod whose container waits."""
    out = pod(name, node_name, ready=False)
    container: Data = {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}
    if last is not None:
        container["lastState"] = {"terminated": {"exitCode": last}}
    out["status"]["containerStatuses"] = [container]
    return out


def daemonset(called: str, env: t.Sequence[Data] = (), release: t.Sequence[str] = (), **labels: str) -> Data:
    annotations = {}
    if release:
        annotations = {"meta.helm.sh/release-namespace": release[0], "meta.helm.sh/release-name": release[1]}
    return {
        "metadata": {"name": called, "namespace": "somewhere", "labels": labels, "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "env": list(env)}]},
            },
        },
    }


def patched(item: Data, patch: Data) -> Data:
    """The node after a merge patch."""
    out = copy.deepcopy(item)
    for section, new in patch.items():
        if section == "metadata":
            for name, values in new.items():
                kept = {**out["metadata"].get(name, {}), **values}
                out["metadata"][name] = {key: value for key, value in kept.items() if value is not None}
        else:
            out[section] = {**out.get(section, {}), **new}
    return out


def user(name: str, gpus: int = 0, uid: str = "", owner: str = "ReplicaSet", **more: t.Any) -> Data:
    """A pod of a user, on the node a. Without an owner, no controller would replace it."""
    out = pod(name, "a")
    reference = {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "owner", "controller": True}
    out["metadata"].update(uid=uid or name, ownerReferences=[reference] if owner else [])
    if gpus:
        out["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/mig-1g.10gb": str(gpus)}}
    out["spec"].update(more)
    return out


def plugin(name: str, ready: bool = True, /, **labels: str) -> Data:
    """A pod of the device plugin, on the node a; with labels, of another component."""
    out = pod(name, "a", ready)
    out["metadata"].update(uid=name, labels=labels or {"app": "nvidia-device-plugin-daemonset"})
    return out
