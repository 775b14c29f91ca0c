# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The board files are complete and consistent, and refused for planning if placements are unknown."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.module_utils._backend import capable
from ansible_collections.gpufleet.node.plugins.module_utils._mig import profile
from ansible_collections.gpufleet.node.plugins.module_utils._mig.explain import refusal
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Placement
from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import boards, gpus

UNKNOWN = ["RTX-PRO-4500-Blackwell-32GB", "RTX-PRO-5000-Blackwell-48GB", "Thor-iGPU-GB10B"]
KNOWN = [name for name in boards.names() if name not in UNKNOWN]
_PATH = Path(__file__).parents[5] / "simulator" / "nvsim" / "data" / "products.yml"
WITHOUT_MIG = yaml.safe_load(Path(boards.__file__).with_name("boards_without_mig.yml").read_text(encoding="utf-8"))
PRODUCTS = yaml.safe_load(_PATH.read_text(encoding="utf-8"))["products"]
EVIDENCE = {"transcript", "guide", "config-map", "derived", "mock", "unknown"}


def test_nodes_know_the_device_ids_of_all_boards() -> None:
    known = {device for name in boards.names() for device, _product in boards.products(name)}
    assert ["0x%08X" % device for device in known ^ capable.DEVICES] == []


def test_there_is_a_file_for_each_board() -> None:
    folder = Path(boards.__file__).with_name("models")
    assert sorted(path.name for path in folder.iterdir()) == [name + ".yml" for name in boards.names()]


@pytest.mark.parametrize("name", boards.names())
def test_a_file_has_all_fields_and_sources(name: str) -> None:
    data = boards.data(name)
    assert data["model"] == name
    assert all(isinstance(value, str) for value in data.get("kernel_module_options", {}).values())
    for row in data["profiles"]:
        assert set(row["evidence"]) >= {"row", "placements"}
        assert set(row["evidence"].values()) <= EVIDENCE
        assert set(row["media"]) == {"dec", "enc", "jpeg", "ofa"}
        name = profile.parse(row["name"])
        assert name.canonical == row["name"]
        assert name.slices == row["slices"]


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        ("hidden_nvswitches", "hidden_nvswitch", "hidden_nvswitch"),
        ("hidden_nvswitches: true", 'hidden_nvswitches: "true"', "hidden_nvswitches"),
        ("aliases", "alias", "alias, aliases"),
    ],
)
def test_a_file_with_other_fields_is_refused(monkeypatch: pytest.MonkeyPatch, old: str, new: str, fields: str) -> None:
    text = Path(boards.__file__).with_name("models").joinpath("B300.yml").read_text(encoding="utf-8")
    monkeypatch.setattr(boards, "_texts", lambda: {"B300": text.replace(old, new)})
    with pytest.raises(boards.BoardError, match="B300.yml has missing, unknown or invalid fields: %s$" % fields):
        boards._parsed.__wrapped__("B300")


def test_names_aliases_and_device_ids_are_unique() -> None:
    seen: t.Dict[str, str] = {}
    for name in (*boards.names(), *WITHOUT_MIG):
        data = boards.data(name)
        for key in [data["model"], *data["aliases"], *data["pci_device_ids"]]:
            assert seen.setdefault(key.lower(), name) == name
            assert boards.data(key.upper())["model"] == name
            assert boards.data(key.lower())["model"] == name
            if name in KNOWN:
                assert boards.load(key).model == name


@pytest.mark.parametrize("name", KNOWN)
def test_a_board_is_products_with_device_ids_and_names(name: str) -> None:
    products = boards.products(name)
    assert products and all(product.startswith("NVIDIA ") and device & 0xFFFF == 0x10DE for device, product in products)
    device = products[0][0]
    assert boards.products("0x%08x" % device) == [each for each in products if each[0] == device]


def test_the_simulated_products_are_products_of_their_boards() -> None:
    for product in PRODUCTS.values():
        if "board" in product:
            assert (int(product["pci"], 16), product["name"]) in boards.products(product["board"])


@pytest.mark.parametrize("name", KNOWN)
def test_a_board_fits_the_counts_of_its_profiles(name: str) -> None:
    board = boards.load(name)
    assert len({p.id for p in board.profiles}) == len({p.constant for p in board.profiles}) == len(board.profiles)
    for candidate in board.profiles:
        assert candidate.memory_mib > 0
        assert all(place.end <= board.memory_units for place in candidate.placements)
        assert refusal(board, [DesiredInstance(candidate)] * candidate.max_instances) is None
        assert refusal(board, [DesiredInstance(candidate)] * (candidate.max_instances + 1)) is not None


def test_a_board_in_full() -> None:
    board = boards.load("a800-80gb")
    assert (board.model, board.memory_units, board.compute_slices, board.max_gpu_instances) == ("A100-80GB", 8, 7, 7)
    three = board.profiles[4]
    assert three[:7] == ("3g.40gb", 9, 2, 3, 40192, 42, 2)
    assert three.placements == (Placement(0, 4), Placement(4, 4))


def test_unknown_memory_is_derived_from_the_name() -> None:
    one = boards.load("H20-96GB").profiles[0]
    assert (one.name, one.memory_mib, one.multiprocessors) == ("1g.12gb", 12 * 1024, 0)


@pytest.mark.parametrize("name", UNKNOWN)
def test_boards_without_known_placements_are_refused_for_planning(name: str) -> None:
    with pytest.raises(
        boards.BoardError, match="the placements of %s are unknown .*on a node, where the GPU reports them" % name
    ):
        boards.load(name)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("", ""),
        ("0x00000000", ""),
        ("NVIDIA", ""),
        ("RTX 4090", ""),
        ("A100", " (did you mean A100-40GB or A100-80GB?)"),
        ("A100-80G", " (did you mean A100-80GB?)"),
        ("A100-PCIE-80GB", " (did you mean A100-80GB?)"),
        ("H100-SXM5-80GB", " (did you mean H100-80GB?)"),
        # nvidia-smi prints NVIDIA H100 for one product, but it begins the names of others.
        ("NVIDIA H100", " (did you mean H100-96GB or H100-80GB or H100-NVL-94GB or H100-SXM5-94GB?)"),
        ("NVIDIA H800", " (did you mean H800-80GB or H800-NVL?)"),
        ("H200 SXM", " (did you mean H200-141GB or H200-NVL?)"),
        ("L4S", " (did you mean L40S?)"),
    ],
)
def test_an_unknown_board_is_refused_with_the_known_ones(name: str, suggestion: str) -> None:
    with pytest.raises(boards.BoardError) as refused:
        boards.load(name)
    assert str(refused.value).startswith(
        "unknown board %r%s: use one of A100-40GB, A100-80GB, A30-24GB" % (name, suggestion)
    )
    assert "; or without MIG, A10, A10G, A16, A40, L2," in str(refused.value)


# As nvidia-smi prints it, as the label nvidia.com/gpu.product has it, and without vendor.
@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("A100-SXM4-80GB", "A100-80GB"),
        ("nvidia a100 80gb pcie", "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB"),
        ("NVIDIA-H100-80GB-HBM3", "H100-80GB"),
        ("H200", "H200-141GB"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("Tesla T4", "T4"),
        ("Tesla-V100-SXM2-32GB", "V100"),
        ("NVIDIA A10", "A10"),
        ("L40S", "L40S"),
    ],
)
def test_the_name_of_a_product_names_its_board(name: str, model: str) -> None:
    assert boards.data(name)["model"] == model
    assert {product.lower().replace(" ", "-").split("-", 1)[1] for _device, product in boards.products(name)} == {
        name.lower().replace(" ", "-").replace("nvidia-", "").replace("tesla-", "")
    }


def test_every_product_names_its_board_or_is_ambiguous() -> None:
    ambiguous = []
    for model in (*boards.names(), *WITHOUT_MIG):
        for products in boards.data(model)["pci_device_ids"].values():
            for product in products:
                try:
                    assert boards.data(product)["model"] == model
                except boards.BoardError:
                    ambiguous.append(product)
    assert sorted(ambiguous) == ["NVIDIA H100", "NVIDIA H800"]


@pytest.mark.parametrize("model", sorted(WITHOUT_MIG))
def test_a_board_without_mig(model: str) -> None:
    data = boards.data(model)
    assert (data["model"], data["profiles"], data["minimum_driver"]) == (model, [], None)
    assert set(WITHOUT_MIG[model]) == {"aliases", "pci_device_ids"}
    for device, names in WITHOUT_MIG[model]["pci_device_ids"].items():
        assert boards.products(device) == [(int(device, 16), name) for name in names]
    gpu = gpus.from_board(model)
    assert (gpu.mig_capable, gpu.mode_current, gpu.board.profiles) == (False, None, ())


def test_the_simulated_products_without_mig_are_boards() -> None:
    for key, product in PRODUCTS.items():
        if "board" not in product:
            assert boards.data(product["name"])["model"] == boards.data(product["pci"])["model"], key


def test_the_files_are_unambiguous_yaml() -> None:
    """No value depends on YAML's implicit types: each is read as in JSON."""
    for path in sorted(Path(boards.__file__).with_name("models").glob("*.yml")):
        for value in _scalars(yaml.safe_load(path.read_text(encoding="utf-8"))):
            assert value is None or isinstance(value, (str, int))


def _scalars(value: object) -> t.Iterator[object]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    else:
        yield value
