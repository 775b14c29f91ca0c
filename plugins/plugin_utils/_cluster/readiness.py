# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Check whether nodes advertise their GPUs, from their allocatable resources, MIG state and pods."""

from __future__ import annotations

import datetime
import typing as t

from ...module_utils._common.data import Data
from ...module_utils._common.text import cut
from .._layout import resources as layout_resources
from . import mig_configs
from .nodes import labels_of, name_of, node_of
from .pods import is_terminating

VALIDATOR = "nvidia-operator-validator"
MIG_MANAGER = "nvidia-mig-manager"
INSTALLER = "helmcharts.helm.cattle.io/chart"  # label of the job with which RKE2 and k3s install a chart
_NODE_NOT_READY = "the node is not ready"
_MAX_REASON = 300  # characters of a reason
# The kubelet removes them five minutes after the device plugin stopped, but does not retry if the API server is down.
_RESTART_KUBELET = " (if this persists, restart the node's kubelet, which kept removed resources)"


class ExpectedNode(t.NamedTuple):
    """The expected state of a node."""

    resources: t.Optional[t.Mapping[str, int]] = None  # None: unknown, not compared
    config: str = ""  # the configuration that the MIG manager applies; empty if the host owns MIG
    validator: bool = False  # whether the operator's validator runs there
    replicas: t.Mapping[str, int] = {}  # of shared resources
    profile: t.Optional[str] = None  # with the strategy single, of all MIG devices; empty if MIG is off


class Container(t.NamedTuple):
    """A container whose log explains a failure."""

    namespace: str
    pod: str
    name: str
    previous: bool


class State(t.NamedTuple):
    """``waiting`` may resolve by itself; ``failed`` requires a change."""

    waiting: t.Tuple[str, ...]
    failed: t.Tuple[str, ...]
    failed_container: t.Optional[Container] = None

    @property
    def ready(self) -> bool:
        return not self.waiting and not self.failed


def nodes_state(
    expected: t.Mapping[str, ExpectedNode],
    nodes: t.Iterable[Data],
    pods: t.Sequence[Data],
    return_commands: t.Sequence[str] = (),
) -> State:
    """The state of the nodes. ``pods`` are those of the chart and of its installation job.

    A pod that cannot start keeps the others waiting, because an update of the chart would be incomplete. Pods of
    DaemonSets on other nodes are not counted, nor those that no node accepts while runs of this collection have nodes out
    of service. ``return_commands`` return these: the installation job needs one of them.
    """
    by_name = {name_of(node): node for node in nodes}
    parts = [_of_node(name, by_name.get(name), each, pods) for name, each in sorted(expected.items())]
    parts.append(_of_installation(pods, return_commands))
    is_ready = bool(expected) and all(part.ready for part in parts)
    # Pods explain why the nodes are not ready. Later, only those count that the chart still needs.
    counted = [pod for pod in pods if not (node_of(pod) and _is_elsewhere(pod, expected))]
    if is_ready:
        counted = [pod for pod in counted if _counts(pod, expected, return_commands)]
    return _merged([*parts, _of_pods(counted, return_commands)])


def _merged(parts: t.Sequence[State]) -> State:
    return State(
        tuple(text for part in parts for text in part.waiting),
        tuple(text for part in parts for text in part.failed),
        next((part.failed_container for part in parts if part.failed_container), None),
    )


def _of_node(name: str, node: Data | None, expected: ExpectedNode, pods: t.Iterable[Data]) -> State:
    if node is None:
        return State((), ("%s: the cluster no longer has this node" % name,))
    here = [pod for pod in pods if node_of(pod) == name]
    missing, failed = _unmet(node, expected, here)
    return State(
        ("%s: %s" % (name, ", ".join(missing)),) if missing else (),
        tuple("%s: %s" % (name, reason) for reason in failed),
        _log(here, MIG_MANAGER) if failed else None,
    )


def _of_installation(pods: t.Iterable[Data], return_commands: t.Sequence[str]) -> State:
    """The pods of the installation job."""
    waiting, failed = [], []
    for pod in filter(_installs, pods):
        if return_commands and _unscheduled(pod):
            failed.append("the chart is not installed, because no node accepts pod %s" % name_of(pod))
        else:
            waiting.append("the chart is being installed by pod %s" % name_of(pod))
    return State(tuple(waiting), tuple(failed))


def _of_pods(pods: t.Sequence[Data], return_commands: t.Sequence[str]) -> State:
    found = [problem for pod in pods for problem in _problem(pod)]
    waiting = [text for text, _container in found]
    if return_commands and any(map(_unscheduled, pods)):
        waiting.append(
            "an interrupted run has left nodes out of service. Return one with: %s" % "; ".join(return_commands)
        )
    return State(tuple(waiting), (), next((container for _text, container in found if container), None))


def node_problems(node: Data) -> list[str]:
    """Why a node is not ready, whatever it advertises."""
    return [] if is_ready(node) else ["%s: %s" % (name_of(node), _NODE_NOT_READY)]


def _unmet(node: Data, expected: ExpectedNode, pods: t.Sequence[Data]) -> tuple[list[str], list[str]]:
    """Unmet conditions and failures of a node."""
    labels = labels_of(node)
    missing: list[str] = []
    failed: list[str] = []
    if expected.config:
        label, found = labels.get(mig_configs.LABEL), labels.get(mig_configs.STATE)
        if label != expected.config:
            failed.append("another owner changed its label %s to %s" % (mig_configs.LABEL, label))
        elif found == "failed":
            failed.append("the MIG manager could not apply %s" % expected.config)
        elif found != "success":
            missing.append("MIG configuration %s" % (found or "not applied yet"))
    offered = allocatable(node)
    if expected.resources is not None and offered != dict(expected.resources):
        gone = not set(expected.resources.items()) - set(offered.items())
        missing.append(
            "advertises %s, should advertise %s%s"
            % (resource_list(offered), resource_list(expected.resources), _RESTART_KUBELET if gone else "")
        )
    if expected.validator and not any(is_ready(pod) for pod in pods if labels_of(pod).get("app") == VALIDATOR):
        missing.append("%s is not ready" % VALIDATOR)
    if not is_ready(node):
        missing.append(_NODE_NOT_READY)
    return missing, failed


def allocatable(node: t.Mapping[str, t.Any]) -> dict[str, int]:
    """The GPUs and MIG devices that a node advertises. The kubelet keeps removed resources with a count of 0."""
    found = layout_resources.counts((node.get("status") or {}).get("allocatable"))
    return {name: count for name, count in sorted(found.items()) if count}


def resource_list(counts: t.Mapping[str, int]) -> str:
    """Resources in a message, such as nvidia.com/gpu: 8."""
    return ", ".join("%s: %d" % pair for pair in sorted(counts.items())) or "no GPUs"


def is_ready(item: t.Mapping[str, t.Any]) -> bool:
    """Whether a node or a pod is ready, and not being deleted. Without a condition, as while a node joins, it is not."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
    return ready and not is_terminating(item)


def _installs(pod: Data) -> bool:
    return INSTALLER in labels_of(pod) and _active(pod)


def _active(pod: Data) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Pending", "Running")


def _counts(pod: Data, expected: t.Collection[str], return_commands: t.Sequence[str]) -> bool:
    """Whether a pod has to start before the nodes are ready."""
    if return_commands and _unscheduled(pod):
        return False
    return _active(pod) and not _is_elsewhere(pod, expected)


def _is_elsewhere(pod: Data, expected: t.Collection[str]) -> bool:
    """Whether it is a DaemonSet's pod on another node, such as one that is changed later."""
    owners = {owner.get("kind") for owner in pod["metadata"].get("ownerReferences") or ()}
    return "DaemonSet" in owners and node_of(pod) not in expected


def _unscheduled(pod: Data) -> str:
    """Why no node accepts a pod; empty if it has one, or was not considered yet."""
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return _cut(each.get("message") or each.get("reason"))
    return ""


def _problem(pod: Data) -> t.Iterator[tuple[str, Container | None]]:
    """Why a pod does not run; nothing if it runs or is starting."""
    status = pod.get("status") or {}
    name, namespace = name_of(pod), str(pod["metadata"].get("namespace"))
    if is_terminating(pod) or status.get("phase") == "Succeeded":
        return
    if _unscheduled(pod):
        yield "pod %s is not scheduled: %s" % (name, _unscheduled(pod)), None
    for each in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        current = each.get("state") or {}
        waiting = current.get("waiting") or {}
        reason = waiting.get("reason")
        ended = current.get("terminated") or (each.get("lastState") or {}).get("terminated") or {}
        crashed = reason == "CrashLoopBackOff" or bool((current.get("terminated") or {}).get("exitCode"))
        if crashed:
            previous = "terminated" not in current
            text = "container %s of pod %s ended with status %s" % (each["name"], name, ended.get("exitCode"))
            yield text, Container(namespace, name, each["name"], previous)
        elif reason and reason not in ("ContainerCreating", "PodInitializing"):
            text = "container %s of pod %s: %s: %s" % (each["name"], name, reason, _cut(waiting.get("message")))
            yield text.rstrip(": "), None


def pod_problems(pods: t.Iterable[Data]) -> list[str]:
    """Why pods do not run."""
    return [text for pod in pods for text, _container in _problem(pod)]


def _log(pods: t.Iterable[Data], app: str) -> Container | None:
    """The main container of a component."""
    for pod in pods:
        if labels_of(pod).get("app") == app and not is_terminating(pod):
            return Container(
                str(pod["metadata"].get("namespace")), name_of(pod), pod["spec"]["containers"][0]["name"], False
            )
    return None


def _cut(text: object) -> str:
    return cut(" ".join(str(text or "").split()), _MAX_REASON)


def outdated_plugins(pods: t.Iterable[Data], changed: t.Mapping[str, float]) -> list[Data]:
    """The device plugin's pods that started before the last change of their node's MIG instances.

    The device plugin reads the instances once, when it starts. ``changed`` is the time of the change, by node.
    """
    out = []
    for pod in pods:
        node = str(node_of(pod))
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        started = [_epoch((each.get("state") or {}).get("running", {}).get("startedAt")) for each in statuses]
        known = [each for each in started if each is not None]
        if known and min(known) < changed.get(node, 0.0):
            out.append({name: str(pod["metadata"].get(name)) for name in ("namespace", "name", "uid")})
    return out


def _epoch(text: object) -> float | None:
    """Parse a time in the API's format into seconds since the epoch."""
    try:
        found = datetime.datetime.strptime(str(text), "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        return None
    return found.replace(tzinfo=datetime.timezone.utc).timestamp()
