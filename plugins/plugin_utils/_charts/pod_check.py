# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Jobs whose pods list their GPUs and MIG devices, and the checks of their output."""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from .._cluster.labels import PRODUCT, STRATEGY
from .._cluster.nodes import Data, labels_of, name_of, node_of
from .._cluster.pods import gpus_of, has_ended
from .._cluster.readiness import ExpectedNode
from .._layout import resources as layout_resources

LABEL = "gpufleet.node/check"  # its value is that of JobOptions.check
NODE, RESOURCE = "gpufleet.node/check-node", "gpufleet.node/check-resource"  # annotations
# The image may print anything.
_LONGEST_LOG = 100000
_SHOWN = 1000
_GPU = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[0-9A-Za-z-]{1,80})\)", re.MULTILINE)
_MIG = re.compile(r"^ +MIG .*\(UUID: (MIG-[0-9A-Za-z/-]{1,80})\)", re.MULTILINE)
_SLEEP = 3600  # seconds; longer than any check
_NOBODY = 65534  # an image may run as root by default
_LIMITS = {"cpu": "1", "memory": "256Mi"}
_REQUESTS = dict.fromkeys(_LIMITS, "0")  # without these, a pod requests its limits, which a busy node does not have
_KEPT = 60  # seconds after which the cluster removes a finished job that this check left


class JobOptions(t.NamedTuple):
    check: str  # a name for the jobs of this check, because another one may run at the same time
    namespace: str
    image: str
    runtime_class: str
    seconds: int  # after which the cluster ends the jobs, even if the controller was killed


class Device(t.NamedTuple):
    """A GPU or MIG device that a pod got."""

    node: str
    resource: str
    uuid: str


def jobs(expected: t.Mapping[str, ExpectedNode], pods: t.Iterable[Data], options: JobOptions) -> list[Data]:
    """A job for each resource of each node, with one pod for each device that no other pod uses.

    All pods of a job run at the same time, so each must get its own device.
    """
    used = in_use(pods)
    free = [
        (node, resource, count - used[node, resource])
        for node, each in sorted(expected.items())
        for resource, count in sorted((each.resources or {}).items())
        if count > used[node, resource]
    ]
    return [_job(number, *each, options) for number, each in enumerate(free)]


def in_use(pods: t.Iterable[Data]) -> Counter[tuple[str, str]]:
    """The GPUs and MIG devices that pods use, by node and resource."""
    out: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        node = node_of(pod)
        if not node or has_ended(pod):
            continue
        for resource, count in gpus_of(pod).items():
            out[node, resource] += count
    return out


def _job(number: int, node: str, resource: str, count: int, options: JobOptions) -> Data:
    notes = {NODE: node, RESOURCE: resource}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "gpufleet-check-%s-%d" % (options.check, number),
            "namespace": options.namespace,
            "labels": {LABEL: options.check},
            "annotations": notes,
        },
        "spec": {
            "parallelism": count,
            "completions": count,
            "backoffLimit": 0,
            "activeDeadlineSeconds": options.seconds,
            "ttlSecondsAfterFinished": _KEPT,
            "template": {
                "metadata": {"labels": {LABEL: options.check}, "annotations": notes},
                "spec": _pod(node, resource, options),
            },
        },
    }


def _pod(node: str, resource: str, options: JobOptions) -> Data:
    container = {
        "name": "list",
        "image": options.image,
        "command": ["sh", "-c", "nvidia-smi -L && exec sleep %d" % _SLEEP],
        # CUDA images reject drivers older than their CUDA version, which nvidia-smi does not need.
        "env": [{"name": "NVIDIA_DISABLE_REQUIRE", "value": "true"}],
        "resources": {"requests": _REQUESTS, "limits": {**_LIMITS, resource: 1}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    # Select the node, even if it is tainted or cordoned. Unlike nodeName, this respects devices in use.
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    return {
        "containers": [container],
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"operator": "Exists"}],
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "runAsGroup": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        **({"runtimeClassName": options.runtime_class} if options.runtime_class else {}),
    }


def phase(pod: Data) -> str:
    return str((pod.get("status") or {}).get("phase"))


def missing(wanted: t.Iterable[Data], pods: t.Iterable[Data], logs: t.Mapping[str, str]) -> list[str]:
    """The jobs whose pods have not all printed their devices yet."""
    printed = Counter(_place(pod) for pod in pods if _devices(logs.get(name_of(pod), "")))
    return [
        "%s: %d of %d pods with %s have listed their devices"
        % (job["metadata"]["annotations"][NODE], printed[_place(job)], job["spec"]["completions"], _place(job)[1])
        for job in wanted
        if printed[_place(job)] < job["spec"]["completions"]
    ]


def _place(item: Data) -> tuple[str, str]:
    notes = item["metadata"].get("annotations") or {}
    return str(notes.get(NODE)), str(notes.get(RESOURCE))


def devices(
    pods: t.Iterable[Data], logs: t.Mapping[str, str], expected: t.Mapping[str, ExpectedNode], strategy: str
) -> tuple[list[Device], list[str]]:
    """The devices that the pods list, and problems of pods that do not list exactly one, or share one that is not shared."""
    found: list[Device] = []
    problems = []
    for pod in sorted(pods, key=name_of):
        node, resource = _place(pod)
        log = logs.get(name_of(pod), "")
        listed = _gpus(log) if strategy == "none" else _devices(log)
        is_mig = resource.startswith(layout_resources.MIG) or expected.get(node, ExpectedNode()).profile
        if len(listed) != 1 or (is_mig and not listed[0].startswith("MIG-")):
            problems.append(
                "%s: a pod with one %s should list one device, but nvidia-smi -L printed: %s"
                % (node, resource, " ".join(log.split())[:_SHOWN] or "nothing")
            )
            continue
        found.append(Device(node, resource, listed[0]))
    times = Counter(each.uuid for each in found)
    problems.extend(
        "%s: %d pods got the same device %s" % (each.node, times[each.uuid], each.uuid)
        for each in sorted(set(found))
        if times[each.uuid] > expected.get(each.node, ExpectedNode()).replicas.get(each.resource, 1)
    )
    return found, problems


def _devices(log: str) -> list[str]:
    """The UUIDs of MIG devices, or else of GPUs, in the output of nvidia-smi -L."""
    return _MIG.findall(log[:_LONGEST_LOG]) or _gpus(log)


def _gpus(log: str) -> list[str]:
    return _GPU.findall(log[:_LONGEST_LOG])


def profile_of(product: str) -> str:
    """The profile in the product label of a node with the strategy single; empty if MIG is off."""
    return product.partition("-MIG-")[2].removesuffix("-SHARED")


def wrong_labels(nodes: t.Iterable[Data], expected: t.Mapping[str, ExpectedNode], strategy: str) -> list[str]:
    """Labels of GPU feature discovery that do not match the resources."""
    out: list[str] = []
    for node in nodes:
        each, found = expected.get(name_of(node), ExpectedNode()), labels_of(node)
        if each.resources:
            problems = [
                "the label %s is %s, but should be %s" % (name, found.get(name, "missing"), value)
                for name, value in sorted(_labels(each.resources, each.replicas, strategy).items())
                if found.get(name) != value
            ]
            problems += _wrong_product(found.get(PRODUCT), each.profile)
            out.extend("%s: %s" % (name_of(node), problem) for problem in problems)
    return out


def _labels(resources: t.Mapping[str, int], replicas: t.Mapping[str, int], strategy: str) -> dict[str, str]:
    """The labels that GPU feature discovery should write for the resources."""
    out = {} if strategy == "none" else {STRATEGY: strategy}
    for name, count in resources.items():
        times = replicas.get(name, 1)
        label = name.removesuffix(layout_resources.SHARED)
        if times > 1 and strategy != "none":  # which counts no replicas of GPUs with MIG
            out[label + ".replicas"] = str(times)
        if name.startswith(layout_resources.MIG):
            out[label + ".count"] = str(count // times)
    return out


def _wrong_product(product: str | None, profile: str | None) -> list[str]:
    if product is None:
        return ["the label %s is missing" % PRODUCT]
    if profile is None or profile_of(product) == profile:
        return []
    named = "should end with -MIG-%s" % profile if profile else "should name a GPU without MIG"
    return ["the label %s is %s, but %s" % (PRODUCT, product, named)]
