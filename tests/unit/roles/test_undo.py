# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What undo removes, and in which order."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from jinja2.nativetypes import NativeEnvironment

from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit import container_runtime

ROLES = Path(__file__).resolve().parents[3] / "roles"
TASKS = ROLES / "nvidia_container_toolkit" / "tasks"


def test_no_directory_stays_below_var_lib():
    found = {
        path for file in TASKS.glob("*.yml") for path in re.findall(r"/var/lib/gpufleet[^\s\"]*", file.read_text())
    }
    assert found == {container_runtime.BACKUP_DIRECTORY}
    assert "- %s\n" % container_runtime.BACKUP_DIRECTORY in (TASKS / "undo.yml").read_text()


# Files that RKE2 or its documentation names.
NAMED_BY_OTHERS = {"/etc/rancher/rke2/registries.yaml", "/etc/sysctl.d/60-rke2-cis.conf"}


def test_files_of_roles_have_the_collections_name():
    """docs/architecture.md has the scheme."""
    written = {
        path
        for file in (*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/vars/*.yml"))
        for path in re.findall(
            r"(?:dest: |- |\[|')(/(?:etc|usr|var)/[^\s\"',\]]+[a-z])(?=[\s\"',\]])", file.read_text()
        )
        if re.search(r"\.d/|keyrings/|rpm-gpg/|^/var/lib/|registries", path)
    }
    assert {path for path in written if "gpufleet" not in path} == NAMED_BY_OTHERS
    assert len(written) > 12


def test_undo_names_the_keys_that_stay_in_rpm_before_it_forgets_them():
    importing = {path.parts[-3] for path in ROLES.glob("*/tasks/*.yml") if "\n    rpm: " in path.read_text()}
    assert importing == {"nvidia_driver", "nvidia_container_toolkit", "rke2"}
    for role in importing:
        tasks = yaml.safe_load((ROLES / role / "tasks" / "undo.yml").read_text())
        reports, removals = (
            [
                number
                for number, task in enumerate(tasks)
                if task.get("gpufleet.node." + module, {}).get("state") == state
            ]
            for module, state in (("node_repository_key", "recorded"), ("node_record", "absent"))
        )
        assert reports and removals and reports[0] < removals[0]
        assert tasks[reports[0]]["gpufleet.node.node_repository_key"]["role"] == role
        assert "when" not in tasks[reports[0]]


def test_roles_are_undone_in_reverse_order_without_those_that_other_hosts_use():
    tasks = yaml.safe_load((ROLES / "gpu_node" / "tasks" / "undo.yml").read_text())
    (loop,) = [task["loop"] for task in tasks if "loop" in task]
    inventory = {"selected": ["gpu_node", *(str(number) for number in range(9))]}
    rendered = NativeEnvironment().from_string(loop).render(__gpu_node_inventory=inventory, __gpu_node_shared=["8"])
    assert rendered == [str(number) for number in reversed(range(8))]


def test_undo_checks_the_roles_before_it_changes_anything():
    """The playbook checks all nodes before the roles of the cluster are undone, too."""
    rows = yaml.safe_load((ROLES / "gpu_node" / "vars" / "main.yml").read_text())["__gpu_node_rows"]
    interrupting = [row["role"] for row in rows if "plan" in row]
    assert interrupting
    for role in interrupting:
        checks, tasks = (
            yaml.safe_load((ROLES / role / "tasks" / file).read_text()) for file in ("undo_preflight.yml", "undo.yml")
        )
        reading = {"gpufleet.node.node_record", "gpufleet.node.node_idle", "ansible.builtin.assert"}
        assert all(reading & set(task) for task in checks)
        assert tasks[0]["ansible.builtin.import_tasks"] == "{{ role_path }}/tasks/undo_preflight.yml"
    for path in (ROLES / "gpu_node" / "tasks" / "undo.yml", ROLES.parent / "playbooks" / "undo.yml"):
        text = path.read_text()
        assert 0 < text.index("undo_preflight") < text.index("tasks_from: undo\n")
