# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: compare a cluster with a plan, and check its GPUs and MIG devices with pods."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import compare
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.plan import Planned
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "plan": {"type": "dict", "required": True},
        "server": {"type": "str", "required": True},
        "managed": {"type": "bool", "default": False},
        "helm_changes": {"type": "bool", "default": False},
        "check_pods": {"type": "bool", "required": True},
        "image": {"type": "str", "required": True},
        "timeout": {"type": "int", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        arguments = dict(self._arguments)
        planned = Planned.of(arguments.pop("plan"))
        playbook = "managed_cluster.yml" if arguments.pop("managed") else "site.yml"
        arguments["check_pods"] = arguments["check_pods"] and not self._task.check_mode
        problems, checked = compare.compare_cluster(
            self._api, planned, compare.CompareOptions(playbook=playbook, **arguments), show
        )
        for each in checked.devices:
            show("%s: a pod with one %s got %s" % each)
        result: Data = {
            "devices": [each._asdict() for each in checked.devices],
            "problems": compare.problems_by_host(planned, variables["ansible_play_hosts"], problems),
        }
        return {**result, **({"warnings": checked.unchecked} if checked.unchecked else {})}
