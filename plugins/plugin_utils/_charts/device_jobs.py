# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Jobs whose pods list their GPUs and MIG devices, and what is wrong with the output."""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from ...module_utils._common.data import Data
from .._cluster.nodes import name_of, node_of
from .._cluster.pods import gpus_of, has_ended
from .._cluster.readiness import ExpectedNode
from .._layout import resources as layout_resources

LABEL = "gpufleet.node/check"  # its value is the name of the check
NODE, RESOURCE = "gpufleet.node/check-node", "gpufleet.node/check-resource"  # annotations
# The image may print anything.
_MAX_LOG = 100000
_MAX_SHOWN = 1000
_GPU_LINE = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[0-9A-Za-z-]{1,80})\)", re.MULTILINE)
_MIG_LINE = re.compile(r"^ +MIG .*\(UUID: (MIG-[0-9A-Za-z/-]{1,80})\)", re.MULTILINE)
_SLEEP = 3600  # seconds; longer than any check
_NOBODY = 65534  # an image may run as root by default
_LIMITS = {"cpu": "1", "memory": "256Mi"}
_REQUESTS = dict.fromkeys(_LIMITS, "0")  # without these, a pod requests its limits, which a busy node does not have
# The cluster ends and removes the jobs even if the controller was killed.
_DEADLINE = 60  # seconds after the end of the check
_REMOVAL = 60  # seconds after the end of a job


class JobOptions(t.NamedTuple):
    """How the devices of nodes are checked."""

    strategy: str  # of the device plugin
    has_gfd: bool  # whether GPU feature discovery labels the nodes
    namespace: str
    runtime_class: str  # of the pods; empty if they need none
    image: str
    timeout: int  # seconds


class PodDevice(t.NamedTuple):
    """A GPU or MIG device that a pod got."""

    node: str
    resource: str
    uuid: str


def check_jobs(
    expected: t.Mapping[str, ExpectedNode], pods: t.Iterable[Data], check: str, options: JobOptions
) -> list[Data]:
    """A job for each resource of each node, with one pod for each device that no other pod uses.

    All pods of a job run at the same time, so each must get its own device. ``check`` names the check, because another one
    may run at the same time. ``pods`` are all of the cluster.
    """
    used = in_use(pods)
    free = [
        (node, resource, count - used[node, resource])
        for node, each in sorted(expected.items())
        for resource, count in sorted((each.resources or {}).items())
        if count > used[node, resource]
    ]
    return [_job("%s-%d" % (check, number), check, *each, options) for number, each in enumerate(free)]


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


def _job(name: str, check: str, node: str, resource: str, count: int, options: JobOptions) -> Data:
    notes = {NODE: node, RESOURCE: resource}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "gpufleet-check-" + name,
            "namespace": options.namespace,
            "labels": {LABEL: check},
            "annotations": notes,
        },
        "spec": {
            "parallelism": count,
            "completions": count,
            "backoffLimit": 0,
            "activeDeadlineSeconds": options.timeout + _DEADLINE,
            "ttlSecondsAfterFinished": _REMOVAL,
            "template": {
                "metadata": {"labels": {LABEL: check}, "annotations": notes},
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
    """Such as Pending, Running or Failed."""
    return str((pod.get("status") or {}).get("phase"))


def jobs_without_result(started: t.Iterable[Data], pods: t.Iterable[Data], logs: t.Mapping[str, str]) -> list[str]:
    """The jobs whose pods have not all printed their devices yet."""
    printed = Counter(_place(pod) for pod in pods if _devices(logs.get(name_of(pod), "")))
    return [
        "%s: %d of %d pods with %s have listed their devices"
        % (job["metadata"]["annotations"][NODE], printed[_place(job)], job["spec"]["completions"], _place(job)[1])
        for job in started
        if printed[_place(job)] < job["spec"]["completions"]
    ]


def _place(item: Data) -> tuple[str, str]:
    notes = item["metadata"].get("annotations") or {}
    return str(notes.get(NODE)), str(notes.get(RESOURCE))


def listed_devices(
    pods: t.Iterable[Data], logs: t.Mapping[str, str], expected: t.Mapping[str, ExpectedNode], strategy: str
) -> tuple[list[PodDevice], list[str]]:
    """The devices that the pods list, and problems of pods that do not list exactly one, or share one that is not shared."""
    found: list[PodDevice] = []
    problems = []
    for pod in sorted(pods, key=name_of):
        node, resource = _place(pod)
        log = logs.get(name_of(pod), "")
        listed = _gpus(log) if strategy == "none" else _devices(log)
        is_mig = resource.startswith(layout_resources.MIG) or expected.get(node, ExpectedNode()).profile
        if len(listed) != 1 or (is_mig and not listed[0].startswith("MIG-")):
            problems.append(
                "%s: a pod with one %s should list one device, but nvidia-smi -L printed: %s"
                % (node, resource, " ".join(log.split())[:_MAX_SHOWN] or "nothing")
            )
            continue
        found.append(PodDevice(node, resource, listed[0]))
    times = Counter(each.uuid for each in found)
    problems.extend(
        "%s: %d pods got the same device %s" % (each.node, times[each.uuid], each.uuid)
        for each in sorted(set(found))
        if times[each.uuid] > expected.get(each.node, ExpectedNode()).replicas.get(each.resource, 1)
    )
    return found, problems


def _devices(log: str) -> list[str]:
    """The UUIDs of MIG devices, or else of GPUs, in the output of nvidia-smi -L."""
    return _MIG_LINE.findall(log[:_MAX_LOG]) or _gpus(log)


def _gpus(log: str) -> list[str]:
    return _GPU_LINE.findall(log[:_MAX_LOG])
