# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: take the host's node out of service before its GPUs change."""

from __future__ import annotations

import typing as t
import uuid

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.node.plugins.plugin_utils import _drain
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_api import Api, Progress, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_nodes import Data, host_of, name_of

_ARGUMENTS = {
    "gpus": {"type": "list", "elements": "dict"},
    "checkpoint": {"type": "str"},
    "pods": {"type": "str", "default": "all", "choices": ["all", "gpu", "affected"]},
    "ignore_daemonsets": {"type": "bool", "default": True},
    "delete_emptydir_data": {"type": "bool", "default": False},
    "force": {"type": "bool", "default": False},
    "grace_period": {"type": "int", "default": -1},
    "timeout": {"type": "int", "required": True},
    "interval": {"type": "int", "default": 5},
}


class _Failed(Exception):
    """The node cannot be taken out of service."""


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, self._arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        host = host_of(variables["inventory_hostname"], variables)
        self._api = Api(self, task_vars)
        self._progress = Progress(self._arguments["timeout"], self._arguments["interval"], Display().display)
        self._settings = _drain.Settings(**{name: self._arguments[name] for name in _drain.Settings._fields})
        planned = self._arguments["gpus"]
        self._change = _drain.Change(
            None if planned is None else _drain.devices_changed(planned, host.gpus or ()),
            _drain.devices_held(self._arguments["checkpoint"]),
        )
        result.update(changed=False, evicted=[])
        try:
            self._drain(name_of(self._api.node(host)), result)
        except (_Failed, Unreadable, ValueError) as error:
            result.update(failed=True, msg="%s: %s" % (host.name, error))
        return result

    def _drain(self, name: str, result: Data) -> None:
        node, found = self._api.node_and_pods(name)
        result["holder"] = str(uuid.uuid4())
        cordon = _drain.cordon(node, result["holder"])
        try:
            pods = self._to_evict(name, found)
            new = _drain.record(node) is None or not _drain.cordoned(node)
            result.update(changed=bool(new or pods), evicted=[str(_drain.pod_of(pod)) for pod in pods])
            if self._task.check_mode:
                return
            self._api.patch(name, cordon)
            self._until_empty(name, "is not drained", lambda: self._evict(name))
            self._api.patch(name, _drain.pause(self._api.node_and_pods(name)[0]))
            self._until_empty(name, "still runs components of the GPU operator", lambda: self._operands(name))
        except (_Failed, Unreadable) as error:
            raise _Failed("%s. %s" % (error, self._returned(name))) from None

    def _to_evict(self, name: str, found: list[Data]) -> list[Data]:
        pods, problems = _drain.to_evict(found, self._settings, self._change)
        if problems:
            raise _Failed("node %s cannot be drained: %s" % (name, "; ".join(problems)))
        return pods

    def _until_empty(self, name: str, why: str, step: t.Callable[[], list[str]]) -> None:
        waiting = self._progress.until_empty("draining %s" % name, step)
        if waiting:
            seconds = self._arguments["timeout"]
            raise _Failed("after %d seconds, node %s %s: %s" % (seconds, name, why, "; ".join(waiting)))

    def _evict(self, name: str) -> list[str]:
        """Request the eviction of the pods that are left. The API rejects those that a disruption budget protects."""
        pods = self._to_evict(name, self._api.node_and_pods(name)[1])
        staying = [_drain.pod_of(pod) for pod in pods if not pod["metadata"].get("deletionTimestamp")]
        rejected = self._api.remove("evicted", staying, self._arguments["grace_period"])
        reasons = {"%(namespace)s/%(name)s" % each: str(each["reason"]) for each in rejected}
        return [_waiting(pod, reasons) for pod in pods]

    def _operands(self, name: str) -> list[str]:
        return ["pod " + str(pod) for pod in _drain.operands(*self._api.node_and_pods(name))]

    def _returned(self, name: str) -> str:
        """Return the node to service, also from an earlier run. A sentence without a full stop."""
        if self._task.check_mode:
            return "Nothing was changed"
        try:
            self._api.patch(name, _drain.uncordon(self._api.node_and_pods(name)[0]))
        except (Unreadable, ValueError) as error:
            return "It may still be cordoned (%s). Its GPUs were not changed. Run this again to continue" % error
        return "It is in service, and its GPUs were not changed"


def _waiting(pod: Data, rejected: t.Mapping[str, str]) -> str:
    name = str(_drain.pod_of(pod))
    metadata = pod["metadata"]
    if name in rejected:
        return "pod %s: %s" % (name, rejected[name])
    if not metadata.get("deletionTimestamp"):
        return "pod %s is being evicted" % name
    held = ", ".join(metadata.get("finalizers") or ())
    return "pod %s is terminating%s" % (name, " (finalizers: %s)" % held if held else "")
