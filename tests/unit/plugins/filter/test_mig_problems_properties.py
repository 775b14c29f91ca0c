# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter mig_problems and the module's engine give the same verdict on layouts with filters and product names."""

from __future__ import annotations

import functools
import itertools
import typing as t

import pytest
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.filter.mig_parted import FilterModule as PartedModule
from ansible_collections.gpufleet.node.plugins.filter.mig_problems import FilterModule
from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout as layouts
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import MigError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Gpu
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards as layout_boards
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import gpu, models
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils import facts_support

pytestmark = pytest.mark.slow  # thousands of nodes each

mig_problems = FilterModule().filters()["mig_problems"]
mig_parted = PartedModule().filters()["mig_parted"]

MODELS = models()
PRODUCTS = {model: layout_boards.products(model) for model in MODELS}
# Several products of one board, one board of one product, and another geometry.
NODES = ["A100-80GB", "A100-40GB", "H100-80GB", "A30-24GB"]
SUBSYSTEMS = [0x147F10DE, 0x153310DE]
PATTERNS = ["A100*", "A100-SXM4*", "*PCIe", "*80GB*", "NVIDIA A800-SXM4-80GB", "H100*", "H800*", "A30", "B200", "*"]
IDS = sorted({device for model in NODES for device, _name in PRODUCTS[model]} | {0x290110DE})
PROFILES = ["1g.5gb", "1g.10gb", "3g.20gb", "3g.40gb", "2g.12gb", "1g.10gb+me"]
BUS_IDS = ["00000000:%02X:00.0" % (0x47 + number) for number in range(3)]
UUIDS = ["GPU-%08d-1111-2222-3333-444444444444" % number for number in range(3)]

_FILTERS = st.lists(
    st.sampled_from(["0x%08X" % device for device in IDS])
    | st.builds("0x{:08X}:0x{:08X}".format, st.sampled_from(IDS), st.sampled_from(SUBSYSTEMS)),
    max_size=3,
)
_SETS = st.dictionaries(st.sampled_from(PROFILES), st.integers(1, 4), max_size=2)


def _entries(names: t.Any) -> t.Any:
    return st.builds(
        lambda devices, found, mig_devices: dict(
            {"devices": devices, "device_filter": found, "mig_enabled": mig_devices is not None},
            **({} if mig_devices is None else {"mig_devices": mig_devices}),
        ),
        st.just("all") | st.lists(names, min_size=1, max_size=2, unique_by=str),
        _FILTERS,
        st.none() | _SETS,
    )


_LAYOUTS = st.lists(_entries(st.integers(0, 2) | st.sampled_from(PATTERNS)), min_size=1, max_size=3)
_LAYOUTS_WITH_UUIDS = st.lists(
    _entries(st.integers(0, 2) | st.sampled_from([*PATTERNS[:4], *UUIDS, *BUS_IDS])), min_size=1, max_size=3
)
_BOARDS = st.lists(st.sampled_from(NODES), min_size=1, max_size=2)


@functools.lru_cache(maxsize=None)
def product(model: str, index: int, device: int, name: str, subsystem: int) -> Gpu:
    """An empty GPU as the driver reports it."""
    return gpu(
        layout_boards.load(model),
        index=index,
        uuid=UUIDS[index],
        pci_bus_id=BUS_IDS[index],
        name=name,
        pci_device_id=device,
        pci_subsystem_id=subsystem,
    )


def supported(layout: layouts.Layout, boards: t.Sequence[str], products: t.Sequence[t.Tuple[int, str]]) -> bool:
    """Whether products support a layout with every subsystem for which an entry applies, and with at least one."""
    nodes = itertools.product(
        *(
            [product(model, index, device, name, subsystem) for subsystem in (*SUBSYSTEMS, 0xFFFF10DE)]
            for index, (model, (device, name)) in enumerate(zip(boards, products))
        )
    )
    found = [request for request in (_resolved(layout, node) for node in nodes) if request is not None]
    return bool(found) and all(planned(gpu, request) for pairs in found for gpu, request in pairs)


def _resolved(layout: layouts.Layout, node: t.Sequence[Gpu]) -> t.Optional[t.List[t.Tuple[Gpu, layouts.Request]]]:
    try:
        requests = layout.resolve(node)
    except MigError:
        return None
    return [(gpu, requests[gpu.index]) for gpu in node if gpu.index in requests]


@functools.lru_cache(maxsize=None)
def planned(gpu: Gpu, request: layouts.Request) -> bool:
    try:
        plan_gpu(gpu, request.target(gpu.board))
    except MigError:
        return False
    return True


def accepted(layout: layouts.Layout, gpus: t.Sequence[Gpu]) -> bool:
    """The module's verdict."""
    found = _resolved(layout, gpus)
    return found is not None and all(planned(gpu, request) for gpu, request in found)


@given(_LAYOUTS, _BOARDS)
def test_a_layout_is_refused_if_no_product_of_the_boards_supports_it(entries: t.Any, boards: t.List[str]) -> None:
    layout = layouts.parse(entries)
    nodes = itertools.product(*(PRODUCTS[model] for model in boards))
    problems = mig_problems(entries, boards)
    assert (problems == []) == any(supported(layout, boards, node) for node in nodes), problems


@given(_LAYOUTS, _BOARDS, st.data())
def test_facts_and_device_ids_are_validated_as_their_product(entries: t.Any, boards: t.List[str], data: t.Any) -> None:
    """The product determines everything except the subsystem, which facts contain."""
    layout = layouts.parse(entries)
    chosen = [data.draw(st.sampled_from(PRODUCTS[model])) for model in boards]
    node = [
        facts_support.gpu(index, uuid=UUIDS[index], pci_device_id="0x%08X" % device, name=name)
        for index, (device, name) in enumerate(chosen)
    ]
    verdict = supported(layout, boards, chosen)
    problems = mig_problems(entries, node)
    assert (problems == []) == verdict, problems
    if verdict:
        assert mig_problems(entries, boards) == []
        assert mig_problems(entries, ["0x%08x" % device for device, _name in chosen]) == []
    subsystems = [data.draw(st.sampled_from([*SUBSYSTEMS, 0xFFFF10DE])) for _gpu in node]
    known = [dict(fact, pci_subsystem_id="0x%08X" % subsystem) for fact, subsystem in zip(node, subsystems)]
    read = [
        product(model, index, device, name, subsystem)
        for index, (model, (device, name), subsystem) in enumerate(zip(boards, chosen, subsystems))
    ]
    assert (mig_problems(entries, known) == []) == accepted(layout, read)
    try:
        exported = mig_parted(entries, gpus=known)
    except AnsibleFilterError:
        return
    try:
        guessed = mig_parted(entries, gpus=node)
    except AnsibleFilterError:
        return
    assert guessed == exported


@given(_LAYOUTS_WITH_UUIDS, _BOARDS)
def test_a_layout_that_the_node_supports_is_never_refused(entries: t.Any, boards: t.List[str]) -> None:
    layout = layouts.parse(entries)
    nodes = itertools.product(*(PRODUCTS[model] for model in boards))
    if any(supported(layout, boards, node) for node in nodes):
        assert mig_problems(entries, boards) == []
