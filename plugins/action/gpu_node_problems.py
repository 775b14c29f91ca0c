# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: the messages about the problems that preflight or verify found."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import report

_FACT = "gpu_node_problems"
_SKIP = "gpu_node_skip"


class ActionModule(Action):
    ARGUMENTS = {
        "check": {"type": "str", "required": True, "choices": ["preflight", "verify"]},
        "gathered": {"type": "str", "default": ""},  # a name, because hosts that have left the play have no arguments
    }

    def perform(self, variables: Data) -> Data:
        if self._arguments["check"] == "preflight":
            return _preflight(variables, self._arguments["gathered"])
        host, found = variables["inventory_hostname"], variables[_FACT]
        return {"message": report.verification_message(host, found), "problems": {host: report.sentences(found, host)}}


def _preflight(variables: t.Mapping[str, t.Any], gathered: str) -> Data:
    """The messages by host, whether they stop the run, and the hosts that are left out of it otherwise."""
    every, present, of = variables["ansible_play_hosts_all"], variables["ansible_play_hosts"], variables["hostvars"]
    lost = set(every).difference(present)
    # With gpu_node_skip none, such a host remains in the play, and this is one of its problems.
    unreachable = [host for host in every if host in lost and of[host].get(gathered, {}).get("unreachable")]
    problems = {host: None if host in lost else of[host].get(_FACT) for host in every if host not in unreachable}
    refused = [host for host, found in problems.items() if found != []]
    stops = any(host in lost or of[host].get(_SKIP) != "problems" for host in refused)
    left_out = [*unreachable, *([] if stops else refused)]
    return {
        "messages": report.preflight_messages(problems, present, stops),
        "problems": report.sentences_by_host(problems),
        "stops": stops,
        "left_out": left_out,
        "warnings": ["%s cannot be reached and is left out" % host for host in unreachable],
    }
