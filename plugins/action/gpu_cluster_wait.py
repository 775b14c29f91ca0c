# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: wait until the nodes of a cluster advertise their GPUs, and show the progress."""

from __future__ import annotations

import itertools
import time
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import pauses
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import Container, State, Wanted
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Final, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import Reasons, show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record

_LINES = 15  # of a log


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "wanted": {"type": "dict", "required": True},
        "namespace": {"type": "str", "required": True},
        "helm_chart": {"type": "str", "default": ""},
        "elsewhere": {"type": "bool", "default": True},
        "timeout": {"type": "int", "required": True},
        "settle": {"type": "int", "default": 0},
    }

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        wanted = {node: Wanted(**each) for node, each in arguments["wanted"].items()}
        end = time.monotonic() + arguments["timeout"]
        reasons, ready_at, intervals = Reasons(show), 0.0, pauses()
        while True:
            state = self._state(wanted)
            now = time.monotonic()
            ready_at = (ready_at or now) if state.ready else 0.0
            if state.failed or now >= end or (state.ready and now >= ready_at + arguments["settle"]):
                break
            text = "; ".join(state.waiting) or "ready, must stay ready for %d s" % arguments["settle"]
            reasons.show("waiting, %d s left" % (end - now), text)
            time.sleep(next(intervals))
        result: Data = {"waiting": list(state.waiting), "problems": list(state.failed)}
        if not state.ready:
            result.update(failed=True, msg=self._message(state))
        return result

    def _state(self, wanted: t.Mapping[str, Wanted]) -> State:
        arguments = self._arguments
        nodes: list[Data] = [{"kind": "Node"}]
        pods: list[Data] = [{"kind": "Pod", "namespace": arguments["namespace"]}]
        if not arguments["elsewhere"]:
            nodes = [{"kind": "Node", "name": name} for name in wanted]
            pods = [{**pods[0], "field_selectors": ["spec.nodeName=" + name]} for name in wanted]
        if arguments["helm_chart"]:
            labels = ["%s=%s" % (readiness.INSTALLER, arguments["helm_chart"])]
            pods.append({"kind": "Pod", "namespace": "kube-system", "label_selectors": labels})
        try:
            found = self._api.read(*nodes, *pods)
        except Unreadable as error:
            why = ("the cluster cannot be read: %s" % error,)
            return State((), why) if isinstance(error, Final) else State(why, ())
        chain = itertools.chain.from_iterable
        here = list(chain(found[: len(nodes)]))
        return readiness.state(wanted, here, list(chain(found[len(nodes) :])), record.all_return_commands(here))

    def _message(self, state: State) -> str:
        lines = list(state.failed)
        if state.waiting:
            lines.extend(["After %d seconds:" % self._arguments["timeout"]] if not state.failed else [])
            lines.extend(state.waiting)
        if state.failed_container:
            lines.extend(self._log(state.failed_container))
        return "\n".join(lines)

    def _log(self, container: Container) -> list[str]:
        options = {"container": container.name, "previous": container.previous, "tail_lines": _LINES}
        try:
            lines = self._api.log(container.namespace, container.pod, **options).splitlines() or ["it is empty"]
        except Unreadable as error:
            lines = [str(error)]
        title = "Last lines of the log of container %s of pod %s:" % (container.name, container.pod)
        return [title, *("  " + line for line in lines if line)]
