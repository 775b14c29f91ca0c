# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select the product of a board that matches a layout best.

A board is sold as several products, each with a PCI device id and product names (SXM, PCIe). Its name determines
neither the product of a node nor subsystem, UUID and PCI bus id. A layout is validated against the best matching
products: it is invalid only if no product satisfies it.
"""

from __future__ import annotations

import functools
import typing as t

from ..module_utils._mig import instances, selector
from ..module_utils._mig.errors import LayoutError
from ..module_utils._mig.explain import refusal
from ..module_utils._mig.layout import Entry, Layout
from ..module_utils._mig.model import Board, Gpu
from . import _boards
from ._gpus import BoardGpu


def likeliest(layout: Layout, gpus: t.Sequence[Gpu]) -> list[Gpu]:
    """The GPUs as the products that match the layout best.

    If none matches, products that the layout names are preferred to products that it fits on, for a better error.
    """
    unknown = unknown_names(layout, gpus)
    products = [_products(layout, gpu) for gpu in gpus]
    fitting = [
        [each for each in found if any(fits(layout, each, name) for name in (None, *unknown))] for found in products
    ]
    met, chosen = _choose(layout, fitting, unknown) if all(fitting) else (frozenset(), [])
    if met >= _demands(layout, unknown):
        return chosen
    return _choose(layout, products, unknown)[1]


def _choose(
    layout: Layout, products: t.Iterable[t.Sequence[Gpu]], unknown: t.Sequence[selector.Selector]
) -> tuple[frozenset[object], list[Gpu]]:
    """The demands that the best combination of products meets, and its product for each GPU."""
    choices: dict[frozenset[object], list[Gpu]] = {frozenset(): []}
    for found in products:
        longer: dict[frozenset[object], list[Gpu]] = {}
        for product in found:
            met = _met(layout, product, unknown)
            for others, chosen in choices.items():
                longer.setdefault(others | met, [*chosen, product])
        choices = longer
    return max(choices.items(), key=lambda choice: len(choice[0]))


def _demands(layout: Layout, unknown: t.Iterable[selector.Selector]) -> frozenset[object]:
    """Every product name and unknown name must match a GPU, and at least one entry (None) must apply to one."""
    names = (name for entry in layout.entries for name in entry.selectors if name.kind == selector.PRODUCT)
    return frozenset((*names, *unknown, None))


def unknown_names(layout: Layout, gpus: t.Sequence[Gpu]) -> list[selector.Selector]:
    """The layout's UUIDs and PCI bus ids that may refer to GPUs given by board."""
    if not any(isinstance(gpu, BoardGpu) for gpu in gpus):
        return []
    return [
        name
        for name in dict.fromkeys(name for entry in layout.entries for name in entry.selectors)
        if name.kind in (selector.UUID, selector.BUS_ID) and not any(name.matches(gpu) for gpu in gpus)
    ]


def deciding(layout: Layout, gpu: Gpu, name: selector.Selector | None = None) -> Entry | None:
    """The last entry that applies to a GPU, assuming that the unknown name ``name`` means this GPU."""
    found = None
    named = name if isinstance(gpu, BoardGpu) else None
    for entry in layout.entries:
        if (
            any(each == named or each.matches(gpu) for each in entry.selectors)
            and (not entry.filters or any(each.matches(gpu) for each in entry.filters))
            and (gpu.mig_capable or not (entry.everything and entry.enabled))
        ):
            found = entry
    return found


def fits(layout: Layout, gpu: Gpu, name: selector.Selector | None = None) -> bool:
    entry = deciding(layout, gpu, name)
    return entry is None or misfit(entry, gpu) is None


def misfit(entry: Entry, gpu: Gpu) -> str | None:
    """Why the instances of an entry do not fit on a GPU. A GPU of an unknown board is checked by the module."""
    if not entry.enabled or not gpu.board.profiles:
        return None
    why = _why(entry.items, gpu.board)
    return None if why is None else "%s, %s: %s" % (entry.where, gpu.label, why)


@functools.lru_cache(maxsize=1024)
def _why(items: tuple[instances.Item, ...], board: Board) -> str | None:
    try:
        return refusal(board, instances.resolve(items, board).instances)
    except LayoutError as error:
        return str(error)


def _met(layout: Layout, product: Gpu, unknown: t.Collection[selector.Selector]) -> frozenset[object]:
    """The demands of the layout that a GPU meets as this product."""
    met: set[object] = {
        name for name in _demands(layout, unknown) if isinstance(name, selector.Selector) and name.matches(product)
    }
    if isinstance(product, BoardGpu):
        met.update(name for name in unknown if fits(layout, product, name))
    if any(deciding(layout, product, name) for name in (None, *unknown)):
        met.add(None)
    return frozenset(met)


def _products(layout: Layout, gpu: Gpu) -> list[Gpu]:
    """The GPU as each possible product, those that the layout names first.

    Any product may have any subsystem that the layout names.
    """
    filters = [each for entry in layout.entries for each in entry.filters]
    named: list[selector.Selector | selector.DeviceFilter] = [
        name for entry in layout.entries for name in entry.selectors if name.kind == selector.PRODUCT
    ]
    named.extend(filters)
    products = [(gpu.pci_device_id, gpu.name)]
    if isinstance(gpu, BoardGpu):
        known = _boards.products(gpu.board.model)
        products = [each for each in known if gpu.pci_device_id in (0, each[0])]
    subsystems = {gpu.pci_subsystem_id}
    if not gpu.pci_subsystem_id:
        subsystems.update(each.subsystem or 0 for each in filters)
    found = [
        gpu._replace(pci_device_id=device, name=name, pci_subsystem_id=subsystem)
        for device, name in products
        for subsystem in sorted(subsystems)
    ]
    return sorted(found, key=lambda product: -sum(each.matches(product) for each in named))
