# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_mig_requirements: what prevents the role nvidia_mig from managing MIG on a node."""

from __future__ import annotations

import glob
import grp
import os
import typing as t

from ..._common.text import NOT_ROOT
from ..common.commands import Run, runner
from . import processes

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "record": {"type": "path"},
        "access_group": {"type": "str", "default": ""},
        "owner": {"type": "str", "default": "host", "choices": ["host", "operator"]},
    }
}
MANAGER = "nvidia-mig-manager.service"
_MIG_MANAGER = "nvidia-mig-manager"[:15]  # the kernel cuts names
_SYS_ADMIN = 1 << 21  # CAP_SYS_ADMIN in the masks of /proc/PID/status


def run(module: AnsibleModule) -> None:
    params = module.params
    problems = root_problems(params["record"]) if params["record"] else []
    problems += owner_problems(runner(module)) + group_problems(params["access_group"])
    if params["owner"] == "host":
        problems += operator_problems()
    module.exit_json(changed=False, problems=problems)


def root_problems(record: str) -> t.List[str]:
    """Whether another user than root runs the module, and cannot write the record."""
    directory = os.path.dirname(os.path.abspath(record))
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    return [NOT_ROOT] if os.geteuid() and not os.access(directory, os.W_OK | os.X_OK) else []


def owner_problems(command: Run) -> t.List[str]:
    if command(["systemctl", "is-enabled", "--quiet", MANAGER])[0] != 0:
        return []
    return [
        "%s is enabled and would apply its own layout at the next boot. Use only one of the two: disable it (systemctl "
        "disable --now %s), or do not use the role nvidia_mig on this node" % (MANAGER, MANAGER)
    ]


def operator_problems() -> t.List[str]:
    """Whether the GPU operator's MIG manager runs on the node, in a container: its processes are the node's too."""
    if not any(map(_is_mig_manager, glob.glob(os.path.join(processes.PROCESSES, "[0-9]*", "status")))):
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
