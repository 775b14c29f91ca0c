# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read and write configurations of mig-parted v1 documents.

A document contains neither placements nor the distribution of compute instances over GPU
instances. Placements are omitted when writing; if the distribution matters, writing fails.

For GPU instances with two kinds of whole compute instance (``board.offers_reduced``), names differ
from mig-parted's. It calls both kinds of an H100 ``1g.20gb``, creates the reduced one, and keeps
either. Here ``1g.20gb`` is the kind with all multiprocessors and ``1c.1g.20gb`` the reduced one, in
documents read and written: reading ``1g.20gb`` recreates what mig-parted created, once, and
mig-parted recreates ``1c.1g.20gb`` of a document on every run.
"""

from __future__ import annotations

import difflib
import typing as t

from . import layout as layouts
from .errors import LayoutError
from .instances import packed
from .keys import cut, known_keys, plain_keys, short
from .selector import ALL

if t.TYPE_CHECKING:
    from .instances import Item
    from .layout import Entry, Layout

VERSION = "v1"
_MOST_LISTED = 20  # names in a message
_MOST_COMPARED = 1000  # names compared with a misspelled one


def parse(data: object, name: t.Optional[str] = None) -> Layout:
    """One configuration of a document as a layout; without a name, its only one. Raises LayoutError."""
    found, entries = configuration(data, name)
    return layouts.parse(entries, "configuration %s, " % cut(found))


def configuration(data: object, name: t.Optional[str] = None) -> t.Tuple[str, object]:
    """The name and the entries of a configuration; without a name, of the only one."""
    configurations = _configurations(data)
    if name is None:
        if len(configurations) > 1:
            raise LayoutError(
                "the mig-parted file has several configurations: name one of %s" % _listed_names(configurations)
            )
        name = next(iter(configurations))
    if not isinstance(name, str):
        raise LayoutError("the name of a configuration cannot be %s: write it as a string" % short(name))
    if name not in configurations:
        close = difflib.get_close_matches(name, list(configurations)[:_MOST_COMPARED], 1)
        raise LayoutError(
            "the mig-parted file has no configuration %s%s: use one of %s"
            % (short(name), " (did you mean %s?)" % cut(close[0]) if close else "", _listed_names(configurations))
        )
    return name, configurations[name]


class Held(t.NamedTuple):
    """A GPU instance as a document describes it: its profile's name and slices, and its compute instances."""

    profile: str
    slices: int
    compute_instances: t.Tuple[int, ...]
    reduced: bool = False  # the compute instance is of the kind with fewer multiprocessors: 1c.1g.20gb


def document(name: str, entries: t.Sequence[t.Dict[str, t.Any]]) -> t.Dict[str, t.Any]:
    """A document with one configuration."""
    return {"version": VERSION, "mig-configs": {name: list(entries)}}


def from_gpus(gpus: t.Mapping[int, t.Optional[t.Sequence[Held]]]) -> t.List[t.Dict[str, t.Any]]:
    """The entries for GPUs by index, None if MIG is off; GPUs with equal instances share an entry."""
    groups: t.List[t.Tuple[t.Optional[t.Dict[str, int]], t.List[int]]] = []
    for index in sorted(gpus):
        held = gpus[index]
        wanted = None if held is None else _counts(held, "GPU %d" % index)
        for other, members in groups:
            if other == wanted:
                members.append(index)
                break
        else:
            groups.append((wanted, [index]))
    return [_entry(members, wanted) for wanted, members in groups]


def from_layout(layout: Layout) -> t.List[t.Dict[str, t.Any]]:
    """The entries of a layout, for any node. The starts of instances are omitted."""
    out = []
    for entry in layout.entries:
        wanted: t.Optional[t.Dict[str, int]] = None
        if entry.enabled:
            wanted = {item.name.canonical: item.number for item in entry.items if item.mapped}
            wanted.update(_counts([held for item in entry.items for held in _listed(item)], entry.where))
        document_entry = _entry(_devices(entry), wanted)
        if entry.filters:
            document_entry["device-filter"] = [str(found) for found in entry.filters]
        out.append(document_entry)
    return out


def _listed(item: Item) -> t.List[Held]:
    """The GPU instances of an item of the list form; the mapping form already has counts."""
    if item.mapped:
        return []
    slices = item.name.slices
    parts = tuple(part.compute or slices for part in item.compute_instances) or (slices,)
    reduced = any(part.compute == slices for part in item.compute_instances)
    return [Held(item.name.canonical, slices, parts, reduced)] * item.number


def _devices(entry: Entry) -> t.Union[str, t.List[int]]:
    """``devices`` in mig-parted's format, which supports only ``all`` and indices."""
    if entry.everything:
        return ALL
    out = []
    for found in entry.selectors:
        if not isinstance(found.value, int):
            raise LayoutError(
                "%s: a mig-parted file cannot name GPUs by %s: pass the GPUs of the node to resolve the indices"
                % (entry.where, found.kind)
            )
        out.append(found.value)
    return out


def _counts(held: t.Iterable[Held], where: str) -> t.Dict[str, int]:
    """GPU instances in mig-parted's format: counts of MIG devices by name.

    Raises LayoutError if reading the counts back would give different instances.
    """
    out: t.Dict[str, int] = {}
    split: t.Dict[t.Tuple[str, int], t.List[t.Tuple[int, ...]]] = {}
    for one in held:
        if not one.compute_instances:
            raise LayoutError(
                "%s: a mig-parted file cannot express that a GPU instance %s has no compute instance: "
                "apply a layout to the GPU first" % (where, one.profile)
            )
        for size in one.compute_instances:
            name = one.profile if size == one.slices and not one.reduced else "%dc.%s" % (size, one.profile)
            out[name] = out.get(name, 0) + 1
        if one.compute_instances != (one.slices,):
            group = tuple(sorted(one.compute_instances, reverse=True))
            split.setdefault((one.profile, one.slices), []).append(group)
    for (profile, slices), groups in split.items():
        if sorted(packed(slices, [size for group in groups for size in group])) != sorted(groups):
            raise LayoutError(
                "%s: a mig-parted file cannot express how compute instances are spread over several GPU instances %s, "
                "and mig-parted would pack them into the fewest: use instances that are full, or one instance"
                % (where, profile)
            )
    return dict(sorted(out.items()))


def _entry(devices: t.Union[str, t.List[int]], wanted: t.Optional[t.Dict[str, int]]) -> t.Dict[str, t.Any]:
    out: t.Dict[str, t.Any] = {"devices": devices, "mig-enabled": wanted is not None}
    if wanted is not None:
        out["mig-devices"] = wanted
    return out


def _configurations(data: object) -> t.Dict[str, object]:
    if not isinstance(data, dict):
        raise LayoutError(
            "the mig-parted file holds %s, not a mapping: write version: v1 and mig-configs at its top"
            % type(data).__name__
        )
    if data.get("kind") == "ConfigMap":
        raise LayoutError(_config_map_remedy(data))
    top = plain_keys(data, "the mig-parted file")
    known_keys(top, ("version", "mig_configs"), "the mig-parted file")
    if "version" not in top:
        raise LayoutError("the mig-parted file has no version: add version: v1")
    if top["version"] != VERSION:
        raise LayoutError("the mig-parted file has version %s: only version: v1 is supported" % short(top["version"]))
    found = top.get("mig_configs")
    if not isinstance(found, dict) or not found:
        raise LayoutError("the mig-parted file has no configurations: add at least one under mig-configs")
    for name in found:
        if not isinstance(name, str):
            raise LayoutError(
                "the mig-parted file has a configuration whose name is %s, of type %s: "
                "write its name as a string, in quotes" % (short(name), type(name).__name__)
            )
    return dict(found)


def _config_map_remedy(data: t.Dict[object, object]) -> str:
    held = data.get("data")
    if not isinstance(held, dict) or not held:
        return "the file is a Kubernetes ConfigMap without data: give a mig-parted file"
    key = cut(min(str(name) for name in held))
    return (
        "the file is a Kubernetes ConfigMap, and the configurations are text in its data, under %s: save that text as "
        "a file, for example with kubectl get configmap NAME -o jsonpath='{.data.%s}', and give that file; "
        "or give the configuration in layout: "
        "\"{{ ((lookup('ansible.builtin.file', PATH) | from_yaml).data[%r] | from_yaml)['mig-configs'][NAME] }}\""
        % (_listed_names(held), key.replace(".", "\\."), key)
    )


def _listed_names(names: t.Iterable[object]) -> str:
    """The first names, in order, and the number of others."""
    ordered = sorted(str(name) for name in names)
    more = len(ordered) - _MOST_LISTED
    listed = ", ".join(cut(name) for name in ordered[:_MOST_LISTED])
    return listed + (" and %d more" % more if more > 0 else "")
