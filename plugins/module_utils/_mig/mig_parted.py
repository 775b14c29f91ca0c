# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""mig-parted's v1 documents: read one configuration of a file, or write one.

A document says neither placements nor how compute instances group, so not every
layout can be written as one; those that cannot are refused.
"""

from __future__ import annotations

import difflib
import typing as t
from collections import Counter

from . import instances
from .errors import LayoutError
from .keys import known_keys, plain_keys
from .model import Board, Wanted
from .profile import compute_name

VERSION = "v1"


def configuration(data: object, name: t.Optional[str] = None) -> t.Tuple[str, object]:
    """The name and the entries of a configuration; without a name, of the only one there is."""
    configurations = _configurations(data)
    known = ", ".join(sorted(configurations))
    if name is None:
        if len(configurations) > 1:
            raise LayoutError("the mig-parted file has several configurations: name one of %s" % known)
        name = next(iter(configurations))
    if name not in configurations:
        close = difflib.get_close_matches(name, list(configurations), 1)
        raise LayoutError(
            "the mig-parted file has no configuration %r%s: use one of %s"
            % (name, " (did you mean %s?)" % close[0] if close else "", known)
        )
    return name, configurations[name]


def counts(wanted: t.Iterable[Wanted], board: Board) -> t.Dict[str, int]:
    """GPU instances as mig-parted counts them, by names of MIG devices.

    Raises LayoutError where reading the counts back would give other instances.
    """
    chosen = [item._replace(start=None) for item in wanted]
    names = Counter(compute_name(item.profile, slices) for item in chosen for slices in item.slices)
    out = {name: names[name] for name in sorted(names)}
    if Counter(instances.resolve(instances.parse(out), board).instances) != Counter(chosen):
        raise LayoutError(
            "mig-parted cannot say how these compute instances are spread over GPU instances: "
            "it would pack them into fewer (%s)" % ", ".join("%s: %d" % pair for pair in out.items())
        )
    return out


def document(name: str, gpus: t.Mapping[int, t.Optional[t.Dict[str, int]]]) -> t.Dict[str, t.Any]:
    """A document with one configuration. ``gpus`` has counts by GPU index, None where MIG is off."""
    groups: t.List[t.Tuple[t.Optional[t.Dict[str, int]], t.List[int]]] = []
    for index, held in sorted(gpus.items()):
        for other, members in groups:
            if other == held:
                members.append(index)
                break
        else:
            groups.append((held, [index]))
    entries: t.List[t.Dict[str, t.Any]] = []
    for held, members in groups:
        entry: t.Dict[str, t.Any] = {"devices": "all" if len(groups) == 1 else members, "mig-enabled": held is not None}
        if held is not None:
            entry["mig-devices"] = held
        entries.append(entry)
    return {"version": VERSION, "mig-configs": {name: entries}}


def _configurations(data: object) -> t.Dict[str, object]:
    if not isinstance(data, dict):
        raise LayoutError(
            "the mig-parted file holds %s, not a mapping: write version: v1 and mig-configs at its top"
            % type(data).__name__
        )
    top = plain_keys(data, "the mig-parted file")
    known_keys(top, ("version", "mig_configs"), "the mig-parted file")
    if "version" not in top:
        raise LayoutError("the mig-parted file has no version: add version: v1")
    if top["version"] != VERSION:
        raise LayoutError("the mig-parted file has version %r: only version: v1 is known" % (top["version"],))
    found = top.get("mig_configs")
    if not isinstance(found, dict) or not found:
        raise LayoutError("the mig-parted file has no configurations: add at least one under mig-configs")
    for name in found:
        if not isinstance(name, str):
            raise LayoutError(
                "the mig-parted file has a configuration called %r: write its name as a string" % (name,)
            )
    return dict(found)
