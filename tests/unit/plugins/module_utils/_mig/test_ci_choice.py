# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import CiProfile
from ansible_collections.gpufleet.node.plugins.module_utils._mig.ci_choice import choose
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import ComputeInstance, Placement


def offer(id, slices, multiprocessors, most, *starts):
    return CiProfile(id, slices, multiprocessors, most, tuple((start, slices) for start in starts))


# The compute profiles of a 2g.20gb of an H100: one slice twice with 16 multiprocessors, or once with 26.
TWO = (offer(0, 1, 16, 2, 0, 1), offer(7, 1, 26, 1, 0), offer(1, 2, 32, 1, 0))
FOUR = (offer(0, 1, 14, 4, 0, 1, 2, 3), offer(1, 2, 28, 2, 0, 2), offer(3, 4, 56, 1, 0))


def chosen(offered, slices, *present):
    instances = [
        ComputeInstance(number, 0, size, None if start is None else Placement(start, size))
        for number, (start, size) in enumerate(present)
    ]
    return [(choice.profile.id, choice.start) for choice in choose(offered, slices, instances)]


def test_all_of_the_instance():
    assert chosen(TWO, (2,)) == [(1, 0)]


def test_a_single_one_gets_the_most_multiprocessors():
    assert chosen(TWO, (1,)) == [(7, 0)]


def test_several_get_a_kind_that_fits_together():
    assert chosen(TWO, (1, 1)) == [(0, 0), (0, 1)]


def test_a_second_one_gets_the_kind_that_fits():
    assert chosen(TWO, (1,), (0, 1)) == [(0, 1)]


def test_large_ones_are_not_blocked_by_small_ones():
    assert chosen(FOUR, (2, 1, 1)) == [(1, 0), (0, 2), (0, 3)]
    assert chosen(FOUR, (2,), (0, 1), (1, 1)) == [(1, 2)]
    assert chosen(FOUR, (2, 1), (0, 1)) == [(1, 2), (0, 1)]


def test_unknown_placements_are_left_to_the_driver():
    blind = tuple(profile._replace(placements=()) for profile in FOUR)
    assert chosen(blind, (2, 2)) == [(1, None), (1, None)]
    assert chosen(FOUR, (2,), (None, 2)) == [(1, None)]


def test_what_appears_not_to_fit_is_left_to_the_driver():
    assert chosen(FOUR, (2,), (1, 1), (2, 1)) == [(1, None)]


def test_an_unavailable_size():
    with pytest.raises(LookupError) as error:
        chosen(FOUR, (3, 1))
    assert error.value.args == (3,)


def test_equal_kinds_are_distinguished_by_id():
    twins = (offer(8, 7, 132, 1, 0), offer(4, 7, 132, 1, 0))
    assert chosen(twins, (7,)) == [(4, 0)]
