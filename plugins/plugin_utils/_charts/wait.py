# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Wait until nodes advertise their GPUs after a chart has changed, and explain why they do not."""

from __future__ import annotations

import time
import typing as t

from ...module_utils._common.data import Data
from .._cluster import readiness
from .._cluster.api import Api
from .._cluster.progress import pauses
from .._cluster.readiness import Container, ExpectedNode, State
from .._cluster.responses import Final, Unreadable
from .._common.output import Reasons
from .._drain import record

_LINES = 15  # of a log


class WaitOptions(t.NamedTuple):
    """What is waited for, and how long."""

    namespace: str  # of the chart
    helm_chart: str  # the HelmChart whose installation job is waited for; empty if there is none
    elsewhere: bool  # whether the pods on all nodes are read
    timeout: int  # seconds
    settle: int  # seconds for which the nodes must remain ready


def wait_for_nodes(
    api: Api, expected: t.Mapping[str, ExpectedNode], options: WaitOptions, show: t.Callable[[str], object]
) -> State:
    """The state of the nodes when they are ready, have failed, or the time has passed. Shows why they are not ready."""
    end = time.monotonic() + options.timeout
    reasons, ready_at, intervals = Reasons(show), 0.0, pauses()
    while True:
        state = _read(api, expected, options)
        now = time.monotonic()
        ready_at = (ready_at or now) if state.ready else 0.0
        if state.failed or now >= end or (state.ready and now >= ready_at + options.settle):
            return state
        text = "; ".join(state.waiting) or "ready, must stay ready for %d s" % options.settle
        reasons.show("waiting, %d s left" % (end - now), text)
        time.sleep(next(intervals))


def _read(api: Api, expected: t.Mapping[str, ExpectedNode], options: WaitOptions) -> State:
    nodes: list[Data] = [{"kind": "Node"}]
    pods: list[Data] = [{"kind": "Pod", "namespace": options.namespace}]
    if not options.elsewhere:
        nodes = [{"kind": "Node", "name": name} for name in expected]
        pods = [{**pods[0], "field_selectors": ["spec.nodeName=" + name]} for name in expected]
    if options.helm_chart:
        labels = ["%s=%s" % (readiness.INSTALLER, options.helm_chart)]
        pods.append({"kind": "Pod", "namespace": "kube-system", "label_selectors": labels})
    try:
        found = api.read(*nodes, *pods)
    except Unreadable as error:
        why = ("the cluster cannot be read: %s" % error,)
        return State((), why) if isinstance(error, Final) else State(why, ())
    here, there = ([item for each in part for item in each] for part in (found[: len(nodes)], found[len(nodes) :]))
    return readiness.nodes_state(expected, here, there, record.all_return_commands(here))


def failure_message(api: Api, state: State, timeout: int) -> str:
    """Why the nodes are not ready, with the end of the log of a container that has failed."""
    title = ["After %d seconds:" % timeout] if state.waiting and not state.failed else []
    log = _log(api, state.failed_container) if state.failed_container else []
    return "\n".join([*state.failed, *title, *state.waiting, *log])


def _log(api: Api, container: Container) -> list[str]:
    options = {"container": container.name, "previous": container.previous, "tail_lines": _LINES}
    try:
        lines = api.log(container.namespace, container.pod, **options).splitlines() or ["it is empty"]
    except Unreadable as error:
        lines = [str(error)]
    title = "Last lines of the log of container %s of pod %s:" % (container.name, container.pod)
    return [title, *("  " + line for line in lines if line)]
