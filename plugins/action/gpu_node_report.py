# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: write the report of all hosts of the play, as a page and as data."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable, unreachable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._report import build, cluster_view, files, hosts
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.cluster_view import View
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.data import ClusterReport
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.hosts import Read


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "path": {"type": "str", "required": True},
        "previous": {"type": "str", "default": ""},
        "state": {"type": "str", "required": True},  # a name, because the results of other hosts are no arguments
        "cluster": {"type": "bool", "default": False},
        "cluster_problem": {"type": "str", "default": ""},
        "strategy": {"type": "str", "default": "mixed"},
        "allocator": {"type": "str", "default": "device_plugin"},
    }

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        of, names = variables["hostvars"], variables["ansible_play_hosts_all"]
        try:
            previous = files.previous(arguments["previous"])
            read = {name: hosts.of_variables(name, of[name], of[name].get(arguments["state"])) for name in names}
            report = build.report(read, self._cluster(read))
            return files.write(report, previous, arguments["path"], self._task.check_mode)
        except Refusal as error:
            raise AnsibleActionFail(str(error)) from None

    def _cluster(self, read: t.Mapping[str, Read]) -> View | ClusterReport | None:
        arguments = self._arguments
        if not arguments["cluster"]:
            return None
        problem = arguments["cluster_problem"]
        try:
            objects = [] if problem else self._api.read(*cluster_view.REQUESTED)
        except Unreadable as error:
            problem = unreachable({"msg": str(error)}, False, self._on_controller) or str(error)
        if problem:
            return ClusterReport(error=problem.removeprefix("the cluster cannot be read: "))
        settings = cluster_view.Settings(arguments["strategy"], arguments["allocator"] != "dra")
        return build.cluster(read, objects, settings)
