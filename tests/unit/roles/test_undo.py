# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The roles' undo removes the directories that the roles and their modules create."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.gpufleet.node.plugins.module_utils._module import container_runtime

TASKS = Path(__file__).resolve().parents[3] / "roles" / "nvidia_container_toolkit" / "tasks"


def test_no_directory_stays_below_var_lib():
    found = {
        path for file in TASKS.glob("*.yml") for path in re.findall(r"/var/lib/gpufleet[^\s\"]*", file.read_text())
    }
    assert found == {container_runtime.MEMORY}
    assert Path(container_runtime.MEMORY).parent == Path("/var/lib")
    assert "- %s\n" % container_runtime.MEMORY in (TASKS / "undo.yml").read_text()
