# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select the product of a board that matches a layout best.

A board is sold as several products, each with a PCI device id and product names (SXM, PCIe). Its name determines
neither the product of a node nor subsystem, UUID and PCI bus id. A layout is validated against the best matching
products: it is invalid only if no product satisfies it. The subsystem is not chosen: where a layout depends on an
unknown one, every subsystem must satisfy it, and nothing is exported.
"""

from __future__ import annotations

import functools
import itertools
import typing as t

from ...module_utils._mig import instances, selector
from ...module_utils._mig.errors import LayoutError
from ...module_utils._mig.explain import refusal
from ...module_utils._mig.layout import Entry, Layout
from ...module_utils._mig.model import Board, Gpu
from . import boards
from .gpus import BoardGpu

Names = tuple[selector.Selector, ...]  # UUID and PCI bus id of one GPU, as far as the layout names them


def best_match(layout: Layout, gpus: t.Sequence[Gpu]) -> list[Gpu]:
    """The GPUs as the products that match the layout best.

    If none matches, products that the layout names are preferred to products that it fits on, for a better error.
    """
    unknown = unknown_names(layout, gpus)
    named = name_combinations(layout, unknown)
    products = [_products(layout, gpu) for gpu in gpus]
    fitting = [
        [each for each in found if any(fits(layout, each, names) for names in ((), *named))] for found in products
    ]
    met, chosen = _best_combination(layout, fitting, unknown) if all(fitting) else (frozenset(), [])
    if met >= _requirements(layout, unknown):
        return chosen
    return _best_combination(layout, products, unknown)[1]


def _best_combination(
    layout: Layout, products: t.Iterable[t.Sequence[Gpu]], unknown: t.Sequence[selector.Selector]
) -> tuple[frozenset[object], list[Gpu]]:
    """The requirements that the best combination of products meets, and its product for each GPU."""
    choices: dict[frozenset[object], list[Gpu]] = {frozenset(): []}
    for found in products:
        longer: dict[frozenset[object], list[Gpu]] = {}
        for product in found:
            met = _met_requirements(layout, product, unknown)
            for others, chosen in choices.items():
                longer.setdefault(others | met, [*chosen, product])
        choices = longer
    return max(choices.items(), key=lambda choice: len(choice[0]))


def _requirements(layout: Layout, unknown: t.Iterable[selector.Selector]) -> frozenset[object]:
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


def name_combinations(layout: Layout, unknown: t.Sequence[selector.Selector]) -> list[Names]:
    """What the layout may name one GPU: a UUID, a PCI bus id, or one of each, except for two names in one entry."""
    pairs = [
        (uuid, bus_id)
        for uuid, bus_id in itertools.product(unknown, unknown)
        if (uuid.kind, bus_id.kind) == (selector.UUID, selector.BUS_ID)
        and not any({uuid, bus_id} <= set(entry.selectors) for entry in layout.entries)
    ]
    return [*((name,) for name in unknown), *pairs]


def variants(layout: Layout, gpu: Gpu) -> list[Gpu]:
    """The GPU with each PCI id that the layout's filters distinguish; only one if its ids are known."""
    ids = {
        (each.device, each.subsystem or 0)
        for entry in layout.entries
        for each in entry.filters
        if gpu.pci_device_id in (0, each.device) and gpu.pci_subsystem_id in (0, each.subsystem)
    }
    others = sorted(ids - {(gpu.pci_device_id, gpu.pci_subsystem_id)})
    return [gpu, *(gpu._replace(pci_device_id=device, pci_subsystem_id=subsystem) for device, subsystem in others)]


def unambiguous_match(layout: Layout, gpus: t.Sequence[Gpu]) -> list[Gpu]:
    """The GPUs as ``best_match`` selects them. Raises LayoutError if the layout depends on an unknown subsystem."""
    found = best_match(layout, gpus)
    for gpu in found:
        for other in variants(layout, gpu)[1:]:
            one, two = applicable_entry(layout, other), applicable_entry(layout, gpu)
            differing = one or two
            if differing is not None and (one and (one.enabled, one.items)) != (two and (two.enabled, two.items)):
                raise LayoutError("%s, %s: %s" % (differing.where, gpu.label, unknown_id_remedy(other)))
    return found


def unknown_id_remedy(variant: Gpu) -> str:
    """The remedy for a result that depends on an unknown PCI id."""
    return (
        "this depends on device_filter and the GPU's PCI id, which may be 0x%08X:0x%08X and is not known in full: "
        "pass the GPUs of the facts that nvidia_driver_facts gathers, or correct the entry"
        % (variant.pci_device_id, variant.pci_subsystem_id)
    )


def applicable_entry(layout: Layout, gpu: Gpu, names: Names = ()) -> Entry | None:
    """The last entry that applies to a GPU, assuming that the unknown ``names`` mean this GPU."""
    found = None
    named = names if isinstance(gpu, BoardGpu) else ()
    for entry in layout.entries:
        if (
            any(each in named or each.matches(gpu) for each in entry.selectors)
            and (not entry.filters or any(each.matches(gpu) for each in entry.filters))
            and (gpu.mig_capable or not (entry.everything and entry.enabled))
        ):
            found = entry
    return found


def fits(layout: Layout, gpu: Gpu, names: Names = ()) -> bool:
    return all(entry_refusal(applicable_entry(layout, each, names), each) is None for each in variants(layout, gpu))


def entry_refusal(entry: Entry | None, gpu: Gpu) -> str | None:
    """Why the instances of an entry do not fit on a GPU. A GPU of an unknown board is checked by the module."""
    if entry is None or not entry.enabled or not gpu.board.profiles:
        return None
    why = _items_refusal(entry.items, gpu.board)
    return None if why is None else "%s, %s: %s" % (entry.where, gpu.label, why)


@functools.lru_cache(maxsize=1024)
def _items_refusal(items: tuple[instances.Item, ...], board: Board) -> str | None:
    try:
        return refusal(board, instances.resolve(items, board).instances)
    except LayoutError as error:
        return str(error)


def _met_requirements(layout: Layout, product: Gpu, unknown: t.Collection[selector.Selector]) -> frozenset[object]:
    """The requirements of the layout that a GPU meets as this product."""
    met: set[object] = {
        name for name in _requirements(layout, unknown) if isinstance(name, selector.Selector) and name.matches(product)
    }
    named = name_combinations(layout, list(unknown))
    if isinstance(product, BoardGpu):
        met.update(name for names in named if fits(layout, product, names) for name in names)
    if any(applicable_entry(layout, each, names) for each in variants(layout, product) for names in ((), *named)):
        met.add(None)
    return frozenset(met)


def _products(layout: Layout, gpu: Gpu) -> list[Gpu]:
    """The GPU as each possible product, those that the layout names first."""
    if not isinstance(gpu, BoardGpu):
        return [gpu]
    named = [name for entry in layout.entries for name in entry.selectors if name.kind == selector.PRODUCT]
    filtered = [each.device for entry in layout.entries for each in entry.filters]
    found = [
        gpu._replace(pci_device_id=device, name=name)
        for device, name in boards.products(gpu.board.model)
        if gpu.pci_device_id in (0, device)
    ]
    return sorted(
        found,
        key=lambda product: -sum(each.matches(product) for each in named) - filtered.count(product.pci_device_id),
    )
