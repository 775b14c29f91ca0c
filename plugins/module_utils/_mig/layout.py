# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Layouts: the desired state of one or more GPUs, as users write it.

``parse`` checks everything that can be checked without a GPU,
``Layout.resolve`` finds the GPUs, ``Request.target`` the profiles of one GPU.
"""

from __future__ import annotations

import typing as t

from .._common.text import listed, short
from . import instances, selector
from .errors import LayoutError
from .keys import known_keys, plain_keys
from .model import Board, Gpu, LostGpu, Target

_KEYS = ("devices", "device_filter", "mig_enabled", "mig_devices")


class Request(t.NamedTuple):
    """The desired state of one GPU, before its profile names are resolved."""

    enabled: bool
    items: t.Tuple[instances.Item, ...]
    where: str  # the entry of the layout, in messages
    gpu: str  # the GPU, in messages

    def target(self, board: Board) -> Target:
        """The request with the profiles of the GPU. Raises LayoutError that names entry, GPU and valid profiles."""
        if not self.enabled:
            return Target(False)
        try:
            return instances.resolve(self.items, board)
        except LayoutError as error:
            raise LayoutError("%s, %s: %s" % (self.where, self.gpu, error)) from None


class Entry(t.NamedTuple):
    """One validated entry of a layout."""

    where: str  # the entry in messages: "entry 2 (devices: [7])"
    selectors: t.Tuple[selector.Selector, ...]
    filters: t.Tuple[selector.DeviceFilter, ...]
    enabled: bool
    items: t.Tuple[instances.Item, ...]
    warnings: t.Tuple[str, ...] = ()  # what is valid, and probably a mistake

    @property
    def everything(self) -> bool:
        return any(found.kind == selector.ALL for found in self.selectors)

    def gpus(
        self, gpus: t.Sequence[Gpu], lost: t.Sequence[LostGpu] = (), on_error: selector.OnError = selector.raise_error
    ) -> t.List[Gpu]:
        """The GPUs that this entry selects.

        A named GPU must exist. A filter may match none: files for several kinds of nodes
        rely on that. ``all`` skips GPUs without MIG if the entry enables MIG.
        """
        named = selector.select(
            self.selectors, gpus, lost, lambda error: on_error(LayoutError("%s: %s" % (self.where, error)))
        )
        if self.filters:
            named = [gpu for gpu in named if any(found.matches(gpu) for found in self.filters)]
        if self.everything and self.enabled:
            capable = [gpu for gpu in named if gpu.mig_capable]
            if named and not capable:
                on_error(
                    LayoutError(
                        "%s: none of the selected GPUs supports MIG: remove the entry, or set mig_enabled: false (%s)"
                        % (self.where, listed([gpu.label for gpu in named]))
                    )
                )
            named = capable
        return named

    def covers(self, lost: LostGpu, gpus: t.Sequence[Gpu]) -> t.Optional[bool]:
        """Whether the entry selects a GPU that cannot be read; None if that depends on its unknown identity."""
        if not any(item.may_mean(lost, gpus) for item in self.selectors):
            return False
        if lost.gpu is None:
            return True if not self.filters and any(item.means(lost) for item in self.selectors) else None
        if self.filters and not any(found.matches(lost.gpu) for found in self.filters):
            return False
        return lost.gpu.mig_capable or not (self.everything and self.enabled)


class Layout(t.NamedTuple):
    """Validated entries, in their original order."""

    entries: t.Tuple[Entry, ...]

    @property
    def warnings(self) -> t.List[str]:
        return [warning for entry in self.entries for warning in entry.warnings]

    @property
    def selects_nothing(self) -> bool:
        """Whether every entry has an empty list of devices."""
        return bool(self.entries) and not any(entry.selectors for entry in self.entries)

    def resolve(
        self, gpus: t.Sequence[Gpu], lost: t.Sequence[LostGpu] = (), on_error: selector.OnError = selector.raise_error
    ) -> t.Dict[int, Request]:
        """The request for each GPU, by index; later entries override earlier ones.

        GPUs that no entry selects are omitted. If ``on_error`` does not raise, an error only
        affects the GPUs concerned.
        """
        out: t.Dict[int, Request] = {}
        refused: t.List[LayoutError] = []

        def wrong(error: LayoutError) -> None:
            refused.append(error)
            on_error(error)

        for entry in self.entries:
            for gpu in entry.gpus(gpus, lost, wrong):
                out[gpu.index] = Request(entry.enabled, entry.items, entry.where, gpu.label)
        covered = any(self.covering(one, gpus) for one in lost)
        if not (out or refused or covered or self.selects_nothing):
            wrong(
                LayoutError(
                    "no entry of the layout selects a GPU of this node: "
                    "add one whose device_filter names the PCI device id of %s"
                    % listed(["%s, 0x%08X" % (gpu.label, gpu.pci_device_id) for gpu in gpus])
                )
            )
        incapable: t.Dict[str, t.List[Gpu]] = {}
        for gpu in gpus:
            request = out.get(gpu.index)
            if request is not None and request.enabled and not gpu.mig_capable:
                incapable.setdefault(request.where, []).append(gpu)
                del out[gpu.index]
        for where, found in incapable.items():
            from .messages import labels  # only needed for the error

            does, them = ("does", "it") if len(found) == 1 else ("do", "them")
            text = "%s: %s %s not support MIG: remove %s from the entry, or set mig_enabled: false for %s"
            wrong(LayoutError(text % (where, labels(found), does, them, them)))
        return dict(sorted(out.items()))

    def covering(self, lost: LostGpu, gpus: t.Sequence[Gpu]) -> t.List[t.Tuple[Entry, bool]]:
        """The entries that select a GPU that cannot be read, or may select it, and whether each surely does."""
        found = [(entry, entry.covers(lost, gpus)) for entry in self.entries]
        return [(entry, bool(covers)) for entry, covers in found if covers is not False]

    def pinned(self, uuids: t.Mapping[int, str]) -> Layout:
        """The layout with its indices bound to these UUIDs, regardless of the current indices."""
        return Layout(
            tuple(
                entry._replace(selectors=tuple(item.pinned(uuids) for item in entry.selectors))
                for entry in self.entries
            )
        )


def parse(data: object, origin: str = "") -> Layout:
    """Validate a layout from YAML or JSON. Raises LayoutError that names the entry and the remedy.

    ``origin`` precedes the name of each entry in messages.
    """
    if isinstance(data, dict):
        raise LayoutError(origin + _mapping_remedy(data))
    if not isinstance(data, (list, tuple)):
        raise LayoutError(
            "%sthe layout is %s: write a list of entries, for example "
            "[{devices: all, mig_enabled: true, mig_devices: {3g.40gb: 2}}]; "
            "if it was read from a file, pass it through from_yaml" % (origin, short(data))
        )
    if not data:
        raise LayoutError(
            "%sthe layout is empty: write at least one entry; to leave all GPUs unchanged, apply no layout" % origin
        )
    return Layout(tuple(_entry(raw, "%sentry %d" % (origin, number)) for number, raw in enumerate(data, 1)))


def _mapping_remedy(data: t.Dict[object, object]) -> str:
    keys = {str(key).replace("-", "_") for key in data}
    if "mig_configs" in keys:
        return (
            "the layout is a whole mig-parted document: give it as config_file with config_name, "
            "or give the list under one of its mig-configs"
        )
    if keys & set(_KEYS):
        return "the layout is a single mapping, not a list of entries: put a dash in front, '- devices: ...'"
    return "the layout is a mapping, not a list: write a list of entries with devices, mig_enabled and mig_devices"


def _entry(raw: object, where: str) -> Entry:
    if not isinstance(raw, dict):
        raise LayoutError("%s is %s: write a mapping with devices, mig_enabled and mig_devices" % (where, short(raw)))
    entry = plain_keys(raw, where)
    if "devices" in entry:
        where = "%s (devices: %s)" % (where, short(entry["devices"]))
    known_keys(entry, _KEYS, where)
    if entry.get("devices") is None:
        raise LayoutError("%s has no devices: add devices: all, or name GPUs" % where)
    if entry.get("mig_enabled") is None:
        raise LayoutError("%s has no mig_enabled: add mig_enabled: true or mig_enabled: false" % where)
    enabled = entry["mig_enabled"]
    if not isinstance(enabled, bool):
        raise LayoutError("%s: mig_enabled is %s: write true or false, without quotes" % (where, short(enabled)))
    warnings: t.List[str] = []
    try:
        selectors = selector.parse_devices(entry["devices"], warnings.append)
        filters = selector.parse_filter(entry.get("device_filter"))
        items = _items(entry, enabled)
    except LayoutError as error:
        raise LayoutError("%s: %s" % (where, error)) from None
    return Entry(where, selectors, filters, enabled, items, tuple("%s: %s" % (where, text) for text in warnings))


def _items(entry: t.Dict[str, object], enabled: bool) -> t.Tuple[instances.Item, ...]:
    devices = entry.get("mig_devices")
    if enabled and devices is None:
        raise LayoutError("mig_enabled is true and mig_devices is missing or has no value: add it, {} for no instances")
    items = () if devices is None else instances.parse(devices)
    if items and not enabled:
        raise LayoutError("mig_enabled is false but mig_devices lists instances: change one of them")
    return items
