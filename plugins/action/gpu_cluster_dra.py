# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: check NVIDIA's DRA driver, and the devices that it publishes."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils import _cluster_nodes, _cluster_plan, _dra
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_api import Api, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_nodes import Data, Host, host_of, name_of

_ARGUMENTS = {
    "check": {"type": "str", "choices": ["preflight", "verify"], "required": True},
    "may_be_missing": {"type": "bool", "default": False},
    "on_controller": {"type": "bool", "default": True},
}
_OBJECTS: tuple[Data, ...] = ({"kind": "Node"}, {"kind": "DaemonSet", "api_version": "apps/v1"}, _dra.slices())
_CHARTS = ("gpu_operator_version", "device_plugin_version")


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        problems: dict[str, list[str]] = {}
        hosts: list[Host] = []
        for name in variables["ansible_play_hosts_all"]:
            own = variables["hostvars"][name]
            hosts.append(host_of(name, own))
            charts = [each for each in _CHARTS if each in own]
            drain = _cluster_plan.is_true(own.get("gpu_cluster_drain"))
            problems[name] = _dra.of_host(hosts[-1], str(own.get("nvidia_mig_owner", "host")), drain, charts)
        try:
            nodes, daemonsets, slices = Api(self, variables).read(*_OBJECTS)
        except Unreadable as error:
            settings = _cluster_plan.Settings(
                "", {}, may_be_missing=arguments["may_be_missing"], on_controller=arguments["on_controller"]
            )
            why = _cluster_plan.unreachable({"msg": str(error)}, settings)
            problems[hosts[0].name].extend([why] if why else [])
        else:
            problems[hosts[0].name].extend(_dra.of_cluster(daemonsets))
            if arguments["check"] == "verify":
                for host in hosts:
                    problems[host.name].extend(_differences(host, nodes, slices))
        result.update(changed=False, problems=problems)
        return result


def _differences(host: Host, nodes: t.Iterable[Data], slices: t.Sequence[Data]) -> list[str]:
    if host.gpus == []:  # a server of the cluster
        return []
    node, why = _cluster_nodes.find(host, [name_of(each) for each in nodes])
    return [why] if node is None else _dra.differences(host, node, slices)
