# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: use pods to check that each GPU and MIG device of a cluster is usable."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import pod_check_run
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "wanted": {"type": "dict", "required": True},
        "strategy": {"type": "str", "required": True},
        "labels": {"type": "bool", "required": True},
        "namespace": {"type": "str", "required": True},
        "runtime_class": {"type": "str", "required": True},
        "image": {"type": "str", "required": True},
        "timeout": {"type": "int", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        arguments = dict(self._arguments)
        wanted = {node: ExpectedNode(**each) for node, each in arguments.pop("wanted").items()}
        options = pod_check_run.Options(has_gfd=arguments.pop("labels"), **arguments)
        found = pod_check_run.check(self._api, wanted, options)
        for each in found.devices:
            show("%s: a pod with one %s got %s" % each)
        result: Data = {"devices": [each._asdict() for each in found.devices], "problems": found.problems}
        return {**result, **({"warnings": [found.unchecked]} if found.unchecked else {})}
