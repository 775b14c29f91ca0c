# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: run helm, and show why pods do not start while it waits for hooks of the chart."""

from __future__ import annotations

import time

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import progress, readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import Reasons, show
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import record

_MODULE = "kubernetes.core.helm"
_PAUSE = 5  # seconds between checks
_UNFINISHED = (
    "an earlier removal of the chart was interrupted or failed. Complete it with: helm uninstall %s --namespace %s"
)


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "options": {"type": "dict", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        options = self._arguments["options"]
        namespace = options["release_namespace"]

        def helm() -> Data:
            try:
                found: Data = self._execute_module(module_name=_MODULE, module_args=options, task_vars=variables)
            except AnsibleError as error:
                return {"failed": True, "msg": str(error)}
            return found

        started, shown = time.monotonic(), Reasons(show)
        waiting: list[str] = []

        def show_waiting() -> None:
            waiting[:] = self._waiting(namespace)
            title = "waiting for helm, %d s" % (time.monotonic() - started)
            shown.show(title, "; ".join(waiting) or "no pod reports a problem")

        result = progress.while_running(helm, _PAUSE, show_waiting)
        if result.get("failed"):
            result["msg"] = "; ".join([result["msg"].rstrip(), *(self._waiting(namespace) or waiting)])
        elif options.get("state") == "absent" and self._unfinished(options["name"], namespace):
            result.update(failed=True, msg=_UNFINISHED % (options["name"], namespace))
        return result

    def _waiting(self, namespace: str) -> list[str]:
        """Why pods do not start. helm waits for the jobs of the chart's hooks, and says nothing about them."""
        try:
            nodes, pods = self._api.read({"kind": "Node"}, {"kind": "Pod", "namespace": namespace})
        except Unreadable as error:
            return ["the cluster cannot be read: %s" % error]
        return list(readiness.nodes_state({}, nodes, pods, record.all_return_commands(nodes)).waiting)

    def _unfinished(self, name: str, namespace: str) -> bool:
        """Whether the release is left in a state that kubernetes.core.helm does not remove."""
        labels = ["owner=helm", "name=" + name, "status=uninstalling"]
        try:
            return bool(self._api.read({"kind": "Secret", "namespace": namespace, "label_selectors": labels})[0])
        except Unreadable:  # as the next task will report
            return False
