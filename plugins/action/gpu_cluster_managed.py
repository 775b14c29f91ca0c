# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: find the GPU nodes of a managed cluster."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._managed import gpu_nodes

_FEW = 5  # nodes that a warning names
_UNREADABLE = "the cluster cannot be read: %s. Check gpu_cluster_kubeconfig and gpu_cluster_context"


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "selector": {"type": "list", "elements": "str", "default": []},
        "boards": {"type": "list", "elements": "str", "default": []},
        "layout": {"type": "raw"},
        "sharing": {"type": "raw"},
        "strategy": {"type": "str", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        common = gpu_nodes.NodeVariables(
            bool(arguments["selector"]),
            arguments["strategy"],
            arguments["boards"],
            arguments["layout"],
            arguments["sharing"],
        )
        requested = [{"kind": "Node", "label_selectors": arguments["selector"]}]
        every = [{"kind": "Node"}] if arguments["selector"] else []
        try:
            nodes, *rest = self._api.read(*requested, *every)
        except Unreadable as error:
            return {"failed": True, "msg": _UNREADABLE % error}
        found = gpu_nodes.find_nodes(nodes, common)
        result: Data = found._asdict()
        warnings = []
        if found.skipped:
            text = "nothing is installed or compared on %s: set nvidia_mig_layout to compare their GPUs with it"
            warnings.append(text % ", ".join(found.skipped))
        unselected = [each for others in rest for each in gpu_nodes.unselected_nodes(others, nodes)]
        if unselected:
            more = " and %d more" % (len(unselected) - _FEW) if len(unselected) > _FEW else ""
            text = "gpu_cluster_selector does not select %d nodes with GPUs: %s%s"
            warnings.append(text % (len(unselected), ", ".join(unselected[:_FEW]), more))
        if warnings:
            result["warnings"] = warnings
        if found.problems:
            hint = "" if arguments["selector"] else ". To select other nodes, set gpu_cluster_selector"
            result.update(failed=True, msg="%s%s. Nothing was changed" % ("; ".join(found.problems), hint))
        return result
