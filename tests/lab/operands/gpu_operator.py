# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the GPU operator: labels nodes, creates the operands' DaemonSets, and reports a state.

As with the original, the state "ready" does not prove that pods get GPUs.
"""

from __future__ import annotations

import datetime
import os
import typing as t

from . import operand_sets
from .cluster_api import Client, Object, environment, forever, labels_of, say, start
from .operand_sets import DEPLOY, OPERANDS

POLICIES = "/apis/nvidia.com/v1/clusterpolicies"
DETECTED = ["feature.node.kubernetes.io/%s.present" % name for name in ("pci-10de", "pci-0302_10de", "pci-0300_10de")]
PRESENT = "nvidia.com/gpu.present"
OFF = DEPLOY + "operands"
MIG_CONFIG = "nvidia.com/mig.config"
CAPABLE_PRODUCTS = ("a100", "a30", "h100")
DEPLOYED = (
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
)
WITH_CLIENT = (26, 7)  # the first version with the label for users' clients
Changes = t.Dict[str, t.Optional[str]]


class Outcome(t.NamedTuple):
    state: str
    reason: str
    message: str


def version_of(text: str) -> t.Tuple[int, int]:
    major, minor = text.lstrip("v").split(".")[:2]
    return int(major), int(minor)


def detected(labels: t.Mapping[str, str]) -> bool:
    return any(labels.get(name) == "true" for name in DETECTED)


def mig_capable(labels: t.Mapping[str, str]) -> bool:
    known = labels.get("nvidia.com/mig.capable")
    if known:
        return known == "true"
    product = labels.get("nvidia.com/gpu.product", "").lower()
    return any(name in product for name in CAPABLE_PRODUCTS)


def node_labels(labels: t.Mapping[str, str], spec: Object, version: str) -> Changes:
    """The changes to a node's labels. Values set by others are kept."""
    ours = [name for name in labels if name.startswith(DEPLOY) and name != OFF]
    if not detected(labels):
        return {**dict.fromkeys(ours), PRESENT: "false"} if labels.get(PRESENT) == "true" else {}
    changes: Changes = {}
    if labels.get(PRESENT) != "true":
        changes[PRESENT] = "true"
    if labels.get(OFF) == "false":
        return {**changes, **{name: None for name in ours}}
    names = [*DEPLOYED, *(["client"] if version_of(version) >= WITH_CLIENT else [])]
    capable = mig_capable(labels)
    if capable:
        names.append("mig-manager")
    changes.update({DEPLOY + name: "true" for name in names if not labels.get(DEPLOY + name)})
    manager = spec.get("migManager", {})
    default = (manager.get("config") or {}).get("default")
    if capable and manager.get("enabled") and default == "all-disabled" and not labels.get(MIG_CONFIG):
        changes[MIG_CONFIG] = default
    return changes


def ready(daemon_set: t.Optional[Object]) -> bool:
    """Whether all pods of a DaemonSet are available, which includes that there are none."""
    if not daemon_set:
        return False
    status = daemon_set.get("status", {})
    wanted = status.get("desiredNumberScheduled", 0)
    return (
        status.get("observedGeneration", 0) == daemon_set["metadata"]["generation"]
        and status.get("numberAvailable", 0) == wanted
        and status.get("updatedNumberScheduled", 0) == wanted
    )


def outcome(nodes: t.Sequence[t.Mapping[str, str]], not_ready: t.Sequence[str], spec: Object) -> Outcome:
    """The policy's state, from the nodes' labels and the operands that are not ready."""
    if not any(name.startswith("feature.node.kubernetes.io/") for labels in nodes for name in labels):
        return Outcome("ready", "NFDLabelsMissing", "No NFD labels found")
    if not any(labels.get(PRESENT) == "true" for labels in nodes):
        return Outcome("ready", "NoGPUNodes", "No GPU node found")
    if spec.get("toolkit", {}).get("enabled"):
        missing = "the stand-in has no container toolkit: install it on the nodes, and set toolkit.enabled=false"
        return Outcome("notReady", "OperandNotReady", missing)
    if not_ready:
        return Outcome(
            "notReady", "OperandNotReady", "ClusterPolicy is not ready, states not ready: %s" % list(not_ready)
        )
    return Outcome("ready", "Reconciled", "ClusterPolicy is ready as all resources have been successfully reconciled")


def conditions(found: Outcome, former: t.Sequence[Object], now: str) -> t.List[Object]:
    """The conditions Ready and Error; their time changes with their status."""
    times = {(each["type"], each["status"]): each["lastTransitionTime"] for each in former}
    made = []
    for kind, true in (("Ready", found.state == "ready"), ("Error", found.state != "ready")):
        status = "True" if true else "False"
        made.append(
            {
                "type": kind,
                "status": status,
                "reason": found.reason if true else {"Ready": "Error", "Error": "Ready"}[kind],
                "message": found.message if true else "",
                "lastTransitionTime": times.get((kind, status), now),
            }
        )
    return made


class Operator:
    def __init__(self, client: Client, namespace: str, version: str) -> None:
        self._client, self._namespace, self._version = client, namespace, version
        self._said = ""

    def step(self) -> None:
        policies = sorted(self._client.items(POLICIES), key=lambda each: each["metadata"]["creationTimestamp"])
        for other in policies[1:]:
            self._report(other, {"state": "ignored", "namespace": self._namespace})
        if policies:
            self._reconcile(policies[0])

    def _reconcile(self, policy: Object) -> None:
        spec = policy["spec"]
        nodes = []
        for node in self._client.items("/api/v1/nodes"):
            labels = labels_of(node)
            changes = node_labels(labels, spec, self._version)
            if changes:
                name = node["metadata"]["name"]
                say("node %s: labels %s" % (name, changes))
                self._client.label_node(name, changes)
            nodes.append({**labels, **{name: value for name, value in changes.items() if value is not None}})
        not_ready = self._operands(policy) if any(labels.get(PRESENT) == "true" for labels in nodes) else []
        found = outcome(nodes, not_ready, spec)
        if found.message != self._said:
            self._said = found.message
            say("%s: %s: %s" % found)
        former = policy.get("status", {}).get("conditions") or []
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {"state": found.state, "namespace": self._namespace, "conditions": conditions(found, former, now)}
        self._report(policy, status)

    def _operands(self, policy: Object) -> t.List[str]:
        """Create or remove the operands, and return those that are not ready."""
        client, folder = self._client, "/apis/apps/v1/namespaces/%s/daemonsets/" % self._namespace
        spec, known = policy["spec"], policy["metadata"]
        owner = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": known["name"], "uid": known["uid"]}
        if spec.get("psa", {}).get("enabled"):
            level = {"pod-security.kubernetes.io/enforce": "privileged"}
            client.merge("/api/v1/namespaces/" + self._namespace, {"metadata": {"labels": level}})
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
        not_ready = []
        for operand in OPERANDS:
            if not operand_sets.enabled(operand, spec):
                client.delete(folder + operand.name)
                continue
            wanted = operand_sets.daemon_set(operand, spec, self._namespace, self._version, runtime_class)
            wanted["metadata"]["ownerReferences"] = [owner]
            if not ready(client.apply(folder + operand.name, wanted)):
                not_ready.append(operand.name)
        return not_ready

    def _report(self, policy: Object, status: Object) -> None:
        if policy.get("status") != status:
            path = "%s/%s/status" % (POLICIES, policy["metadata"]["name"])
            self._client.merge(path, {"status": status})


def main() -> None:
    start("NVIDIA's GPU operator")
    version = environment("OPERATOR_VERSION")
    operator = Operator(Client("gpu-operator"), environment("OPERATOR_NAMESPACE"), version)
    forever(operator.step, float(os.environ.get("INTERVAL", "2")))
