# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of action plugins are those that their modules document."""

from __future__ import annotations

import importlib
import typing as t
from pathlib import Path

import pytest
import yaml

PLUGINS = "ansible_collections.gpufleet.node.plugins."
ACTIONS = sorted(path.stem for path in (Path(__file__).parents[4] / "plugins" / "action").glob("[a-z]*.py"))
OF_MODULES = {"node_idle", "node_repository_key"}  # they pass their arguments on to modules, which describe them


def described(options: dict[str, dict[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    keys = ("type", "elements", "default", "required", "choices")
    return {
        name: {key: sorted(option[key]) if key == "choices" else option[key] for key in keys if key in option}
        for name, option in options.items()
    }


@pytest.mark.parametrize("name", [name for name in ACTIONS if name not in OF_MODULES])
def test_every_argument_is_documented(name: str) -> None:
    action = importlib.import_module(PLUGINS + "action." + name).ActionModule
    module = importlib.import_module(PLUGINS + "modules." + name)
    assert described(action.ARGUMENTS) == described(yaml.safe_load(module.DOCUMENTATION).get("options", {}))
