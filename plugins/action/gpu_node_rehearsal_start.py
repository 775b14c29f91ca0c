# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: read what a rehearsal starts from, for all hosts of the play."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

import ansible.constants as C

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import former, pods, simulator, start

_FOLDER = "gpufleet-rehearsal"


class ActionModule(Action):
    ARGUMENTS = {
        "source": {"type": "str", "default": ""},
        "busy": {"type": "raw"},
        "pods": {"type": "str", "default": ""},
    }

    def perform(self, variables: Data) -> Data:
        given, hosts = self._arguments, variables["ansible_play_hosts_all"]
        inventory = {*variables["groups"]["all"], *hosts}  # also the hosts that --limit leaves out
        start.require_known_names(variables)
        simulator.require()
        starts, removed = self._starts(given["source"], hosts, inventory)
        _add_busy(given["busy"], starts, inventory)
        if given["pods"]:
            pods.read(given["pods"])  # an error here saves the rehearsal
        folder = Path(C.DEFAULT_LOCAL_TMP) / _FOLDER  # Ansible removes it when the run ends
        simulator.prepare(folder)
        for number, host in enumerate(hosts):
            own = folder / str(number)
            own.mkdir(mode=0o700)
            (own / "start.json").write_text(json.dumps(dataclasses.asdict(starts[host])), encoding="utf-8")
        return {"folder": str(folder), "removed": removed}

    def _starts(
        self, source: str, hosts: t.Sequence[str], inventory: t.Collection[str]
    ) -> tuple[dict[str, start.Start], list[str]]:
        """What each host starts from, and the hosts that are only in the source."""
        if source in ("", start.EMPTY):
            return {host: start.Start() for host in hosts}, []
        path = Path(source).expanduser().absolute()
        if not path.exists():
            raise Refusal(
                "rehearse_from: %s does not exist: give a former inventory, a report's JSON, or %s"
                % (path, start.EMPTY)
            )
        report = start.report_of(path)
        if report is not None:
            starts = {host: start.of_report(report.hosts.get(host)) for host in hosts}
            return starts, start.removed(path, report.hosts, inventory)
        starts, known = former.starts(path, hosts, self._loader, self._templar)
        return starts, start.removed(path, known, inventory)


def _add_busy(value: t.Any, starts: t.Mapping[str, start.Start], inventory: t.Collection[str]) -> None:
    report = start.report_of(Path(value).expanduser()) if isinstance(value, str) and value else None
    if report is not None:
        for host, each in starts.items():
            each.busy, notes = start.busy_of_report(report.hosts.get(host))
            each.notes += notes
        return
    entries = start.busy_entries(value)
    for entry in entries:
        if entry["host"] not in inventory:
            raise Refusal("rehearse_busy: %.70r is no host of the inventory" % (entry["host"],))
    for host, each in starts.items():
        each.busy = start.busy_of_list(entries, host)
