# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_mig_services: stops the services that block a change of the GPUs, and starts them again."""

from __future__ import annotations

import glob
import grp
import json
import os
import re
import typing as t

from ..._backend import signals
from ..._mig import messages
from ..common import files
from . import results

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# Runs systemctl with these arguments, and returns exit status, standard output and standard error.
Systemctl = t.Callable[..., t.Tuple[int, str, str]]

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "required": True, "choices": ["checked", "stopped", "started"]},
        "record": {"type": "path"},
        "disruption": {"type": "str", "default": results.NONE, "choices": list(results.DISRUPTIONS)},
        "clients": {"type": "list", "elements": "str", "default": []},
        "mode_clients": {"type": "list", "elements": "str", "default": []},
        "units": {"type": "list", "elements": "str", "default": []},
        "processes": {"type": "list", "elements": "int", "default": []},
        "layout": {"type": "list", "elements": "dict", "default": []},
        "access_group": {"type": "str", "default": ""},
        "owner": {"type": "str", "default": "host", "choices": ["host", "operator"]},
    },
    "required_if": [("state", "stopped", ("record",)), ("state", "started", ("record",))],
}

MANAGER = "nvidia-mig-manager.service"
PROCESSES = "/proc"
_MIG_MANAGER = "nvidia-mig-manager"[:15]  # the kernel cuts names
_SYS_ADMIN = 1 << 21  # CAP_SYS_ADMIN in the masks of /proc/PID/status
_KUBELETS = ("kubelet.service", "rke2-server.service", "rke2-agent.service", "k3s.service", "k3s-agent.service")
# A compute instance with fewer slices than its GPU instance. The device plugin treats 7c.7g.80gb as a whole GPU instance.
_SPLIT = re.compile(r"^(?:MIG )?([0-9]+)c[.](?!\1g)")


def run(module: AnsibleModule) -> None:
    params = module.params
    systemctl = systemctl_of(module)
    if params["state"] == "checked":
        problems = root_problems(params["record"]) if params["record"] else []
        problems += owner_problems(systemctl) + group_problems(params["access_group"])
        if params["owner"] == "host":
            problems += operator_problems()
        module.exit_json(changed=False, problems=problems)
    try:
        if params["state"] == "stopped":
            _stop(module, systemctl)
        else:
            _start(module, systemctl)
    except OSError as error:
        module.fail_json(msg="The record of stopped units cannot be used: %s%s" % (error, files.remedy(error)))
    except ValueError as error:
        text = "The record of stopped units %s is damaged: %s. Delete it and run again"
        module.fail_json(msg=text % (params["record"], error))


def systemctl_of(module: AnsibleModule) -> Systemctl:
    program = module.get_bin_path("systemctl")

    def systemctl(*arguments: str) -> t.Tuple[int, str, str]:
        if program is None:
            return 127, "", "systemctl is not installed"
        return t.cast("t.Tuple[int, str, str]", module.run_command([program, *arguments]))

    return systemctl


def _stop(module: AnsibleModule, systemctl: Systemctl) -> None:
    params = module.params
    found = running(systemctl, patterns(params["disruption"], params["clients"], params["mode_clients"]))
    kubelets = running(systemctl, _KUBELETS) if split_instances(params["layout"]) else []
    if kubelets:
        module.warn(split_warning(params["layout"], kubelets))
    if params["disruption"] != results.NONE and not module.check_mode:
        files.make_private(os.path.dirname(params["record"]))
        units = sorted({*(read(params["record"]) or ()), *found})
        files.write(params["record"], json.dumps({"stopped": units}).encode(), 0o600)
        with signals.deferred() as ending:
            problems = stop(systemctl, found)
            if ending.received:  # no task follows that would start them
                ended = "Stopped by %s, so the GPU clients are started again" % ", ".join(ending.received)
                problems = [ended, *start(systemctl, units).problems]
        if problems:
            module.fail_json(msg=". ".join(problems), stopped=found)
    module.exit_json(changed=bool(found), stopped=found, others=outside_units(params["processes"], found))


def _start(module: AnsibleModule, systemctl: Systemctl) -> None:
    params = module.params
    recorded = read(params["record"])
    units = sorted({*(recorded or ()), *params["units"]}, reverse=True)
    with signals.deferred():
        found = start(systemctl, units, module.check_mode)
    for unit in found.uninstalled:
        module.warn("%s, which the role stopped, is no longer installed" % unit)
    if found.problems:
        module.fail_json(msg=found.problems[0])
    module.exit_json(changed=bool(found.started), started=found.started, interrupted=recorded is not None)


class Started(t.NamedTuple):
    started: t.List[str]
    uninstalled: t.List[str]
    problems: t.List[str]  # one sentence with all units that cannot be started, or none


def stop(systemctl: Systemctl, units: t.Sequence[str]) -> t.List[str]:
    """Stop units until one fails; returns its problem."""
    for unit in units:
        status, _output, error = systemctl("stop", unit)
        if status != 0:
            return ["%s cannot be stopped: %s" % (unit, error.strip())]
    return []


def start(systemctl: Systemctl, units: t.Sequence[str], check_mode: bool = False) -> Started:
    """Start the units that are not active."""
    stopped = [unit for unit in units if systemctl("is-active", "--quiet", unit)[0] != 0]
    uninstalled = [unit for unit in stopped if "not-found" in systemctl("show", "--property=LoadState", unit)[1]]
    stopped = [unit for unit in stopped if unit not in uninstalled]
    failed = []
    for unit in [] if check_mode else stopped:
        status, _output, error = systemctl("start", unit)
        if status != 0:
            failed.append("%s cannot be started: %s" % (unit, error.strip()))
    text = "The role stopped units, and some of them cannot be started again. %s. See journalctl -u, and run again"
    return Started(stopped, uninstalled, [text % "; ".join(failed)] if failed else [])


def start_recorded(module: AnsibleModule, record: str) -> t.List[str]:
    """Start the units of a record after a signal, which ends the run that would start them; returns the problem."""
    try:
        return start(systemctl_of(module), sorted(read(record) or (), reverse=True)).problems
    except (OSError, ValueError) as error:
        return ["The record of stopped units %s cannot be used: %s" % (record, error)]


def patterns(disruption: str, clients: t.Sequence[str], mode_clients: t.Sequence[str]) -> t.List[str]:
    """The units that a change may stop: names, or patterns of systemctl."""
    if disruption == results.MODE:
        return [*clients, *mode_clients]
    return list(clients) if disruption == results.DESTROY else []


def running(systemctl: Systemctl, names: t.Sequence[str]) -> t.List[str]:
    """The running units among these, sorted. None on a node without systemd."""
    if not names:
        return []  # systemctl would list all
    status, output, _error = systemctl("list-units", "--state=running", "--plain", "--no-legend", "--full", *names)
    return sorted(line.split()[0] for line in output.splitlines() if line.strip()) if status == 0 else []


def outside_units(processes: t.Sequence[int], units: t.Sequence[str]) -> t.List[int]:
    """The processes that do not belong to one of these units, according to their control groups."""
    found = []
    for pid in processes:
        try:
            with open(os.path.join(PROCESSES, str(pid), "cgroup"), encoding="utf-8") as file:
                groups = re.split(r"[/\n]", file.read())
        except OSError:  # it has ended
            continue
        if not set(groups).intersection(units):
            found.append(pid)
    return found


def root_problems(record: str) -> t.List[str]:
    """Whether another user than root runs the module, and cannot write the record."""
    directory = os.path.dirname(os.path.abspath(record))
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    return [messages.NOT_ROOT] if os.geteuid() and not os.access(directory, os.W_OK | os.X_OK) else []


def owner_problems(systemctl: Systemctl) -> t.List[str]:
    if systemctl("is-enabled", "--quiet", MANAGER)[0] != 0:
        return []
    return [
        "%s is enabled and would apply its own layout at the next boot. Use only one of the two: disable it (systemctl "
        "disable --now %s), or do not use the role nvidia_mig on this node" % (MANAGER, MANAGER)
    ]


def operator_problems() -> t.List[str]:
    """Whether the GPU operator's MIG manager runs on the node, in a container: its processes are the node's too."""
    if not any(map(_is_mig_manager, glob.glob(os.path.join(PROCESSES, "[0-9]*", "status")))):
        return []
    return [
        "the GPU operator's MIG manager runs on it and would replace the layout, but nvidia_mig_owner is host: "
        "disable it with site.yml --tags operator (the chart's value migManager.enabled), or set nvidia_mig_owner "
        "to operator"
    ]


def _is_mig_manager(path: str) -> bool:
    """Whether the process is root's with privileges: any user, and root of any container, can choose its name."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            status = dict(line.split(":", 1) for line in file if ":" in line)
        effective_user = status["Uid"].split()[1]
        return (
            status["Name"].strip() == _MIG_MANAGER
            and effective_user == "0"
            and bool(int(status["CapEff"], 16) & _SYS_ADMIN)
        )
    except (OSError, KeyError):  # it has ended
        return False


def group_problems(name: str) -> t.List[str]:
    if not name:
        return []
    try:
        grp.getgrnam(name)
    except KeyError:
        return [
            "it has no group %s, which nvidia_mig_access_group names. Create it with groupadd --system %s, or leave the "
            "variable empty" % (name, name)
        ]
    return []


def split_instances(layout: t.Any) -> t.List[str]:
    """The names of split compute instances anywhere in the layout, in its order."""
    if isinstance(layout, dict):
        found = [name for item in layout.items() for name in split_instances(list(item))]
    elif isinstance(layout, (list, tuple)):
        found = [name for item in layout for name in split_instances(item)]
    else:
        found = [layout] if isinstance(layout, str) and _SPLIT.match(layout) else []
    return list(dict.fromkeys(found))


def split_warning(layout: t.Any, kubelets: t.Sequence[str]) -> str:
    return (
        "%s is running, and the layout splits GPU instances into %s. With the MIG strategy mixed, the NVIDIA device plugin "
        "exits on such a node, and the node offers no GPU. Use whole GPU instances, or the strategy single with identical "
        "MIG devices on the whole node" % (", ".join(kubelets), ", ".join(split_instances(layout)))
    )


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
