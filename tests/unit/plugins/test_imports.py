# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every file of plugins/ can be imported: those of nodes on each Python, those of controllers on each ansible-core."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
FILES = sorted(path.relative_to(PLUGINS) for path in PLUGINS.rglob("*.py"))
OF_NODES = [path for path in FILES if path.parts[0] in ("modules", "module_utils")]
OF_CONTROLLERS = [path for path in FILES if path not in OF_NODES]


def import_file(path: Path) -> None:
    importlib.import_module(".".join(("ansible_collections.gpufleet.node.plugins", *path.with_suffix("").parts)))


@pytest.mark.parametrize("path", OF_NODES, ids=str)
def test_a_node_can_import(path: Path) -> None:
    import_file(path)


@pytest.mark.parametrize("path", OF_CONTROLLERS, ids=str)
def test_a_controller_can_import(path: Path) -> None:
    import_file(path)
