# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Hosts of a report, from their variables and what the module node_state returned."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.data import Data
from .._cluster import nodes as cluster_nodes
from .._cluster.nodes import Host
from .._inventory.report import sentences
from . import data
from .data import HostReport, Problem

# Versions that an inventory may set, and the variables of the roles.
_REQUESTED = {
    "driver": "nvidia_driver_version",
    "branch": "nvidia_driver_branch",
    "toolkit": "nvidia_container_toolkit_version",
}
_UNREADABLE = "its variables cannot be read: %s"
_NOT_READ = "the run did not read it"
# What Ansible writes before ssh's message depends on when the connection ends, so it would differ from run to run.
_SSH = re.compile(
    "^(Task failed: )?(Data could not be sent to remote host .*? over ssh: |Failed to connect to the host via ssh: )?"
)


class Read(t.NamedTuple):
    """A host for the report, and for the comparison with the cluster."""

    report: HostReport
    host: Host


def of_variables(name: str, variables: t.Mapping[str, t.Any], state: object) -> Read:
    """A host from its variables, which may be templates that fail, and the result of node_state."""
    state = state if isinstance(state, dict) else {"failed": True, "msg": _NOT_READ}
    problems, facts = _problems(state, name), None
    if not problems:
        try:
            facts = data.require_facts(state.get("nvidia"))
        except TypeError as why:
            problems = [Problem("failed", "it returned something else than its GPUs and driver: %s" % why)]
    known = not problems
    try:
        values = {
            each: variables[each] for each in (*cluster_nodes.VARIABLES, *_REQUESTED.values()) if each in variables
        }
        shown = {"nvidia": facts, "nodename": state.get("nodename") if known else ""}
        host = cluster_nodes.host_of(name, {**values, "ansible_facts": shown})
    except Exception as why:  # templates of the user can raise any error
        host, values = Host(name), {}
        problems.append(Problem("variables", _UNREADABLE % str(why).strip().rstrip(".")))
    toolkit = state.get("toolkit")
    return Read(
        HostReport(
            error="; ".join(problem.text for problem in problems) or None,
            facts=facts,
            toolkit=toolkit if known and isinstance(toolkit, dict) else None,
            nodename=str(state.get("nodename") or "") if known else None,
            drained=bool(state.get("drained")) if known else None,
            desired=host.layout,
            boards=list(host.boards) or None,
            requested={key: str(values[each]) for key, each in _REQUESTED.items() if values.get(each)},
            problems=problems,
        ),
        host,
    )


def _problems(state: Data, name: str) -> list[Problem]:
    if state.get("unreachable"):
        return [Problem("unreachable", "it cannot be reached: %s" % _SSH.sub("", _one_line(state.get("msg"))))]
    if state.get("failed") or "nvidia" not in state:
        return [Problem("failed", "it cannot be read: %s" % "; ".join(map(_one_line, sentences([state], name))))]
    return []


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split()).rstrip(".")
