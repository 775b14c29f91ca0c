# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated GPU nodes with the GPU operator's components, and users' pods, for gpulab.control_plane.

kwok's own stages start nodes and pods. The stages here do the MIG manager's work, which is a change of labels and of
allocatable resources: it pauses the operands, so that the DaemonSet controller removes their pods, advertises the
resources of the configuration after a while, and resumes them.
"""

from __future__ import annotations

import json
import os
from typing import Any, Mapping, NamedTuple

from gpulab import kubernetes

Data = dict[str, Any]

NAMESPACE = "gpu-operator"
# Seconds that the MIG manager and the end of a pod take. On real nodes, a minute and up to 30 seconds are usual.
MIG_SECONDS = int(os.environ.get("BENCH_MIG_SECONDS", "2"))
POD_SECONDS = int(os.environ.get("BENCH_POD_SECONDS", "0"))
PODS = 4  # users' pods on each node
BOARD, INSTANCE_TYPE, GPUS = "A100-80GB", "p4de.24xlarge", 8
CONFIG, STATE = "nvidia.com/mig.config", "nvidia.com/mig.config.state"
DEPLOY = "nvidia.com/gpu.deploy."
POOL = "gpufleet.invalid/pool"  # label of the nodes that get a new layout
APPLIED = "gpufleet.invalid/applied"  # annotation with the configuration that the simulated MIG manager applied
PAUSED = "paused-for-mig-change"
# Operands by the suffix of the label that deploys them. The MIG manager pauses the first three.
OPERANDS = {
    "device-plugin": "nvidia-device-plugin-daemonset",
    "gpu-feature-discovery": "gpu-feature-discovery",
    "dcgm-exporter": "nvidia-dcgm-exporter",
    "operator-validator": "nvidia-operator-validator",
    "mig-manager": "nvidia-mig-manager",
}
PAUSES = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter")
OTHERS = ("aws-node", "kube-proxy")  # DaemonSets in kube-system


class Layout(NamedTuple):
    """A MIG layout, the name of its configuration, and what a node then advertises."""

    profile: str
    per_gpu: int
    config: str = ""

    @property
    def variable(self) -> list[Data]:
        return [{"devices": "all", "mig_enabled": True, "mig_devices": {self.profile: self.per_gpu}}]

    @property
    def resource(self) -> str:
        return "nvidia.com/mig-" + self.profile

    @property
    def count(self) -> int:
        return self.per_gpu * GPUS


def named(layout: Layout) -> Layout:
    """The layout with the name that the role gpu_operator gives its configuration."""
    from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import mig_configs
    from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host

    host = Host("node", boards=[BOARD] * GPUS, layout=layout.variable)
    return layout._replace(config=mig_configs.config_name(mig_configs.layout_entries(host)))


def stages(*layouts: Layout) -> str:
    """kwok's configuration: the lifecycle of nodes and pods, and the MIG manager."""
    own = kubernetes.kwok_stages("node/fast/node-initialize", "pod/fast/pod-ready")
    listed = [_end_of_pods(), _pending(), *(_success(layout, layouts) for layout in layouts)]
    return "\n---\n".join([own, *map(json.dumps, listed)])


def _end_of_pods() -> Data:
    selector = {"matchExpressions": [{"key": ".metadata.deletionTimestamp", "operator": "Exists"}]}
    return _stage("pod-end", "Pod", selector, POD_SECONDS, [{"delete": True}])


def _pending() -> Data:
    label, applied = '.metadata.labels["%s"]' % CONFIG, '.metadata.annotations["%s"]' % APPLIED
    different = 'if %s and %s != %s then "true" else "false" end' % (label, label, applied)
    labels = {STATE: "pending", **{DEPLOY + name: PAUSED for name in PAUSES}}
    expressions = [
        {"key": different, "operator": "In", "values": ["true"]},
        {"key": '.metadata.labels["%s"]' % STATE, "operator": "NotIn", "values": ["pending"]},
    ]
    steps = [_patch({"metadata": {"labels": labels}})]
    return _stage("mig-pending", "Node", {"matchExpressions": expressions}, 0, steps)


def _success(layout: Layout, layouts: tuple[Layout, ...]) -> Data:
    # The kubelet keeps a resource that no longer exists, with a count of 0.
    counts = {each.resource: "0" for each in layouts if each != layout}
    resources = {**counts, layout.resource: str(layout.count), "nvidia.com/gpu": "0"}
    labels = {STATE: "success", **{DEPLOY + name: "true" for name in PAUSES}}
    steps = [
        _patch({"status": {"capacity": resources, "allocatable": resources}}, "status"),
        _patch({"metadata": {"labels": labels, "annotations": {APPLIED: layout.config}}}),
    ]
    selected = {"matchLabels": {CONFIG: layout.config, STATE: "pending"}}
    return _stage("mig-" + layout.config, "Node", selected, MIG_SECONDS, steps)


def _stage(name: str, kind: str, selector: Data, seconds: int, steps: list[Data]) -> Data:
    delay = {"durationMilliseconds": seconds * 1000}
    spec = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": selector, "delay": delay, "steps": steps}
    return {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name}, "spec": spec}


def _patch(template: Data, subresource: str = "") -> Data:
    return {"patch": {"type": "merge", "template": json.dumps(template), "subresource": subresource}}


def names(count: int) -> list[str]:
    return ["gpu-%04d" % number for number in range(1, count + 1)]


def nodes(count: int, others: int, layout: Layout) -> str:
    """Nodes with the operator's labels, to which the MIG manager applies the layout, and others outside their pool."""
    listed = names(count + others)
    pool = {POOL: "rollout"}
    return _list([_node(name, layout, pool if number < count else {}) for number, name in enumerate(listed)])


def _node(name: str, layout: Layout, more: Mapping[str, str]) -> Data:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": INSTANCE_TYPE,
        "feature.node.kubernetes.io/pci-10de.present": "true",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "nvidia.com/mig.capable": "true",
        "nvidia.com/mig.strategy": "mixed",
        CONFIG: layout.config,
        **{DEPLOY + operand: "true" for operand in OPERANDS},
        **more,
    }
    resources = {"cpu": "96", "memory": "1152Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    status = {"capacity": resources, "allocatable": resources}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def workload(count: int) -> str:
    """The DaemonSets of the nodes, and users' pods with a disruption budget."""
    operands = [_daemon_set(NAMESPACE, app, {DEPLOY + name: "true"}) for name, app in OPERANDS.items()]
    others = [_daemon_set("kube-system", name, {}) for name in OTHERS]
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "users", "namespace": "default"},
        "spec": {"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "users"}}},
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "users"}},
    }
    pod = {"topologySpreadConstraints": [spread]}
    users = _with_pods("Deployment", "default", "users", pod, {"replicas": PODS * count})
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return _list([namespace, *operands, *others, users, budget])


def _daemon_set(namespace: str, app: str, selector: Mapping[str, str]) -> Data:
    pod = {"nodeSelector": dict(selector), "tolerations": [{"operator": "Exists"}]}
    return _with_pods("DaemonSet", namespace, app, pod, {"updateStrategy": {"type": "OnDelete"}})


def _with_pods(kind: str, namespace: str, app: str, pod: Data, spec: Data) -> Data:
    labels = {"app": app}
    container = {"name": app, "image": "gpufleet.invalid/simulated", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def _list(items: list[Data]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
