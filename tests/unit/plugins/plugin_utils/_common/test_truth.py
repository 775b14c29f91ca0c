# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Python and the roles read the same truth values."""

from __future__ import annotations

import pytest
from ansible.module_utils.common.validation import check_type_bool
from ansible.plugins.filter.core import to_bool

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.truth import is_true, is_valid

VALUES = (
    True,
    False,
    1,
    0,
    "True",
    "yes",
    "ON",
    "1",
    "False",
    "no",
    "off",
    "0",
    "",
    None,
    "y",
    "t",
    "true ",
    "perhaps",
)


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_true_where_the_filter_bool_says_so(value: object) -> None:
    assert is_true(value) == bool(to_bool(value))


@pytest.mark.parametrize("value", [value for value in VALUES if is_valid(value)])
def test_a_valid_value_is_the_same_for_argument_specifications(value: object) -> None:
    assert is_true(value) == check_type_bool(value)


@pytest.mark.parametrize("value", ["y", "n", "t", "f", "true ", "perhaps", ""])
def test_a_value_that_they_read_differently_is_not_valid(value: object) -> None:
    assert not is_valid(value)
