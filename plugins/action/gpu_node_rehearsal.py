# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: rehearse the change of a host's GPUs on a simulated node."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import MigError
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import nodes
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import board_differences
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout.boards import GeometryError
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import cluster, outcome, simulator
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import job as rehearsal_job
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.outcome import Outcome
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.start import Start

_ROLES = ("gpu_node", "nvidia_driver", "nvidia_mig", *cluster.ROLES)


class ActionModule(Action):
    ARGUMENTS = {
        "folder": {"type": "str", "required": True},
        "problems": {"type": "list", "elements": "str", "required": True},
        "activation": {"type": "str", "choices": ["auto", "reset", "reboot"], "default": "auto"},
    }

    def perform(self, variables: Data) -> Data:
        host, given = variables["inventory_hostname"], self._arguments
        own = Path(given["folder"]) / str(variables["ansible_play_hosts_all"].index(host))
        start = Start(**json.loads((own / "start.json").read_text(encoding="utf-8")))
        if given["problems"]:
            found = outcome.invalid(host, given["problems"])
        else:
            found = self._rehearse(host, variables, start, own)
        return {"outcome": found._asdict()}

    def _rehearse(self, host: str, variables: Data, start: Start, own: Path) -> Outcome:
        values = {
            role: inventory_variables.validated_for_host(role, variables, self._templar.template)[0] for role in _ROLES
        }
        driver = values["nvidia_driver"]
        branch = driver["nvidia_driver_branch"]
        described = rehearsal_job.Host(
            host,
            values["gpu_node"]["gpu_node_boards"],
            values["nvidia_mig"] if "nvidia_mig_layout" in variables else None,
            driver["nvidia_driver_version"] or ("" if branch == "auto" else branch),
        )
        if not rehearsal_job.has_gpus(described, start):
            return outcome.without_layout(host, notes=[start.error] if start.error else [])
        if start.error and not described.boards:
            return outcome.invalid(host, [start.error])
        gpus = described.boards if start.gpus is None else start.gpus
        problems = rehearsal_job.layout_problems(described, gpus)
        if problems:
            return outcome.invalid(host, problems)
        differences = board_differences.inventory_differences(values["gpu_node"], start.gpus)
        try:
            job, notes = rehearsal_job.job(described, start, self._arguments["activation"], own)
            done = simulator.run(job, Path(self._arguments["folder"]))
        except GeometryError as error:
            return outcome.unknown(host, str(error), outcome.called(described.boards))
        except (Refusal, MigError) as error:
            return outcome.invalid(host, [str(error)])
        if "unknown" in done:
            return outcome.unknown(host, done["unknown"], outcome.called(described.boards))
        found = outcome.of_child(host, done, job)
        more = [*differences, *([start.error] if start.error else []), *start.notes, *notes]
        found = found._replace(notes=(*more, *found.notes))
        return cluster.with_resources(found, nodes.host_of(host, self._of_cluster(variables)), done, values)

    def _of_cluster(self, variables: Data) -> dict[str, t.Any]:
        names = [name for name in nodes.VARIABLES if name in variables and name != "ansible_facts"]
        return {name: self._templar.template(variables[name]) for name in names}
