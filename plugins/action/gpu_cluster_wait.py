# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: wait until the nodes of a cluster advertise their GPUs, and show the progress."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.node.plugins.plugin_utils import _readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_nodes import said
from ansible_collections.gpufleet.node.plugins.plugin_utils._readiness import Container, State, Wanted

_ARGUMENTS = {
    "wanted": {"type": "dict", "required": True},
    "namespace": {"type": "str", "required": True},
    "helm_chart": {"type": "str", "default": ""},
    "timeout": {"type": "int", "required": True},
    "settle": {"type": "int", "default": 0},
    "interval": {"type": "int", "default": 5},
}
_LINES = 15  # of a log
_REPEATED = 60  # seconds after which unchanged progress is shown again

Data = t.Dict[str, t.Any]


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        wanted = {node: Wanted(**each) for node, each in arguments["wanted"].items()}
        end = time.monotonic() + arguments["timeout"]
        shown, shown_at, ready_at = "", 0.0, 0.0
        while True:
            state = self._state(wanted, arguments["namespace"], arguments["helm_chart"], task_vars)
            now = time.monotonic()
            ready_at = (ready_at or now) if state.ready else 0.0
            if state.failed or now >= end or (state.ready and now >= ready_at + arguments["settle"]):
                break
            text = "; ".join(state.waiting) or "ready, must stay ready for %d s" % arguments["settle"]
            if text != shown or now - shown_at > _REPEATED:
                Display().display("waiting, %d s left: %s" % (end - now, text))
                shown, shown_at = text, now
            time.sleep(arguments["interval"])
        result.update(changed=False, waiting=list(state.waiting), problems=list(state.failed))
        if not state.ready:
            result.update(failed=True, msg=self._message(state, arguments["timeout"], task_vars))
        return result

    def _state(
        self, wanted: t.Mapping[str, Wanted], namespace: str, helm_chart: str, task_vars: dict[str, t.Any] | None
    ) -> State:
        results = [self._read(task_vars, kind="Node"), self._read(task_vars, kind="Pod", namespace=namespace)]
        if helm_chart:
            labels = ["%s=%s" % (_readiness.INSTALLER, helm_chart)]
            results.append(self._read(task_vars, kind="Pod", namespace="kube-system", label_selectors=labels))
        for found in results:
            if "resources" not in found or found.get("failed"):
                return State(("the cluster cannot be read: %s" % said(found)[:300],), ())
        nodes, *pods = [found["resources"] for found in results]
        return _readiness.state(wanted, nodes, [pod for each in pods for pod in each])

    def _read(self, task_vars: dict[str, t.Any] | None, **arguments: t.Any) -> Data:
        return t.cast(
            "Data",
            self._execute_module(
                module_name="kubernetes.core.k8s_info",
                module_args={"api_version": "v1", **arguments},
                task_vars=task_vars,
            ),
        )

    def _message(self, state: State, timeout: int, task_vars: dict[str, t.Any] | None) -> str:
        lines = list(state.failed)
        if state.waiting:
            lines.extend(["After %d seconds:" % timeout] if not state.failed else [])
            lines.extend(state.waiting)
        if state.culprit:
            lines.extend(self._log(state.culprit, task_vars))
        return "\n".join(lines)

    def _log(self, container: Container, task_vars: dict[str, t.Any] | None) -> list[str]:
        found = self._execute_module(
            module_name="kubernetes.core.k8s_log",
            module_args={
                "namespace": container.namespace,
                "name": container.pod,
                "container": container.name,
                "previous": container.previous,
                "tail_lines": _LINES,
            },
            task_vars=task_vars,
        )
        title = "Last lines of the log of container %s of pod %s:" % (container.name, container.pod)
        lines = found.get("log_lines") or [said(found, "it is empty")]
        return [title, *("  " + line for line in lines if line)]
