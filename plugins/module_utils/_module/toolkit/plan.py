# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_container_toolkit_plan: what the role would do on a node, or why it cannot."""

from __future__ import annotations

import os
import re
import typing as t

from ..._common.text import NOT_ROOT
from . import runtime_check
from .container_runtimes import AUTO, KUBERNETES, RUNTIMES, RuntimeFacts, choose_runtimes

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "runtimes": {"type": "list", "elements": "str", "required": True, "choices": [AUTO, *sorted(RUNTIMES)]},
        "version": {"type": "str", "required": True},
        "roles": {"type": "list", "elements": "str", "default": []},
        "distribution": {"type": "str", "required": True},
        "os_family": {"type": "str", "required": True},
    }
}
OS_FAMILIES = ("Debian", "RedHat")
OLDEST = (1, 18, 1)


def version_problems(version: str) -> t.List[str]:
    match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(-\d+)?", version, re.ASCII)
    if match and tuple(int(part) for part in match.groups()[:3]) >= OLDEST:
        return []
    return [
        'nvidia_container_toolkit_version is "%s". Set an exact version such as 1.20.1, because four packages must have the '
        "same; 1.18.1 is the oldest that keeps the imports of a containerd configuration" % version
    ]


def os_problems(os_family: str, distribution: str) -> t.List[str]:
    if os_family in OS_FAMILIES:
        return []
    return ["%s is not supported. The role supports Debian, Ubuntu and Enterprise Linux" % distribution]


def user_problems(user: int) -> t.List[str]:
    return [NOT_ROOT] if user else []


def run(module: AnsibleModule) -> None:
    given = module.params
    facts = _runtime_facts(module)
    choice = choose_runtimes(given["runtimes"], facts)
    problems = [
        *user_problems(os.geteuid()),
        *os_problems(facts.os_family, facts.distribution),
        *version_problems(given["version"]),
        *choice.problems,
    ]
    module.exit_json(
        changed=False,
        problems=problems,
        runtimes=choice.runtimes,
        install_containerd=choice.install_containerd,
    )


def _runtime_facts(module: AnsibleModule) -> RuntimeFacts:
    programs = [name for runtime in RUNTIMES.values() for name in runtime.programs if module.get_bin_path(name)]
    dump = ""
    if "containerd" in programs:
        _rc, dump, _err = module.run_command([module.get_bin_path("containerd"), "config", "dump"])
    return RuntimeFacts(
        programs=programs,
        distribution=module.params["distribution"],
        os_family=module.params["os_family"],
        kubernetes=has_kubernetes(module.params["roles"]),
        cri_disabled=runtime_check.cri_disabled(runtime_check.settings(dump)),
    )


def has_kubernetes(roles: t.Collection[str]) -> bool:
    return any(role in roles or any(map(os.path.exists, paths)) for role, paths in KUBERNETES.items())
