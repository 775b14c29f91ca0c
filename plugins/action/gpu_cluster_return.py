# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: return the host's node to service after its GPUs have changed."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import MigError
from ansible_collections.gpufleet.node.plugins.plugin_utils import _cluster_nodes, _drain, _plugin_configs
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_api import Api, Progress, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_nodes import Data, Host, host_of, name_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._refusal import Refusal

_ARGUMENTS = {
    "uncordon": {"type": "bool", "default": True},
    "holder": {"type": "str", "default": ""},
    "layout_applied": {"type": "bool", "default": True},
    "timeout": {"type": "int", "required": True},
    "interval": {"type": "int", "default": 5},
}


class _NotReady(Exception):
    """The node does not advertise its GPUs in time."""


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, self._arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        self._api = Api(self, task_vars)
        host = host_of(variables["inventory_hostname"], variables)
        result.update(changed=False)
        try:
            node = self._api.node(host)
            known = _drain.record(node)
            if known is None:
                return result
            if self._arguments["holder"] not in ("", known.holder):
                raise ValueError("another run has taken node %s over, and returns it to service" % name_of(node))
            result["changed"] = True
            if not self._arguments["uncordon"]:
                result["warnings"] = ["%s: its node is out of service until this is run again and succeeds" % host.name]
            if not self._task.check_mode:
                self._return(host, name_of(node))
        except (_NotReady, Unreadable, ValueError) as error:
            result.update(failed=True, msg="%s: %s" % (host.name, error))
        return result

    def _return(self, host: Host, name: str) -> None:
        node, pods = self._api.node_and_pods(name)
        self._api.patch(name, _drain.resume(node))
        former = _drain.outdated(node, pods)
        self._api.remove("deleted", [_drain.pod_of(pod) for pod in former])
        if not self._arguments["uncordon"]:
            return
        applied = self._arguments["layout_applied"]
        resources = _resources(host, node) if applied else None
        progress = Progress(self._arguments["timeout"], self._arguments["interval"], Display().display)
        waiting = progress.until_empty(
            "waiting for %s" % name, lambda: _drain.unready(*self._api.node_and_pods(name), resources, former)
        )
        if waiting:
            raise _NotReady(
                "after %d seconds, node %s is not ready, and remains cordoned: %s. Resolve this and run it again, or "
                "return the node with kubectl uncordon %s"
                % (self._arguments["timeout"], name, "; ".join(waiting), name)
            )
        self._api.patch(name, _drain.uncordon(self._api.node_and_pods(name)[0]))


def _resources(host: Host, node: Data) -> dict[str, int] | None:
    """The resources that the node should advertise.

    None if the strategy is unknown or does not support the layout, or if the GPUs are still shared in another way.
    """
    strategy, current = _drain.strategy(node), _plugin_configs.in_effect(host, node)
    try:
        return _cluster_nodes.expected(current, strategy) if strategy and current else None
    except (MigError, Refusal):
        return None
