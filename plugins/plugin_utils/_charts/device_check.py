# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Check the GPUs and MIG devices of nodes with pods: run the jobs, compare what they list, remove them."""

from __future__ import annotations

import contextlib
import dataclasses
import secrets
import time
import typing as t

from ...module_utils._common.data import Data
from .._cluster import readiness
from .._cluster.api import Api
from .._cluster.nodes import labels_of, name_of
from .._cluster.progress import pauses
from .._cluster.readiness import ExpectedNode
from .._cluster.responses import Unreadable
from .._common.output import Reasons
from . import device_jobs, gfd_labels
from .device_jobs import JobOptions, PodDevice


@dataclasses.dataclass
class Checked:
    """What the check has found."""

    devices: list[PodDevice] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    unchecked: list[str] = dataclasses.field(default_factory=list)  # warnings


def check_devices(
    api: Api, expected: t.Mapping[str, ExpectedNode], options: JobOptions, show: t.Callable[[str], object]
) -> Checked:
    """Check each GPU and MIG device that no pod uses, and show what is waited for.

    ``expected`` is the expected state of the nodes, by name.
    """
    result = Checked()
    try:
        missing = _missing_class(api, options.runtime_class)
        if missing:
            result.problems = [missing]
        else:
            _run(api, expected, options, result, Reasons(show))
    except Unreadable as error:
        result.problems.append("the GPUs could not be checked with pods: %s" % error)
    return result


def _missing_class(api: Api, name: str) -> str:
    if not name or api.read({"kind": "RuntimeClass", "api_version": "node.k8s.io/v1", "name": name})[0]:
        return ""
    return "the cluster has no RuntimeClass %s, which pods need to use GPUs" % name


def _run(
    api: Api, expected: t.Mapping[str, ExpectedNode], options: JobOptions, result: Checked, reasons: Reasons
) -> None:
    identity = secrets.token_hex(4)
    selector = ["%s=%s" % (device_jobs.LABEL, identity)]
    (pods,) = api.read({"kind": "Pod"})
    jobs = device_jobs.check_jobs(expected, pods, identity, options)
    result.unchecked = _unchecked(expected, pods, jobs)
    try:
        if jobs:
            api.call("kubernetes.core.k8s", resource_definition=jobs)
        _wait(api, expected, options, jobs, selector, result, reasons)
    finally:
        _remove(api, options.namespace, selector)


def _unchecked(expected: t.Mapping[str, ExpectedNode], pods: t.Iterable[Data], jobs: t.Iterable[Data]) -> list[str]:
    """Warnings about nodes whose devices are unknown, and about devices that pods use."""
    unknown = sorted(node for node, each in expected.items() if each.resources is None)
    text = "the GPUs of node %s were not checked with pods, because the resources that it should advertise are unknown"
    out = [text % node for node in unknown]
    left = sum(sum((each.resources or {}).values()) for each in expected.values())
    left -= sum(job["spec"]["completions"] for job in jobs)
    if not left:
        return out
    others = any(device_jobs.LABEL in labels_of(pod) for pod in pods)
    why = "pods, also of another or interrupted check," if others else "pods"
    return [*out, "%d GPUs or MIG devices were not checked, because %s use them" % (left, why)]


def _wait(
    api: Api,
    expected: t.Mapping[str, ExpectedNode],
    options: JobOptions,
    jobs: list[Data],
    selector: list[str],
    result: Checked,
    reasons: Reasons,
) -> None:
    """Wait until the pods have listed their devices, and compare these, and the labels, with the expected ones."""
    end = time.monotonic() + options.timeout
    intervals, logs = pauses(), dict[str, str]()
    while True:
        wanted_pods = {"kind": "Pod", "namespace": options.namespace, "label_selectors": selector}
        pods, nodes = api.read(wanted_pods, {"kind": "Node"})
        for pod in pods:
            if device_jobs.phase(pod) in ("Running", "Failed") and not logs.get(name_of(pod)):
                with contextlib.suppress(Unreadable):  # its container is still starting
                    logs[name_of(pod)] = api.log(options.namespace, name_of(pod))
        missing = device_jobs.jobs_without_result(jobs, pods, logs)
        # GPU feature discovery updates the labels once a minute.
        labels = gfd_labels.wrong_labels(nodes, expected, options.strategy) if options.has_gfd else []
        failed = any(device_jobs.phase(pod) == "Failed" for pod in pods)
        now = time.monotonic()
        if failed or not (missing or labels) or now >= end:
            break
        why = [*missing, *labels, *readiness.pod_problems(pods)[:1]]  # all pods may have the same one
        reasons.show("checking GPUs with pods, %d s left" % (end - now), "; ".join(why))
        time.sleep(next(intervals))
    printed = [pod for pod in pods if logs.get(name_of(pod))]
    result.devices, problems = device_jobs.listed_devices(printed, logs, expected, options.strategy)
    result.problems = [*missing, *labels, *problems, *readiness.pod_problems(pods)]


def _remove(api: Api, namespace: str, selector: list[str]) -> None:
    api.call(
        "kubernetes.core.k8s",
        state="absent",
        api_version="batch/v1",
        kind="Job",
        namespace=namespace,
        label_selectors=selector,
        delete_all=True,
        delete_options={"propagationPolicy": "Foreground"},  # with its pods
        wait=True,
        wait_timeout=120,
    )
