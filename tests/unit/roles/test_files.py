# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files of tasks the roles execute: their own, and those that a variable names."""

from __future__ import annotations

import re
from pathlib import Path

ROLES = Path(__file__).resolve().parents[3] / "roles"
NAMED = re.compile(r"(?:import|include)_tasks:(?:\s+file:)?\s+(\S.*)")


def test_roles_execute_no_tasks_of_the_current_directory() -> None:
    """Ansible searches tasks/ there first for a relative path in a file that is imported."""
    named = {
        (path, match.group(1).partition(" #")[0].rstrip())
        for path in ROLES.glob("*/tasks/*.yml")
        for match in NAMED.finditer(path.read_text())
    }
    others = {name for path, name in named if not re.fullmatch(r'"{{ role_path }}/tasks/\w+\.yml"', name)}
    assert len(named) > 50
    steps = '"{{ role_path }}/tasks/{{ __gpu_cluster_steps }}.yml"'  # a name in the role, which users do not set
    assert others == {steps, '"{{ gpu_node_drain_tasks }}"', '"{{ gpu_node_return_tasks }}"'}
