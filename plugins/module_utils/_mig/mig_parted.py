# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read and write configurations of mig-parted v1 documents.

A document is accepted if nvidia-mig-parted accepts it: api/spec/v1/spec.go and sigs.k8s.io/yaml v1.6.0 of
github.com/NVIDIA/mig-parted at bd7160f (2026-08-21), run on the values of the tests. Only the selected configuration
has to be valid. Errors in it are, although mig-parted accepts them: ``mig-enabled`` without value, which is false there,
an index without value, which is 0 there, and indices, filters and profiles that no GPU can have.

A document contains neither placements nor the distribution of compute instances over GPU
instances. Placements are omitted when writing; if the distribution matters, writing fails.

For GPU instances with two kinds of whole compute instance (``board.offers_reduced``), names differ
from mig-parted's. It calls both kinds of an H100 ``1g.20gb``, creates the reduced one, and keeps
either. Here ``1g.20gb`` is the kind with all multiprocessors and ``1c.1g.20gb`` the reduced one, in
documents read and written: reading ``1g.20gb`` recreates what mig-parted created, once, and
mig-parted recreates ``1c.1g.20gb`` of a document on every run.
"""

from __future__ import annotations

import re
import typing as t

from .._common.text import cut, did_you_mean, listed, nearest, short
from . import layout as layouts
from .errors import LayoutError
from .instances import packed
from .keys import known_keys, plain_keys
from .selector import ALL, Warn

if t.TYPE_CHECKING:
    from .instances import Item
    from .layout import Entry, Layout

VERSION = "v1"
_OURS = re.compile(r"\b(device|mig)_(filter|enabled|devices|configs)\b")
_MAX_LISTED = 20  # names in a message
_MAX_COMPARED = 1000  # names compared with a misspelled one


def parse(data: object, name: t.Optional[str] = None, warn: Warn = lambda _text: None) -> Layout:
    """One configuration of a document as a layout; without a name, its only one. Raises LayoutError.

    ``warn`` is called with what is valid here, and is a mistake or rejected by nvidia-mig-parted.
    """
    configurations = _configurations(data, warn)
    name = _selected(configurations, name)
    layout = _layout(name, configurations[name])
    for text in layout.warnings:
        warn(text)
    _warn_of_others({other: configurations[other] for other in configurations if other != name}, warn)
    _warn_of_extensions(t.cast("t.Dict[object, object]", data), configurations, warn)
    return layout


def _layout(name: str, entries: object) -> Layout:
    origin = "configuration %s, " % cut(name)
    try:
        return layouts.parse(entries, origin)
    except LayoutError as error:
        raise LayoutError(origin + _spelled(str(error)[len(origin) :])) from None


def _spelled(text: str) -> str:
    """A message with the keys as nvidia-mig-parted reads them."""
    return _OURS.sub(r"\1-\2", text)


def _selected(configurations: t.Mapping[str, object], name: t.Optional[str]) -> str:
    if name is None:
        if len(configurations) > 1:
            raise LayoutError(
                "the mig-parted file has several configurations: name one of %s" % _listed_names(configurations)
            )
        name = next(iter(configurations))
    if not isinstance(name, str):
        raise LayoutError("the name of a configuration cannot be %s: write it as a string" % short(name))
    if name not in configurations:
        near = nearest(name, list(configurations)[:_MAX_COMPARED])
        raise LayoutError(
            "the mig-parted file has no configuration %s%s: use one of %s"
            % (short(name), did_you_mean(near), _listed_names(configurations))
        )
    return name


def _warn_of_others(configurations: t.Mapping[str, object], warn: Warn) -> None:
    """Validate the configurations that are not selected."""
    errors = []
    for name, entries in configurations.items():
        try:
            _layout(name, entries)
        except LayoutError as error:
            errors.append(str(error))
    if errors:
        warn("configurations that are not selected are invalid: %s" % listed(errors))


def _warn_of_extensions(document: t.Dict[object, object], configurations: t.Mapping[str, object], warn: Warn) -> None:
    """Warn of what only this collection accepts: nvidia-mig-parted rejects a file that has it anywhere."""
    keys = [key for key in document if "_" in str(key)]
    values = []
    for name, entries in configurations.items():
        for number, entry in enumerate(entries if isinstance(entries, list) else (), 1):
            if not isinstance(entry, dict):
                continue
            keys.extend(key for key in entry if "_" in str(key))
            plain = {str(key).replace("-", "_"): value for key, value in entry.items()}
            where = "configuration %s, entry %d" % (cut(name), number)
            if not _plain_devices(plain.get("devices")):
                values.append("%s: devices is neither all nor a list of indices" % where)
            if isinstance(plain.get("mig_devices"), list):
                values.append("%s: mig-devices is a list" % where)
    found = sorted({str(key) for key in keys})
    if found:
        dashed = [cut(key.replace("_", "-")) for key in found]
        values.insert(0, "it reads %s, not %s" % (listed(dashed, ", "), listed([cut(key) for key in found], ", ")))
    if values:
        warn("nvidia-mig-parted itself rejects the file: %s" % listed(values))


def _plain_devices(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    return value == ALL


class InstanceSpec(t.NamedTuple):
    """A GPU instance as a document describes it: its profile's name and slices, and its compute instances."""

    profile: str
    slices: int
    compute_instances: t.Tuple[int, ...]  # slice counts
    reduced: bool = False  # the compute instance is of the kind with fewer multiprocessors: 1c.1g.20gb


def document(name: str, entries: t.Sequence[t.Dict[str, t.Any]]) -> t.Dict[str, t.Any]:
    """A document with one configuration."""
    return {"version": VERSION, "mig-configs": {name: list(entries)}}


def from_gpus(gpus: t.Mapping[int, t.Optional[t.Sequence[InstanceSpec]]]) -> t.List[t.Dict[str, t.Any]]:
    """The entries for GPUs by index, None if MIG is off; GPUs with equal instances share an entry."""
    groups: t.List[t.Tuple[t.Optional[t.Dict[str, int]], t.List[int]]] = []
    for index in sorted(gpus):
        instances = gpus[index]
        counts = None if instances is None else _counts(instances, "GPU %d" % index)
        for other, members in groups:
            if other == counts:
                members.append(index)
                break
        else:
            groups.append((counts, [index]))
    return [_entry(members, counts) for counts, members in groups]


def from_layout(layout: Layout) -> t.List[t.Dict[str, t.Any]]:
    """The entries of a layout, for any node. The starts of instances are omitted."""
    out = []
    for entry in layout.entries:
        counts: t.Optional[t.Dict[str, int]] = None
        if entry.enabled:
            counts = {item.name.canonical: item.number for item in entry.items if item.mapped}
            counts.update(_counts([each for item in entry.items for each in _listed(item)], entry.where))
        document_entry = _entry(_devices(entry), counts)
        if entry.filters:
            document_entry["device-filter"] = [str(found) for found in entry.filters]
        out.append(document_entry)
    return out


def _listed(item: Item) -> t.List[InstanceSpec]:
    """The GPU instances of an item of the list form; the mapping form already has counts."""
    if item.mapped:
        return []
    slices = item.name.slices
    parts = tuple(part.compute or slices for part in item.compute_instances) or (slices,)
    reduced = any(part.compute == slices for part in item.compute_instances)
    return [InstanceSpec(item.name.canonical, slices, parts, reduced)] * item.number


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


def _counts(instances: t.Iterable[InstanceSpec], where: str) -> t.Dict[str, int]:
    """GPU instances in mig-parted's format: counts of MIG devices by name.

    Raises LayoutError if reading the counts back would give different instances.
    """
    out: t.Dict[str, int] = {}
    split: t.Dict[t.Tuple[str, int], t.List[t.Tuple[int, ...]]] = {}
    for one in instances:
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


def _entry(devices: t.Union[str, t.List[int]], counts: t.Optional[t.Dict[str, int]]) -> t.Dict[str, t.Any]:
    out: t.Dict[str, t.Any] = {"devices": devices, "mig-enabled": counts is not None}
    if counts is not None:
        out["mig-devices"] = counts
    return out


def _configurations(data: object, warn: Warn) -> t.Dict[str, object]:
    if not isinstance(data, dict):
        raise LayoutError(
            "the mig-parted file holds %s, not a mapping: write version: v1 and mig-configs at its top"
            % type(data).__name__
        )
    if data.get("kind") == "ConfigMap":
        raise LayoutError(_config_map_remedy(data))
    if "apiVersion" in data:
        raise LayoutError(
            "the file is a Kubernetes object of the kind %s: give a mig-parted file, which is the text in the data of a "
            "ConfigMap" % short(data.get("kind"))
        )
    top = plain_keys(data, "the mig-parted file")
    try:
        known_keys(top, ("version", "mig_configs"), "the mig-parted file")
    except LayoutError as error:
        raise LayoutError(_spelled(str(error))) from None
    if "version" not in top:
        raise LayoutError("the mig-parted file has no version: add version: v1")
    if top["version"] != VERSION:
        raise LayoutError("the mig-parted file has version %s: only version: v1 is supported" % short(top["version"]))
    found = top.get("mig_configs")
    if not isinstance(found, dict) or not found:
        raise LayoutError("the mig-parted file has no configurations: add at least one under mig-configs")
    out: t.Dict[str, object] = {}
    twice: t.Set[str] = set()
    for key, entries in found.items():
        name = _name(key)
        if name in out:
            twice.add(name)
        out[name] = entries
    if twice:
        warn("the last of several configurations with the name %s applies: remove the others" % _listed_names(twice))
    return out


def _name(key: object) -> str:
    """The name of a configuration, as sigs.k8s.io/yaml v1.6.0 converts keys to strings."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (int, float)):
        return "%d" % key if isinstance(key, int) else "%g" % key
    raise LayoutError(
        "the mig-parted file has a configuration whose name is %s, of type %s: "
        "write its name as a string, in quotes" % (short(key), type(key).__name__)
    )


def _config_map_remedy(data: t.Dict[object, object]) -> str:
    files = data.get("data")
    if not isinstance(files, dict) or not files:
        return "the file is a Kubernetes ConfigMap without data: give a mig-parted file"
    key = cut(min(str(name) for name in files))
    return (
        "the file is a Kubernetes ConfigMap, and the configurations are text in its data, under %s: save that text as "
        "a file, for example with kubectl get configmap NAME -o jsonpath='{.data.%s}', and give that file; "
        "or give the configuration in layout: "
        "\"{{ ((lookup('ansible.builtin.file', PATH) | from_yaml).data[%r] | from_yaml)['mig-configs'][NAME] }}\""
        % (_listed_names(files), key.replace(".", "\\."), key)
    )


def _listed_names(names: t.Iterable[object]) -> str:
    """The first names, in order, and the number of others."""
    return listed([cut(name) for name in sorted(map(str, names))], ", ", _MAX_LISTED)
