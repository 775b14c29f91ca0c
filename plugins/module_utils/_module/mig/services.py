# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_mig_services: stops the services that block a change of the GPUs, and starts them again."""

from __future__ import annotations

import json
import os
import typing as t

from ..._backend import signals
from ..._mig import layout
from ..common import files, systemd
from ..common.commands import Run, runner
from . import processes, results

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "required": True, "choices": ["stopped", "started"]},
        "record": {"type": "path", "required": True},
        "disruption": {"type": "str", "default": results.NONE, "choices": list(results.DISRUPTIONS)},
        "clients": {"type": "list", "elements": "str", "default": []},
        "mode_clients": {"type": "list", "elements": "str", "default": []},
        "units": {"type": "list", "elements": "str", "default": []},
        "processes": {"type": "list", "elements": "int", "default": []},
        "layout": {"type": "list", "elements": "dict", "default": []},
    }
}

_KUBELETS = ("kubelet.service", "rke2-server.service", "rke2-agent.service", "k3s.service", "k3s-agent.service")
_SPLIT = (
    "%s is running, and the layout splits GPU instances into %s. With the MIG strategy mixed, the NVIDIA device plugin "
    "exits on such a node, and the node offers no GPU. Use whole GPU instances, or the strategy single with identical "
    "MIG devices on the whole node"
)


def run(module: AnsibleModule) -> None:
    params = module.params
    command = runner(module)
    try:
        if params["state"] == "stopped":
            _stop(module, command)
        else:
            _start(module, command)
    except OSError as error:
        module.fail_json(msg="The record of stopped units cannot be used: %s%s" % (error, files.remedy(error)))
    except ValueError as error:
        text = "The record of stopped units %s is damaged: %s. Delete it and run again"
        module.fail_json(msg=text % (params["record"], error))


def _stop(module: AnsibleModule, command: Run) -> None:
    params = module.params
    found = systemd.running(command, patterns(params["disruption"], params["clients"], params["mode_clients"]))
    split = split_instances(params["layout"]) if params["layout"] else []
    kubelets = systemd.running(command, _KUBELETS) if split else []
    if kubelets:
        module.warn(_SPLIT % (", ".join(kubelets), ", ".join(split)))
    if params["disruption"] != results.NONE and not module.check_mode:
        files.make_private(os.path.dirname(params["record"]))
        units = sorted({*(read(params["record"]) or ()), *found})
        files.write(params["record"], json.dumps({"stopped": units}).encode(), 0o600)
        with signals.deferred() as ending:
            problems = stop(command, found)
            if ending.received:  # no task follows that would start them
                ended = "Stopped by %s, so the GPU clients are started again" % ", ".join(ending.received)
                problems = [ended, *start(command, units).problems]
        if problems:
            module.fail_json(msg=". ".join(problems), stopped=found)
    module.exit_json(changed=bool(found), stopped=found, others=processes.outside_units(params["processes"], found))


def _start(module: AnsibleModule, command: Run) -> None:
    params = module.params
    recorded = read(params["record"])
    units = sorted({*(recorded or ()), *params["units"]}, reverse=True)
    with signals.deferred():
        found = start(command, units, module.check_mode)
    for unit in found.uninstalled:
        module.warn("%s, which the role stopped, is no longer installed" % unit)
    if found.problems:
        module.fail_json(msg=found.problems[0])
    module.exit_json(changed=bool(found.started), started=found.started, interrupted=recorded is not None)


class Started(t.NamedTuple):
    started: t.List[str]
    uninstalled: t.List[str]
    problems: t.List[str]  # one sentence with all units that cannot be started, or none


def stop(command: Run, units: t.Sequence[str]) -> t.List[str]:
    """Stop units until one fails; returns its problem."""
    for unit in units:
        status, _output, error = command(["systemctl", "stop", unit])
        if status != 0:
            return ["%s cannot be stopped: %s" % (unit, error.strip())]
    return []


def start(command: Run, units: t.Sequence[str], check_mode: bool = False) -> Started:
    """Start the units that are not active."""
    stopped = [unit for unit in units if command(["systemctl", "is-active", "--quiet", unit])[0] != 0]
    uninstalled = [unit for unit in stopped if "not-found" in systemd.properties(command, unit, "LoadState").values()]
    stopped = [unit for unit in stopped if unit not in uninstalled]
    failed = []
    for unit in [] if check_mode else stopped:
        status, _output, error = command(["systemctl", "start", unit])
        if status != 0:
            failed.append("%s cannot be started: %s" % (unit, error.strip()))
    text = "The role stopped units, and some of them cannot be started again. %s. See journalctl -u, and run again"
    return Started(stopped, uninstalled, [text % "; ".join(failed)] if failed else [])


def start_recorded(module: AnsibleModule, record: str) -> t.List[str]:
    """Start the units of a record after a signal, which ends the run that would start them; returns the problem."""
    try:
        return start(runner(module), sorted(read(record) or (), reverse=True)).problems
    except (OSError, ValueError) as error:
        return ["The record of stopped units %s cannot be used: %s" % (record, error)]


def patterns(disruption: str, clients: t.Sequence[str], mode_clients: t.Sequence[str]) -> t.List[str]:
    """The units that a change may stop: names, or patterns of systemctl."""
    if disruption == results.MODE:
        return [*clients, *mode_clients]
    return list(clients) if disruption == results.DESTROY else []


def split_instances(entries: t.Sequence[t.Mapping[str, t.Any]]) -> t.List[str]:
    """The names of compute instances with fewer slices than their GPU instance, in the order of a valid layout."""
    items = (item for entry in layout.parse(entries).entries for item in entry.items)
    names = (name for item in items for name in (item.name, *item.compute_instances))
    return list(dict.fromkeys(name.canonical for name in names if name.compute not in (None, name.slices)))


def read(path: str) -> t.Optional[t.List[str]]:
    """The units in the record; None if it is missing. Raises OSError, or ValueError."""
    content = files.read_trusted(path)
    if content is None:
        return None
    try:
        units = json.loads(content)["stopped"]
    except (KeyError, TypeError):
        units = None
    if not isinstance(units, list):
        raise ValueError("it has no list of units")
    return [str(unit) for unit in units]
