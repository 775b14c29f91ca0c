# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Arguments of wrong types: filters and the test mig_feasible refuse them with a message."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from jinja2 import Undefined

from ansible_collections.gpufleet.node.plugins.filter.mig_map import mig_map
from ansible_collections.gpufleet.node.plugins.filter.mig_parted import mig_parted
from ansible_collections.gpufleet.node.plugins.filter.mig_plan import mig_plan
from ansible_collections.gpufleet.node.plugins.filter.mig_problems import mig_problems
from ansible_collections.gpufleet.node.plugins.filter.mig_resources import mig_resources
from ansible_collections.gpufleet.node.plugins.test.mig_feasible import mig_feasible

BOARD = "A100-80GB"
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
# Each plugin with valid arguments.
CALLS: t.Dict[t.Callable[..., t.Any], t.Dict[str, t.Any]] = {
    mig_feasible: {"mig_devices": {"1g.10gb": 7}, "board": BOARD},
    mig_plan: {"current": [], "desired": {"1g.10gb": 7}, "board": BOARD},
    mig_map: {"value": {"1g.10gb": 7}, "board": BOARD, "width": 80},
    mig_resources: {"value": LAYOUT, "strategy": "mixed", "gpus": [BOARD], "board": BOARD},
    mig_parted: {"value": LAYOUT, "name": "site", "gpus": [BOARD], "board": BOARD},
    mig_problems: {"layout": LAYOUT, "gpus": [BOARD], "driver": "580"},
}
ARGUMENTS = [(plugin, name) for plugin, right in CALLS.items() for name in right]
WRONG: t.List[t.Any] = [
    *(None, True, 7, 3.5, -1, "", "text", "x" * 5000, b"bytes", object(), Undefined()),
    *([], {}, [None], [7], ["text"], [[]], [{}], {1: 2}, {"text": None}, {"mig": None}, [{"mig": None}]),
]
# Other types that are valid according to the argument's documentation.
RIGHT: t.Dict[t.Tuple[t.Callable[..., t.Any], str], t.Collection[str]] = {
    (mig_feasible, "mig_devices"): ("[]", "{}"),
    (mig_plan, "current"): ("[]",),
    (mig_plan, "desired"): ("[]", "{}"),
    (mig_map, "value"): ("[]", "{}"),
    (mig_map, "width"): ("None", "7"),
    (mig_parted, "name"): ("'text'", repr("x" * 5000)),
    (mig_parted, "gpus"): ("None",),
    (mig_problems, "gpus"): ("None", "[]"),
    (mig_problems, "driver"): ("None", "-1", "''", "'text'", repr("x" * 5000)),
}


@pytest.mark.parametrize("plugin", CALLS, ids=lambda plugin: plugin.__name__)
def test_valid_arguments(plugin: t.Callable[..., t.Any]) -> None:
    assert plugin(**CALLS[plugin]) is not None


@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:40])
@pytest.mark.parametrize("plugin, name", ARGUMENTS, ids=lambda part: part if isinstance(part, str) else part.__name__)
def test_a_wrong_type_is_refused_with_a_message(plugin: t.Callable[..., t.Any], name: str, value: t.Any) -> None:
    arguments = dict(CALLS[plugin], **{name: value})
    right = repr(value) in RIGHT.get((plugin, name), ())
    # Names the boards of facts, and is unused without facts.
    right = right or (name == "board" and plugin in (mig_resources, mig_parted))
    try:
        found = plugin(**arguments)
    except AnsibleFilterError as error:
        assert not right
        message = str(error)
    else:
        if plugin is mig_problems:
            assert (found == []) == right
        else:
            assert right
        message = "".join(map(str, found)) if found and plugin is mig_problems else "right"
    assert len(message) < 1500
    assert message.strip()
