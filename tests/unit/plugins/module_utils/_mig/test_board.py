# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits of a board besides placements, compared with the numbers that drivers print."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import board as rules
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import GFX, ME, ME_ALL, NO_ME, PLAIN, Placement
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import (
    board,
    models,
    profile,
)

RTX = "RTX-PRO-6000-Blackwell-96GB"


@pytest.mark.parametrize(
    "name, kind",
    [
        ("1g.24gb", PLAIN),
        ("1g.24gb+me", ME),
        ("1g.24gb+gfx", GFX),
        ("1g.24gb+me.all", ME_ALL),
        ("1g.24gb-me", NO_ME),
        ("4g.96gb+gfx", GFX),
    ],
)
def test_the_attribute_follows_from_constant_and_from_name(name: str, kind: str) -> None:
    known = profile(board(RTX), name)
    assert rules.attribute(known) == kind
    assert rules.attribute(known._replace(constant=-1)) == kind
    assert rules.attribute(known._replace(name="1g.24gb")) == kind


def test_double_memory_is_not_an_attribute() -> None:
    assert rules.attribute(profile(board("A100-80GB"), "1g.20gb")) == PLAIN


@pytest.mark.parametrize("model", models())
def test_the_count_of_every_profile_matches_that_of_the_driver(model: str) -> None:
    on = board(model)
    assert {p.name: rules.capacity(on, p) for p in on.profiles} == {p.name: p.max_instances for p in on.profiles}


def test_a_wrong_count_from_the_driver_causes_no_refusal() -> None:
    """NVML misreports the A30's counts."""
    on = board("A30-24GB")
    one = profile(on, "1g.6gb")._replace(max_instances=1)
    assert rules.capacity(on, one) == 4
    assert rules.exceeded_limits(on, [one] * 4) == []


def _together(model: str, *names: str) -> t.List[str]:
    on = board(model)
    return rules.exceeded_limits(on, [profile(on, name) for name in names])


@pytest.mark.parametrize(
    "model, names",
    [
        ("A100-80GB", ()),
        ("A100-80GB", ("1g.10gb",) * 7),
        ("A100-80GB", ("1g.10gb",) * 6 + ("1g.10gb+me",)),
        ("A100-80GB", ("3g.40gb", "3g.40gb", "1g.10gb")),  # the placements refuse this, not the counts
        ("A30-24GB", ("2g.12gb+me", "2g.12gb")),
        (RTX, ("1g.24gb+gfx", "1g.24gb+gfx", "1g.24gb", "1g.24gb+me")),
        (RTX, ("1g.24gb+me.all", "1g.24gb-me", "2g.48gb-me")),
        (RTX, ("2g.48gb+me.all", "2g.48gb-me")),
        (RTX, ("4g.96gb+gfx",)),
    ],
)
def test_layouts_that_fit(model: str, names: t.Tuple[str, ...]) -> None:
    assert _together(model, *names) == []


@pytest.mark.parametrize(
    "model, names, reason",
    [
        ("A100-80GB", ("4g.40gb", "4g.40gb"), "8 compute slices are needed and the GPU has 7"),
        ("A100-80GB", ("4g.40gb", "4g.40gb"), "at most 1 of 4g.40gb, not 2"),
        ("A100-80GB", ("1g.10gb+me",) * 2, "at most 1 of 1g.10gb+me, not 2"),
        ("A100-80GB", ("1g.20gb",) * 5, "at most 4 of 1g.20gb, not 5"),
        ("A30-24GB", ("1g.6gb+me", "2g.12gb+me"), "1g.6gb+me and 2g.12gb+me have the media extensions"),
        (RTX, ("1g.24gb+me.all", "1g.24gb"), "all others must be -me profiles, unlike 1g.24gb"),
        (RTX, ("1g.24gb+me.all", "1g.24gb+gfx", "1g.24gb+me"), "unlike 1g.24gb+gfx and 1g.24gb+me"),
        (RTX, ("1g.24gb+me.all", "2g.48gb+me.all"), "there can be only one of them"),
        (RTX, ("1g.24gb+gfx",) * 5, "at most 4 of 1g.24gb+gfx, not 5"),
    ],
)
def test_layouts_that_do_not_fit_and_the_reason(model: str, names: t.Tuple[str, ...], reason: str) -> None:
    assert any(reason in found for found in _together(model, *names))


def test_the_number_of_gpu_instances_counts_too() -> None:
    on = board("A100-80GB")._replace(max_gpu_instances=2)
    reasons = rules.exceeded_limits(on, [profile(on, "1g.10gb")] * 3)
    assert reasons == ["the GPU holds at most 2 GPU instances, not 3"]


def test_graphics_are_limited_by_the_drivers_count() -> None:
    on = board(RTX)
    one = profile(on, "1g.24gb+gfx")._replace(max_instances=1)
    assert rules.capacity(on, one) == 1


@pytest.mark.parametrize(
    "slices, starts",
    [
        (1, {1: [0]}),
        (2, {1: [0, 1], 2: [0]}),
        (3, {1: [0, 1, 2], 2: [0], 3: [0]}),
        (4, {1: [0, 1, 2, 3], 2: [0, 2], 4: [0]}),
        (7, {1: [0, 1, 2, 3, 4, 5, 6], 2: [0, 2, 4], 3: [0, 4], 4: [0], 7: [0]}),
        (6, {1: [0, 1, 2, 3, 4, 5], 6: [0]}),  # no board has it
    ],
)
def test_placements_of_compute_instances(slices: int, starts: t.Dict[int, t.List[int]]) -> None:
    expected = {size: tuple(Placement(start, size) for start in found) for size, found in starts.items()}
    assert rules.ci_places(slices) == expected
