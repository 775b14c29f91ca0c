# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The test mig_feasible."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.test.mig_feasible import TestModule as Plugin

mig_feasible = Plugin().tests()["mig_feasible"]


@pytest.mark.parametrize(
    "mig_devices, board, feasible",
    [
        ({}, "A100-80GB", True),
        ({"1g.10gb": 7}, "A100-80GB", True),
        ({"1g.10gb": 8}, "A100-80GB", False),
        ({"3g.40gb": 2}, "A100-80GB", True),
        ({"3g.40gb": 2, "1g.10gb": 1}, "A100-80GB", False),
        ({"4g.40gb": 1, "3g.40gb": 1}, "A100-80GB", True),
        ({"1g.10gb+me": 2}, "A100-80GB", False),
        ([{"profile": "3g.40gb", "start": 4}, {"profile": "4g.40gb"}], "A100-80GB", True),
        ([{"profile": "3g.40gb", "start": 0}, {"profile": "4g.40gb"}], "A100-80GB", False),
        ([{"profile": "3g.40gb", "start": 1}], "A100-80GB", False),
        ({"1c.3g.40gb": 6}, "A100-80GB", True),
        ({"1c.3g.40gb": 7}, "A100-80GB", False),
        ({"1g.5gb": 1}, "A100-80GB", False),
        ({"1g.5gb": 1}, "A100-40GB", True),
        ({"1g.24gb+me.all": 1, "1g.24gb-me": 3}, "RTX-PRO-6000-Blackwell-96GB", True),
        ({"1g.24gb+me.all": 1, "1g.24gb": 1}, "RTX-PRO-6000-Blackwell-96GB", False),
        ({"3g.40gb": 2}, "0x20B510DE", True),
        ({"3g.40gb": 2}, "a800-80gb", True),
        ({"3g.40gb": 2}, "NVIDIA A100-SXM4-80GB", True),
        ({"3g.40gb": 2}, "L40S", False),
        ({}, "L40S", False),
    ],
)
def test_feasible_and_infeasible_layouts(mig_devices: t.Any, board: str, feasible: bool) -> None:
    assert mig_feasible(mig_devices, board) is feasible
    assert mig_feasible(mig_devices, board=board) is feasible


@pytest.mark.parametrize(
    "mig_devices, board, message",
    [
        ({"3g.40gb": -1}, "A100-80GB", "between 0 and 64"),
        ("3g.40gb", "A100-80GB", "write a mapping of profiles to counts"),
        ([{"profil": "3g.40gb"}], "A100-80GB", "did you mean profile"),
        ({}, "A1000", "unknown board .A1000.: use one of A"),
        ({}, "Thor-iGPU-GB10B", "the placements of Thor-iGPU-GB10B are unknown"),
    ],
)
def test_invalid_values_and_unknown_boards_are_errors(mig_devices: t.Any, board: str, message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        mig_feasible(mig_devices, board)
