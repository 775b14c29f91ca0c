# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: show the table and the maps of a rehearsal."""

from __future__ import annotations

import typing as t
from collections import Counter

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.module_utils._common.text import listed
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import pods, table
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.outcome import Outcome


class ActionModule(Action):
    ARGUMENTS = {
        "result": {"type": "str", "required": True},
        "pods": {"type": "str", "default": ""},
        "removed": {"type": "list", "elements": "str", "default": []},
    }

    def perform(self, variables: Data) -> Data:
        hosts, of, name = variables["ansible_play_hosts"], variables["hostvars"], self._arguments["result"]
        outcomes = [Outcome(**of[host][name]["outcome"]) for host in hosts]
        show("\n%s\n" % table.text_of(outcomes, self._pods(outcomes), self._arguments["removed"]))
        return {"problems": {each.host: list(each.problems) for each in outcomes}}

    def _pods(self, outcomes: t.Sequence[Outcome]) -> list[str]:
        """What the rehearsal shows of the pods."""
        if not self._arguments["pods"]:
            return []
        known = [each for each in outcomes if each.node]
        before, after = (
            {each.node: Counter(getattr(each, name) or {}) for each in known}
            for name in ("resources_before", "resources")
        )
        lines = pods.report(pods.read(self._arguments["pods"]), before, after)
        others = [each.host for each in outcomes if not each.node]
        return [*lines, *(["without %s, whose GPUs are unknown" % listed(others, ", ", 10)] if others else [])]
