# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A layout from its name."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.node.plugins.filter.mig_layout import mig_layout

SEVEN = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]


def test_a_name_stands_for_its_layout() -> None:
    assert mig_layout("seven", {"seven": SEVEN}) == mig_layout(SEVEN) == SEVEN


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"nvidia_mig_layouts \(seven\)"):
        mig_layout("eight", {"seven": SEVEN})
