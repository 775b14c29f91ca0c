# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Profile names: parsing, matching and unknown names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import profile
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.profile import Name
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import board, models


@pytest.mark.parametrize(
    "text, name",
    [
        ("3g.40gb", Name(3, 40)),
        ("MIG 3g.40gb", Name(3, 40)),
        ("1g.10gb+me", Name(1, 10, ("me",))),
        ("1g.24gb+me.all", Name(1, 24, ("me.all",))),
        ("1g.24gb-me", Name(1, 24, (), ("me",))),
        ("1g.24gb+me,gfx", Name(1, 24, ("gfx", "me"))),
        ("1c.3g.40gb", Name(3, 40, compute=1)),
        ("MIG 2c.4g.96gb+gfx", Name(4, 96, ("gfx",), compute=2)),
        ("7c.7g.80gb", Name(7, 80)),
        ("MIG 1c.1g.20gb", Name(1, 20, compute=1)),
        ("1g.0gb", Name(1, 0)),
    ],
)
def test_parts_of_a_name(text: str, name: Name) -> None:
    assert profile.parse(text) == name


@pytest.mark.parametrize(
    "text, remedy",
    [
        ("1g.10gb.me", "write '1g.10gb+me'"),
        ("1g.24gb.me.all", "write '1g.24gb+me.all'"),
        ("1G.10GB", "write '1g.10gb'"),
        (" 1g.10gb ", "write '1g.10gb'"),
        ("mig-1g.10gb", "write '1g.10gb'"),
        ("MIG1g.10gb", "write '1g.10gb'"),
        ("MIG  1g.10gb", "write '1g.10gb'"),
        ("4c.3g.40gb", "at most 3c"),
        ("", "for example '3g.40gb'"),
        ("1g", "for example '3g.40gb'"),
        ("1g.10", "for example '3g.40gb'"),
        ("10gb", "for example '3g.40gb'"),
        ("0g.10gb", "for example '3g.40gb'"),
        ("01g.10gb", "for example '3g.40gb'"),
        ("1g.010gb", "for example '3g.40gb'"),
        ("0c.1g.10gb", "for example '3g.40gb'"),
        ("1g.10gb+", "for example '3g.40gb'"),
        ("1g.10gb+me+gfx", "for example '3g.40gb'"),
        ("1g.10gb+me-gfx", "for example '3g.40gb'"),
        ("1g.10gb\n", "write '1g.10gb'"),
        ("\u0661g.10gb", "for example '3g.40gb'"),
        ("1g.%sgb" % ("9" * 5000), "for example '3g.40gb'"),
        ("all", "for example '3g.40gb'"),
        (3, "as a string"),
        (None, "as a string"),
        (["3g.40gb"], "as a string"),
    ],
)
def test_an_invalid_name_is_refused_with_a_correction(text: object, remedy: str) -> None:
    with pytest.raises(LayoutError) as refused:
        profile.parse(text)
    assert remedy in str(refused.value)


_WORDS = st.lists(st.sampled_from(["me", "gfx", "me.all", "x1"]), unique=True, max_size=2)


@given(
    slices=st.integers(1, 8),
    memory=st.integers(0, 999),
    words=_WORDS,
    plus=st.booleans(),
    compute=st.none() | st.integers(1, 8),
    mig=st.booleans(),
)
def test_every_name_round_trips_through_its_canonical_form(slices, memory, words, plus, compute, mig) -> None:
    if compute is not None and compute > slices:
        compute = slices
    text = "%s%s%dg.%dgb%s" % (
        "MIG " if mig else "",
        "" if compute is None else "%dc." % compute,
        slices,
        memory,
        ("+" if plus else "-") + ",".join(words) if words else "",
    )
    name = profile.parse(text)
    assert profile.parse(name.canonical) == name
    assert name.compute is None or name.compute < name.slices or name.slices == 1


@pytest.mark.parametrize("model", models())
def test_every_profile_of_every_board_is_found_by_its_name(model: str) -> None:
    on = board(model)
    for each in on.profiles:
        assert profile.find(profile.parse(each.name), on.profiles) == each
        whole = "%dc.%s" % (each.slices, each.name)
        assert profile.find(profile.parse("MIG " + whole), on.profiles) == each


@pytest.mark.parametrize(
    "model, text, found",
    [
        ("A100-80GB", "3g.39gb", "3g.40gb"),
        ("A100-80GB", "7g.79gb", "7g.80gb"),
        ("GB200-186GB", "1g.24gb", "1g.23gb"),
        ("GB200-186GB", "1g.24gb+me", "1g.23gb+me"),
        ("GB200-186GB", "3g.95gb", "3g.93gb"),
        ("GB200-186GB", "7g.189gb", "7g.186gb"),
        ("GH200-96GB", "3g.47gb", "3g.48gb"),
        ("GB300", "1g.34gb", "1g.35gb"),
        ("RTX-PRO-6000-Blackwell-96GB", "2g.47gb+me.all", "2g.48gb+me.all"),
    ],
)
def test_names_of_another_driver_find_the_profile(model: str, text: str, found: str) -> None:
    profiles = board(model).profiles
    match = profile.find(profile.parse(text), profiles)
    assert match is not None and match.name == found


NEWER = {
    "1g.23gb": "1g.24gb",
    "1g.23gb+me": "1g.24gb+me",
    "3g.93gb": "3g.95gb",
    "4g.93gb": "4g.95gb",
    "7g.186gb": "7g.189gb",
    "1g.35gb": "1g.34gb",
    "1g.35gb+me": "1g.34gb+me",
}


@pytest.mark.parametrize("model", ["GB200-186GB", "GB300"])
def test_names_of_two_drivers_mean_the_same_profiles(model: str) -> None:
    """A layout for either of them fits both."""
    profiles = board(model).profiles
    renamed = tuple(on._replace(name=NEWER.get(on.name, on.name)) for on in profiles)
    assert renamed != profiles
    for ours, theirs in zip(profiles, renamed):
        assert profile.find(profile.parse(ours.name), renamed) == theirs
        assert profile.find(profile.parse(theirs.name), profiles) == ours


@pytest.mark.parametrize(
    "model, text",
    [
        ("A100-80GB", "1g.11gb"),
        ("A100-80GB", "1g.5gb"),
        ("A100-80GB", "3g.20gb"),
        ("A100-80GB", "3g.37gb"),
        ("A100-80GB", "5g.40gb"),
        ("A100-80GB", "2g.20gb+me"),
        ("A100-80GB", "1g.10gb-me"),
        ("A100-80GB", "1g.10gb+gfx"),
        ("A100-40GB", "1g.10gb+me"),
        ("A30-24GB", "3g.12gb"),
        ("GB200-186GB", "1g.25gb"),
        ("RTX-PRO-6000-Blackwell-96GB", "1g.24gb+me,gfx"),
    ],
)
def test_similar_names_are_not_found(model: str, text: str) -> None:
    assert profile.find(profile.parse(text), board(model).profiles) is None


def test_an_ambiguous_name_finds_no_profile() -> None:
    near = [board("GB200-186GB").profiles[0]._replace(name=name) for name in ("1g.100gb", "1g.104gb")]
    assert profile.find(profile.parse("1g.102gb"), near) is None
    assert profile.find(profile.parse("1g.104gb"), near) == near[1]


def test_profiles_with_invalid_names_are_ignored() -> None:
    on = board("A100-80GB").profiles
    odd = on[0]._replace(name="something new")
    assert profile.find(profile.parse("3g.40gb"), (odd,) + on) == on[4]


@pytest.mark.parametrize(
    "name, resource",
    [
        ("3g.40gb", "nvidia.com/mig-3g.40gb"),
        ("MIG 1g.10gb+me", "nvidia.com/mig-1g.10gb.me"),
        ("1g.24gb+me.all", "nvidia.com/mig-1g.24gb.me.all"),
        ("1g.24gb-me", "nvidia.com/mig-1g.24gb-me"),
        ("1c.3g.40gb", "nvidia.com/mig-1c.3g.40gb"),
        ("7c.7g.80gb", "nvidia.com/mig-7g.80gb"),
    ],
)
def test_the_resource_name_is_that_of_the_device_plugin(name: str, resource: str) -> None:
    assert profile.resource_name(name) == resource


def test_canonical_returns_invalid_names_unchanged() -> None:
    assert profile.canonical("MIG 3c.3g.40gb") == "3g.40gb"
    assert profile.canonical("MIG future") == "future"
    assert profile.canonical("future") == "future"


def test_a_compute_instance_is_named_after_its_gpu_instance() -> None:
    three = board("A100-80GB").profiles[4]
    assert [profile.compute_name(three, slices) for slices in (1, 2, 3)] == ["1c.3g.40gb", "2c.3g.40gb", "3g.40gb"]
