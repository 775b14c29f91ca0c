# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: label nodes, and restart the MIG managers that read the labels."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.gpufleet.node.plugins.plugin_utils import _drain, _mig_configs, _readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_api import Api, Progress, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster_nodes import Data, labels_of, name_of

_ARGUMENTS = {
    "nodes": {"type": "list", "elements": "dict", "required": True},
    "retry": {"type": "list", "elements": "str", "default": []},
    "managers": {"type": "str", "default": ""},
    "timeout": {"type": "int", "default": 300},
    "interval": {"type": "int", "default": 5},
}
Labels = t.Dict[str, t.Dict[str, t.Optional[str]]]  # by node; None removes a label


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        wanted: Labels = {each["node"]: each["labels"] for each in arguments["nodes"]}
        retried: Labels = {name: {_mig_configs.STATE: None} for name in arguments["retry"]}
        changes = {**wanted, **retried}
        result.update(changed=bool(changes))
        if not changes:
            return result
        api, progress = Api(self, task_vars), Progress(arguments["timeout"], arguments["interval"], Display().display)
        title = "labelling %s" % ("%d nodes" % len(changes) if len(changes) > 3 else ", ".join(changes))
        try:
            nodes, managers = progress.result(title, lambda: _read(api, list(changes), arguments["managers"]))
            result["diff"] = [_diff(name, nodes.get(name), change) for name, change in changes.items()]
            if self._task.check_mode:
                return result
            progress.result(title, lambda: _label(api, retried))
            # A running MIG manager sees a new ConfigMap with a delay, and does not retry a failed configuration.
            api.restart(managers, progress)
            progress.result(title, lambda: _label(api, wanted))
        except Unreadable as error:
            result.update(failed=True, msg=str(error))
        return result


def _read(api: Api, names: t.Sequence[str], namespace: str) -> tuple[dict[str, Data], list[_drain.Pod]]:
    """The nodes by name, and their MIG managers in the namespace, if there is one. One node is read alone."""
    alone = len(names) == 1
    wanted: list[Data] = [{"kind": "Node", "name": names[0]} if alone else {"kind": "Node"}]
    if namespace:
        where = {"field_selectors": ["spec.nodeName=" + names[0]]} if alone else {}
        labels = ["app=" + _readiness.MIG_MANAGER]
        wanted.append({"kind": "Pod", "namespace": namespace, "label_selectors": labels, **where})
    nodes, *pods = api.read(*wanted)
    managers = [pod for found in pods for pod in found if (pod.get("spec") or {}).get("nodeName") in names]
    return {name_of(node): node for node in nodes}, [_drain.pod_of(pod) for pod in managers]


def _diff(name: str, node: Data | None, change: t.Mapping[str, str | None]) -> Data:
    labels = labels_of(node) if node else {}
    before = {label: labels[label] for label in change if label in labels}
    after = {label: value for label, value in change.items() if value is not None}
    return {"before_header": name, "after_header": name, "before": before, "after": after}


def _label(api: Api, changes: Labels) -> None:
    if changes:
        api.patch(*({"node": name, "patch": {"metadata": {"labels": change}}} for name, change in changes.items()))
