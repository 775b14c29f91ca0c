# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a host's simulated node does: its GPUs, the layout to start from, and the options of the module."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ...module_utils._common.data import Data
from ...module_utils._mig import layout as layouts
from ...module_utils._mig import selector
from ...module_utils._mig.errors import MigError
from ...module_utils._mig.model import Gpu
from .._common.refusal import Refusal
from .._layout import boards as layout_boards
from .._layout import gpus as layout_gpus
from .._layout import named, problems, products
from .start import Start

NO_BOARDS = "its GPUs are unknown: name them in gpu_node_boards, or give a report that has read them (rehearse_from=report.json)"


class Host(t.NamedTuple):
    """A host's variables, with defaults."""

    name: str
    boards: t.Sequence[str]
    mig: t.Mapping[str, t.Any] | None  # of the role nvidia_mig; None without a layout
    driver: str = ""  # empty: not in the inventory


def layout_of(host: Host) -> object:
    """The host's layout, by its name or as it is; None without one."""
    return None if host.mig is None else named.resolve(host.mig["nvidia_mig_layout"], host.mig["nvidia_mig_layouts"])


def has_gpus(host: Host, start: Start) -> bool:
    """Whether anything gives the host GPUs. A server of a cluster may have none."""
    return bool(host.boards or host.mig or start.gpus or start.layout or start.busy)


def layout_problems(host: Host, gpus: t.Sequence[object]) -> list[str]:
    """All problems of the layout on these GPUs, and with the driver of the inventory. The module reports the first."""
    return [] if host.mig is None else problems.of_layout(layout_of(host), list(gpus), host.driver or None)


def job(host: Host, start: Start, activation: str, folder: Path) -> tuple[Data, list[str]]:
    """The job for child.py, and notes. Raises Refusal if the host's GPUs are unknown, MigError for a malformed layout."""
    desired = layout_of(host)
    gpus, notes = _gpus(host, start, [each for each in (desired, start.layout) if each is not None])
    options: Data = {
        "lock_path": str(folder / "lock"),
        "lock_wait": 0,
        "backend": "nvml",
        "whole_node": True,
    }
    found = {
        "folder": str(folder / "node"),
        "seed": host.name,
        "driver": host.driver or start.driver or None,
        "activation": activation,
        "gpus": gpus,
        "start": start.layout or [],
        "busy": start.busy,
        "paths": options,
        "options": None,
        "reboot": False,
    }
    if host.mig is not None:
        wanted = {"layout": desired, **{name: host.mig["nvidia_mig_" + name] for name in ("reset", "disturb", "busy")}}
        found.update(options={**options, **wanted}, reboot=host.mig["nvidia_mig_reboot"])
    return found, notes


def _gpus(host: Host, start: Start, wanted: t.Sequence[object]) -> tuple[list[Data], list[str]]:
    if start.gpus is not None:
        return [_of_fact(gpu) for gpu in start.gpus], []
    if not host.boards:
        raise Refusal(NO_BOARDS)
    found: list[Gpu] = layout_gpus.from_either(list(host.boards))
    parsed = []
    for value in wanted:
        try:
            parsed.append(layouts.parse(value))
        except MigError:  # the module reports that of the host; a note that of the start
            continue
    if parsed:
        found = products.best_match(parsed[0], found)
    gpus: list[Data] = [
        {
            "names": [*(["0x%08X" % gpu.pci_device_id] if gpu.pci_device_id else []), gpu.name, name, gpu.board.model],
            "uuid": None,
            "bus_id": None,
        }
        for gpu, name in zip(found, host.boards, strict=True)
    ]
    notes = [note for layout in parsed for note in _identify(layout, found, gpus)]
    if any(gpu["bus_id"] for gpu in gpus):  # the simulator's own could be the same
        for index, gpu in enumerate(gpus):
            gpu["bus_id"] = gpu["bus_id"] or "%08x:01:00.0" % (0x100 + index)
    return gpus, notes


def _of_fact(gpu: Data) -> Data:
    names = [str(gpu[key]) for key in ("pci_device_id", "name") if gpu.get(key)]
    try:
        names.append(layout_boards.data(gpu.get("pci_device_id"))["model"])
    except layout_boards.BoardError:
        pass
    return {"names": names or ["unknown"], "uuid": gpu.get("uuid"), "bus_id": gpu.get("pci_bus_id")}


def _identify(layout: layouts.Layout, gpus: t.Sequence[Gpu], out: list[Data]) -> list[str]:
    """Give GPUs the UUIDs and PCI bus ids that the layout names: which GPUs have them is unknown."""
    notes = []
    for name in products.unknown_names(layout, gpus):
        key = "uuid" if name.kind == selector.UUID else "bus_id"
        if any(gpu[key] == name.value for gpu in out):
            continue
        free = [index for index, gpu in enumerate(out) if gpu[key] is None and not _same_entry(layout, name, gpu)]
        fitting = [index for index in free if products.fits(layout, gpus[index], (name,))]
        for index in (fitting or free)[:1]:
            out[index][key] = name.value
            notes.append("%s is taken for GPU %d: without a report, its GPU is unknown" % (name.value, index))
    return notes


def _same_entry(layout: layouts.Layout, name: selector.Selector, gpu: Data) -> bool:
    """Whether an entry names this GPU already, with its other identity: it names each GPU once."""
    return any(
        name in entry.selectors and any(each.value in (gpu["uuid"], gpu["bus_id"]) for each in entry.selectors)
        for entry in layout.entries
    )
