# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Parse ``mig_devices``: the desired GPU instances of a GPU, and their compute instances."""

from __future__ import annotations

import typing as t

from .._common.text import short
from . import profile as profile_names
from .board import ci_places, offers_reduced
from .errors import LayoutError
from .keys import known_keys, plain_keys
from .model import WHOLE, Board, DesiredInstance, Profile, Target

# More than any GPU holds, and few enough to expand them before checking whether they fit.
_MAX_COUNT = 64

_KEYS = ("profile", "start", "count", "compute_instances")


class Item(t.NamedTuple):
    """One item of ``mig_devices``, before its profile name is resolved.

    In the mapping form ``name`` may be that of a compute instance; these are packed. In the
    list form ``compute_instances`` lists the compute instances of each GPU instance.
    """

    where: str  # the item in messages
    name: profile_names.Name
    number: int = 1  # the count
    start: t.Optional[int] = None
    compute_instances: t.Tuple[profile_names.Name, ...] = ()
    mapped: bool = False  # from the mapping form


def parse(value: object) -> t.Tuple[Item, ...]:
    """Either form of ``mig_devices``. Raises LayoutError with a remedy, without naming the entry."""
    if isinstance(value, dict):
        return _parse_mapping(value)
    if isinstance(value, (list, tuple)):
        return _parse_list(value)
    raise LayoutError(
        "mig_devices cannot be %s: write a mapping of profiles to counts, {} for none, "
        "or a list of {profile, start, count, compute_instances}" % short(value)
    )


def resolve(items: t.Sequence[Item], board: Board) -> Target:
    """Resolve the items on a board. The result does not depend on their order."""
    desired: t.List[DesiredInstance] = []
    parts: t.Dict[Profile, t.List[int]] = {}
    seen: t.Dict[t.Tuple[Profile, t.Optional[int], bool], Item] = {}  # of the mapping form, where keys are unique
    for item in items:
        profile = _profile(item, board)
        compute = None if item.name.compute == profile.slices else item.name.compute
        reduced = any(is_reduced(name, profile, board) for name in (item.name,) + item.compute_instances)
        if item.start is not None and all(item.start != place.start for place in profile.placements):
            raise LayoutError(
                "%s: %s cannot start at %d on %s: use one of %s"
                % (item.where, profile.name, item.start, board.model, _starts(profile))
            )
        if item.mapped:
            twin = seen.setdefault((profile, compute, reduced), item)
            if twin is not item:
                raise LayoutError(
                    "%s and %s both mean %s on %s: write it once" % (twin.where, item.where, profile.name, board.model)
                )
        if compute is not None:
            _check_compute(item, profile, compute)
            parts.setdefault(profile, []).extend([compute] * item.number)
        else:
            one = DesiredInstance(profile, item.start, _compute(item, profile, board), reduced)
            desired.extend([one] * item.number)
    for profile, slices in parts.items():
        desired.extend(
            DesiredInstance(profile, None, _normal(profile.slices, sizes)) for sizes in packed(profile.slices, slices)
        )
    return Target(True, tuple(sorted(desired, key=DesiredInstance.order)))


def is_reduced(name: profile_names.Name, profile: Profile, board: Board) -> bool:
    """Whether a name denotes the reduced compute instance, and not the one with all multiprocessors."""
    return name.compute == profile.slices and offers_reduced(board, profile)


def packed(within: int, slices: t.Iterable[int]) -> t.List[t.Tuple[int, ...]]:
    """Compute instances packed into the fewest GPU instances of ``within`` slices.

    First fit, largest first. This is optimal here: the sizes inside 1g to 4g divide one
    another or leave single slices, and no GPU has room for two 7g.
    """
    from .compute import pack  # only compute instances that are counted need it

    places = ci_places(within)
    bins: t.List[t.Tuple[int, ...]] = []
    for size in sorted(slices, reverse=True):
        for position, sizes in enumerate(bins):
            if pack(sizes + (size,), (), places) is not None:
                bins[position] = sizes + (size,)
                break
        else:
            bins.append((size,))
    return bins


def _parse_mapping(value: t.Dict[object, object]) -> t.Tuple[Item, ...]:
    out: t.List[Item] = []
    seen: t.Dict[profile_names.Name, object] = {}
    for key, count in value.items():
        name = profile_names.parse(key)
        if name in seen:
            raise LayoutError(
                "mig_devices names the profile %s twice, as %r and %r: write it once"
                % (name.canonical, seen[name], key)
            )
        seen[name] = key
        number = _number(count, "the count of %s in mig_devices" % name.canonical, "write a whole number")
        if number:
            out.append(Item("mig_devices[%r]" % key, name, number, mapped=True))
    return tuple(out)


def _parse_list(value: t.Sequence[object]) -> t.Tuple[Item, ...]:
    out: t.List[Item] = []
    starts: t.Dict[int, str] = {}
    for position, raw in enumerate(value, 1):
        item = _parse_line(raw, "item %d of mig_devices" % position)
        if item.start is not None and item.number:
            if item.start in starts:
                raise LayoutError(
                    "%s and %s both start at %s: give each instance its own start"
                    % (starts[item.start], item.where, item.start)
                )
            starts[item.start] = item.where
        if item.number:
            out.append(item)
    return tuple(out)


def _parse_line(raw: object, where: str) -> Item:
    if isinstance(raw, str):
        raise LayoutError("%s is the string %s: write {profile: %s}" % (where, short(raw), short(raw)[1:-1]))
    if not isinstance(raw, dict):
        raise LayoutError("%s is %s: write a mapping, for example {profile: 3g.40gb, start: 4}" % (where, short(raw)))
    line = plain_keys(raw, where)
    known_keys(line, _KEYS, where)
    if "profile" not in line:
        raise LayoutError("%s has no profile: add one, for example profile: 3g.40gb" % where)
    name = _within(where, line["profile"])
    if name.compute == name.slices and "compute_instances" not in line:  # 1c.1g.20gb
        line["compute_instances"] = [name.canonical]
        name = name.gpu_instance
    if name.compute is not None:
        whole = name.gpu_instance.canonical
        raise LayoutError(
            "%s: %s is a part of a GPU instance: write profile: %s and compute_instances: [%s]"
            % (where, name.canonical, whole, name.canonical)
        )
    start = None
    if line.get("start") is not None:
        start = _number(line["start"], "start in %s" % where, "write the unit where it starts", 4096)
    count = _number(line.get("count", 1), "count in %s" % where, "write a whole number")
    if start is not None and count > 1:
        raise LayoutError("%s has a start and the count %d: write one item for each start" % (where, count))
    return Item(where, name, count, start, _parse_compute(line, name, where))


def _parse_compute(line: t.Dict[str, object], name: profile_names.Name, where: str) -> t.Tuple[profile_names.Name, ...]:
    if "compute_instances" not in line:
        return ()
    value = line["compute_instances"]
    example = "for example [1c.%s]" % name.canonical
    if not isinstance(value, (list, tuple)):
        raise LayoutError("%s: compute_instances is %s: write a list of names, %s" % (where, short(value), example))
    if not value:
        raise LayoutError(
            "%s: compute_instances is empty, but workloads need a compute instance: "
            "omit it for a single one with all slices, or name them, %s" % (where, example)
        )
    found = tuple(_within(where, raw) for raw in value)
    if len(found) > name.slices or sum(part.compute or part.slices for part in found) > name.slices:
        raise LayoutError(
            "%s: compute_instances need more than the %d compute slices of %s: name fewer or smaller ones"
            % (where, name.slices, name.canonical)
        )
    return found


def _within(where: str, raw: object) -> profile_names.Name:
    try:
        return profile_names.parse(raw)
    except LayoutError as error:
        raise LayoutError("%s: %s" % (where, error)) from None


def _number(value: object, what: str, remedy: str, most: int = _MAX_COUNT) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise LayoutError("%s is %s: %s, without quotes or fraction" % (what, short(value), remedy))
    if not 0 <= value <= most:
        raise LayoutError("%s is %s: %s between 0 and %d" % (what, short(value), remedy, most))
    return value


def _profile(item: Item, board: Board) -> Profile:
    name = item.name
    found = profile_names.find(name, board.profiles)
    if found is not None:
        return found
    valid = [profile.name for profile in board.profiles]
    if not valid:
        raise LayoutError(
            "%s: the driver lists no profiles for %s, so %s cannot be checked: turn MIG mode on first"
            % (item.where, board.model, name.canonical)
        )
    raise LayoutError(
        "%s: %s has no profile %s: use one of %s"
        % (item.where, board.model, name.gpu_instance.canonical, ", ".join(valid))
    )


def _compute(item: Item, profile: Profile, board: Board) -> t.Tuple[int, ...]:
    """The compute instances of an item of the list form, as slice counts."""
    slices: t.List[int] = []
    for part in item.compute_instances:
        if profile_names.find(part, board.profiles) != profile:
            raise LayoutError(
                "%s: %s is not a compute instance of %s: use names like 1c.%s"
                % (item.where, part.canonical, profile.name, profile.name)
            )
        slices.append(part.compute or profile.slices)
        _check_compute(item, profile, slices[-1])
    return _normal(profile.slices, slices)


def _check_compute(item: Item, profile: Profile, slices: int) -> None:
    offered = ci_places(profile.slices)
    if slices not in offered:
        raise LayoutError(
            "%s: %s holds no compute instance of %d slices: use one of %s"
            % (
                item.where,
                profile.name,
                slices,
                ", ".join(profile_names.compute_name(profile, size) for size in sorted(offered)),
            )
        )


def _normal(within: int, slices: t.Iterable[int]) -> t.Tuple[int, ...]:
    ordered = tuple(sorted(slices, reverse=True))
    return WHOLE if ordered == (within,) else ordered


def _starts(profile: Profile) -> str:
    return ", ".join(str(place.start) for place in sorted(profile.placements))
