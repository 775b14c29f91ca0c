# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter unknown_variables."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.filter.unknown_variables import FilterModule

unknown_variables = FilterModule().filters()["unknown_variables"]
KNOWN = ["nvidia_mig_layout", "nvidia_mig_reset"]


def test_names_that_are_known_or_none_of_ours() -> None:
    assert unknown_variables(["nvidia_mig_layout", "my_nvidia_mig_layuot", "ansible_host"], KNOWN, ["nvidia_mig_"]) == []


def test_a_misspelt_name() -> None:
    assert unknown_variables(["nvidia_mig_layuot", "nvidia_mig_zzzzzzzzzzzz"], KNOWN, ["nvidia_mig_"]) == [
        "nvidia_mig_layuot is no variable of this collection: did you mean nvidia_mig_layout?",
        "nvidia_mig_zzzzzzzzzzzz is no variable of this collection",
    ]
