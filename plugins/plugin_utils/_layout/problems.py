# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Validate a layout and report all problems, not only the first."""

from __future__ import annotations

import contextlib
import typing as t

from ...module_utils._common.text import cut, short
from ...module_utils._mig import layout as layouts
from ...module_utils._mig import selector
from ...module_utils._mig.errors import LayoutError, MigError
from ...module_utils._mig.messages import merged
from ...module_utils._mig.model import Board, Gpu
from .._common.refusal import Refusal
from . import boards as layout_boards
from . import gpus as layout_gpus
from . import named, products


def of_variable(layout: object, layouts: object = None) -> list[str]:
    """The problems of the variable nvidia_mig_layout that do not depend on GPUs. ``layouts`` are those with names."""
    layout = named.resolve(layout, layouts)
    if isinstance(layout, str):
        return [named.unknown(layout, layouts)]
    if isinstance(layout, (list, tuple)):
        return of_layout(layout)
    (problem,) = of_layout(layout)
    # The role has no variable for a file.
    problem = problem.replace("give it as config_file with config_name, or ", "")
    return [problem.replace("the layout is", "nvidia_mig_layout is", 1)]


def of_named(layouts: t.Mapping[t.Any, t.Any]) -> list[str]:
    """The same for the layouts in nvidia_mig_layouts."""
    problems = [
        "the name %s in nvidia_mig_layouts is not a string: put it in quotes" % short(name)
        for name in layouts
        if not isinstance(name, str)
    ]
    for name, layout in layouts.items():
        problems += ["%s in nvidia_mig_layouts: %s" % (cut(str(name)), problem) for problem in of_layout(layout)]
    return problems


def of_layout(layout: object, gpus: object = None, driver: object = None) -> list[str]:
    """The problems of a layout, by entry, then by GPU."""
    version = _version(driver)
    problems = _entry_problems(layout)
    if problems or gpus is None or gpus == []:
        return problems
    try:
        parsed = layouts.parse(layout)
        return _node_problems(parsed, gpus_of(gpus, _is_of_one_node(parsed)), version)
    except layout_boards.GeometryError:
        return []  # the module checks it with the placements of the GPU
    except (MigError, layout_boards.BoardError) as error:
        return [str(error)]


def _entry_problems(layout: object) -> list[str]:
    """Validate each entry separately, so that one error does not hide another."""
    if not isinstance(layout, (list, tuple)) or not layout:
        entries: t.Sequence[object] = [layout]
    else:
        entries = [[entry] for entry in layout]
    problems = []
    for number, entry in enumerate(entries, 1):
        try:
            layouts.parse(entry)
        except MigError as error:
            problems.append(str(error).replace("entry 1", "entry %d" % number, 1))
    return problems


def _is_of_one_node(layout: layouts.Layout) -> bool:
    """Whether the layout names GPUs by UUID or bus id, so that messages must show those of the node."""
    return any(name.kind in (selector.UUID, selector.BUS_ID) for entry in layout.entries for name in entry.selectors)


def gpus_of(values: object, identified: bool) -> list[Gpu]:
    """GPUs from facts or board names, without current instances, which do not affect the validation.

    Unless ``identified``, messages contain neither UUIDs nor bus ids, so that nodes with the same problem share one.
    """
    if not isinstance(values, list) or not any(layout_gpus.is_fact(value) for value in values):
        return layout_gpus.from_either(values)
    out: list[Gpu] = []
    for index, value in enumerate(values):
        if not layout_gpus.is_fact(value):
            out.extend(gpu._replace(index=index) for gpu in layout_gpus.from_either([value]))
        elif value.get("index") is not None:
            mig = dict(value["mig"], instances=[], capable=value["mig"].get("capable") is not False)
            gpu = layout_gpus.from_fact(dict(value, mig=mig, problem=None), _board_of(value))
            out.append(gpu if identified else layout_gpus.FactGpu(*gpu))
    return out


def _board_of(fact: layout_gpus.Fact) -> Board:
    """The board of a GPU of the facts, or if it is unknown, a board without profiles, which the module checks."""
    if fact["mig"].get("capable") is not False:
        with contextlib.suppress(LayoutError):
            return layout_gpus.board_of(fact)
    return Board(str(fact.get("name")), (), 0, 0, 0)


def _node_problems(layout: layouts.Layout, gpus: t.Sequence[Gpu], driver: str | None) -> list[str]:
    found = products.best_match(layout, gpus)
    unknown = products.unknown_names(layout, found)
    name_combinations = products.name_combinations(layout, unknown)
    _require_matches(layout, found, name_combinations)
    shared: list[tuple[Gpu, str]] = []
    for gpu in found:
        if not any(products.fits(layout, gpu, names) for names in name_combinations):
            shared.extend((gpu, why) for why in _refusals(layout, gpu))
        entries = [products.applicable_entry(layout, each) for each in products.variants(layout, gpu)]
        if gpu.board.profiles and any(entry is not None and entry.enabled for entry in entries):
            shared.extend((gpu, text) for text in _driver_problems(gpu, driver))
    problems = [*_excess_names(layout, found, unknown), *merged(shared)]
    boards = [gpu for gpu in found if isinstance(gpu, layout_gpus.BoardGpu)]
    for name in unknown:
        refusals = [_refusals(layout, gpu, names) for gpu in boards for names in name_combinations if name in names]
        if all(refusals):
            problems.extend(refusals[0] if refusals else ())
    return list(dict.fromkeys(problems))


def _refusals(layout: layouts.Layout, gpu: Gpu, names: products.Names = ()) -> list[str]:
    """Why the layout does not fit on a GPU: one reason, or if its PCI id is not known in full, one for each id."""
    variants = products.variants(layout, gpu)
    found = [(products.entry_refusal(products.applicable_entry(layout, each, names), each), each) for each in variants]
    whys = [why for why, _each in found if why is not None]
    if len(whys) == len(found):
        return whys[:1]
    return ["%s. %s" % (why, products.unknown_id_remedy(each)) for why, each in found if why is not None]


def _excess_names(layout: layouts.Layout, gpus: t.Sequence[Gpu], unknown: t.Sequence[selector.Selector]) -> list[str]:
    """Boards have no UUID and no PCI bus id, but the layout cannot name more GPUs than there are boards.

    A UUID and a PCI bus id may mean one GPU, except in one entry, which must name each GPU once.
    """
    boards = sum(1 for gpu in gpus if isinstance(gpu, layout_gpus.BoardGpu))
    problems = [
        "the layout names %d GPUs by %s, and only %d boards are left for them" % (number, kind, boards)
        for kind in (selector.UUID, selector.BUS_ID)
        for number in [sum(1 for name in unknown if name.kind == kind)]
        if number > boards
    ]
    return problems or [
        "%s: it names %d GPUs by UUID and PCI bus id, and only %d boards are left for them"
        % (entry.where, number, boards)
        for entry in layout.entries
        for number in [sum(1 for name in entry.selectors if name in unknown)]
        if number > boards
    ]


def _require_matches(
    layout: layouts.Layout, found: t.Sequence[Gpu], name_combinations: t.Sequence[products.Names]
) -> None:
    """Raise LayoutError if a selector matches no GPU, or no entry applies to any GPU."""
    unknown = {name for names in name_combinations for name in names}
    variants = [products.variants(layout, gpu) for gpu in found]
    gpus = [
        next((each for each in gpu_variants if products.applicable_entry(layout, each)), gpu_variants[0])
        for gpu_variants in variants
    ]
    entries = []
    for entry in layout.entries:
        known = tuple(name for name in entry.selectors if name not in unknown)
        if known or not entry.selectors:
            entries.append(entry._replace(selectors=known))
            entries[-1].gpus(gpus)
    if any(products.applicable_entry(layout, gpu) for gpu in gpus) or not any(
        products.applicable_entry(layout, each, names)
        for gpu_variants in variants
        for each in gpu_variants
        for names in name_combinations
    ):
        layouts.Layout(tuple(entries)).resolve(gpus)


def _version(driver: object) -> str | None:
    if driver is None or (isinstance(driver, (str, int)) and not isinstance(driver, bool)):
        return None if driver is None else str(driver)
    raise Refusal("driver is %s: give a version (580.95.05) or a branch (580)" % short(driver))


def _driver_problems(gpu: Gpu, driver: str | None) -> list[str]:
    """Check the minimum driver of the board."""
    minimum = layout_boards.data(gpu.board.model)["minimum_driver"]
    if driver is None or minimum is None or not layout_boards.is_older(driver, minimum):
        return []
    text = "%s: MIG on %s needs driver %s or later, but %s is requested"
    return [text % (gpu.label, gpu.board.model, minimum, driver)]
