# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the GPU operator: labels nodes, and creates the operands' DaemonSets. The policy gets no status."""

from __future__ import annotations

import typing as t

from . import operand_sets
from .cluster_api import Client, Object, environment, forever, labels_of, say, start
from .operand_sets import DEPLOY, OPERANDS

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
DETECTED = "feature.node.kubernetes.io/pci-10de.present"
PRESENT = "nvidia.com/gpu.present"
MIG_CONFIG = "nvidia.com/mig.config"
CAPABLE_PRODUCTS = ("a100", "a30", "h100")
DEPLOYED = (
    "client",
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
)
Changes = t.Dict[str, t.Optional[str]]


def mig_capable(labels: t.Mapping[str, str]) -> bool:
    known = labels.get("nvidia.com/mig.capable")
    if known:
        return known == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(name in product for name in CAPABLE_PRODUCTS)


def node_labels(labels: t.Mapping[str, str], spec: Object) -> Changes:
    """The changes to a node's labels. Values set by others are kept."""
    if labels.get(DETECTED) != "true":
        ours = [name for name in labels if name.startswith(DEPLOY)]
        return {**dict.fromkeys(ours), PRESENT: "false"} if labels.get(PRESENT) == "true" else {}
    capable = mig_capable(labels)
    names = [DEPLOY + name for name in (*DEPLOYED, *(["mig-manager"] if capable else []))]
    changes: Changes = {name: "true" for name in names if not labels.get(name)}
    if labels.get(PRESENT) != "true":
        changes[PRESENT] = "true"
    manager = spec.get("migManager", {})
    default = (manager.get("config") or {}).get("default")
    if capable and manager.get("enabled") and default == "all-disabled" and not labels.get(MIG_CONFIG):
        changes[MIG_CONFIG] = default
    return changes


class Operator:
    def __init__(self, client: Client, namespace: str, version: str) -> None:
        self._client, self._namespace, self._version = client, namespace, version

    def step(self) -> None:
        policies = sorted(self._client.items(POLICIES), key=lambda each: each["metadata"]["creationTimestamp"])
        for policy in policies[:1]:  # the original ignores others, too
            found = [self._label(node, policy["spec"]) for node in self._client.items("/api/v1/nodes")]
            if any(labels.get(PRESENT) == "true" for labels in found):
                self._operands(policy)

    def _label(self, node: Object, spec: Object) -> Changes:
        """Label a node, and return its labels."""
        labels = labels_of(node)
        changes = node_labels(labels, spec)
        if changes:
            name = node["metadata"]["name"]
            say("node %s: labels %s" % (name, changes))
            self._client.label_node(name, changes)
        return {**labels, **changes}

    def _operands(self, policy: Object) -> None:
        """Create or remove the operands."""
        client, folder = self._client, "/apis/apps/v1/namespaces/%s/daemonsets/" % self._namespace
        spec, known = policy["spec"], policy["metadata"]
        owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": known["name"], "uid": known["uid"]}
        runtime_class = spec.get("operator", {}).get("runtimeClass") or "nvidia"
        client.apply(
            "/apis/node.k8s.io/v1/runtimeclasses/" + runtime_class,
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": runtime_class, "ownerReferences": [owner]},
                "handler": "nvidia",
            },
        )
        for operand in OPERANDS:
            if not operand_sets.enabled(operand, spec):
                client.delete(folder + operand.name)
                continue
            wanted = operand_sets.daemon_set(operand, spec, self._namespace, self._version, runtime_class)
            wanted["metadata"]["ownerReferences"] = [owner]
            client.apply(folder + operand.name, wanted)


def main() -> None:
    start("NVIDIA's GPU operator")
    version = environment("OPERATOR_VERSION")
    operator = Operator(Client("gpu-operator"), environment("OPERATOR_NAMESPACE"), version)
    forever(operator.step)
