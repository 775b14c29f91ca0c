# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter role_record."""

from __future__ import annotations

import base64
import json

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.role_record import FilterModule

role_record = FilterModule().filters()["role_record"]
PATH = "/etc/gpufleet/nvidia_driver.json"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_what_the_role_wrote() -> None:
    record = {"version": "580.126.20", "installed": ["nvidia-smi"], "held": [], "locks": []}
    assert role_record(encoded(json.dumps(record)), PATH) == record


def test_no_file() -> None:
    assert role_record("", PATH) == {}


@pytest.mark.parametrize(
    "text",
    ['{"installed": [', "", "[]", '{"installed": "all"}', '{"held": [1]}', '{"before": null}', "[" * 100000, "\0"],
)
def test_anything_else_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(AnsibleFilterError) as error:
        role_record(encoded(text) or "IA==", PATH)
    assert PATH + " is not what a role of gpufleet.node wrote" in str(error.value)
    assert "Move it away" in str(error.value)
