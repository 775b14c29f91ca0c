# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The boards that can be named without a GPU: those with MIG and their geometry, and those without MIG."""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._common.text import did_you_mean, nearest, short
from ...module_utils._mig import profile as profile_names
from ...module_utils._mig.model import Board, Placement, Profile
from .._common.refusal import Refusal

_FOLDER = Path(__file__).with_name("models")
_WITHOUT_MIG = Path(__file__).with_name("boards_without_mig.yml")
_VENDOR = re.compile("^(nvidia|tesla)-")
# The fields of a board file, with the types of their values.
FIELDS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "aliases": list,  # other names of the board
    "pci_device_ids": dict,  # the names of products by PCI device id
    "architecture": str,  # as NVML names it
    "minimum_driver": (str, type(None)),  # of MIG on this board; null: unknown
    "memory_units": (int, type(None)),  # the length of the grid of placements; null: unknown
    "compute_slices": int,
    "max_gpu_instances": int,
    "profiles": list,
}
# Fields that only some boards have.
OPTIONAL: dict[str, type] = {
    "hidden_nvswitches": bool,  # NVLink 5: the NVSwitches are not on the PCI bus, and the fabric manager needs nvlsm
    "multi_node_nvlink": bool,  # NVLink domains span nodes, which needs nvidia-imex
    "kernel_module_options": dict,  # of the driver, as text
    "notes": list,
}


class BoardError(Refusal):
    """The board is unknown, or its data is too incomplete for planning."""


class GeometryError(BoardError):
    """The board is known, but its placements are not."""


def names() -> list[str]:
    """The models with MIG, sorted."""
    return sorted(_texts())


def data(name: object) -> dict[str, t.Any]:
    """The parsed file of a board; without MIG, only with the model, its names, and no profiles.

    ``name`` is a model, an alias, a PCI device id, or a product as nvidia-smi prints it, with or without the vendor. Case
    does not matter, and dashes are spaces.
    """
    if not isinstance(name, str):
        raise BoardError("a board cannot be %s: give a model, alias or PCI device id, such as A100-80GB" % short(name))
    plain = _plain(name)
    # Searching a file is a thousand times faster than parsing it.
    found = [_parsed(model) for model, text in _searchable().items() if plain and _bare(plain) in text]
    for board in found:
        if plain in map(_plain, (board["model"], *board["aliases"], *board["pci_device_ids"])):
            return board
    # The name of a product may begin the names of others: H100 is no certain board.
    sold = [board for board in found if any(_begins(product, plain) for product in _product_names(board))]
    if len(sold) == 1 and any(_is_product(product, plain) for product in _product_names(sold[0])):
        return sold[0]
    raise BoardError(
        "unknown board %r%s: use one of %s; or without MIG, %s"
        % (name[:60], _suggestion(plain), ", ".join(names()), ", ".join(_without_mig()))
    )


def _suggestion(plain: str) -> str:
    """The boards whose names consist of words of the unknown one, or begin like it; else the most similar one."""
    bare = _bare(plain)
    words = bare.split("-")
    models = [*names(), *_without_mig()]
    known = {_plain(name): name for model in models for name in (model, *_parsed(model)["aliases"])}
    tries: tuple[t.Callable[[], list[str]], ...] = (
        lambda: [plain for plain in known if set(plain.split("-")) <= set(words)],
        lambda: [plain for plain in known if plain.startswith(bare + "-")],
        lambda: nearest(bare, known, 0.9),
        lambda: [plain for plain in known if words[0][-1:].isdigit() and plain.startswith(words[0] + "-")],
        lambda: nearest(bare, known, 0.8),
    )
    near = next(filter(None, (each() for each in tries)), [])
    return did_you_mean([known[plain] for plain in near])


def _plain(name: str) -> str:
    return re.sub(r"[\s-]+", "-", name.strip().lower())


def _bare(plain: str) -> str:
    """The plain name of a product without its vendor."""
    return _VENDOR.sub("", plain)


def _product_names(board: dict[str, t.Any]) -> list[str]:
    return [product for products in board["pci_device_ids"].values() for product in products]


def _is_product(product: str, plain: str) -> bool:
    return _bare(_plain(product)) == _bare(plain)


def _begins(product: str, plain: str) -> bool:
    return (_bare(_plain(product)) + "-").startswith(_bare(plain) + "-")


def is_older(driver: str, minimum: str) -> bool:
    """Whether a driver is older than the minimum of a board. A branch means its newest driver."""
    given, needed = numbers(driver), numbers(minimum)
    return bool(given) and given < (needed[:1] if len(given) == 1 else needed)


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a driver's version; for the version of a package, without its revision."""
    out = []
    for part in version.split("-")[0].split("."):
        if not (part.isascii() and part.isdigit()):
            break
        out.append(int(part))
    return tuple(out)


def load(name: object) -> Board:
    """The board by any of its names; without MIG, without profiles. GeometryError if its placements are unknown."""
    return _board(data(name)["model"])


def products(name: str) -> list[tuple[int, str]]:
    """PCI device id and name of each product of the board; for a PCI device id or a product, only those."""
    ids: dict[str, list[str]] = data(name)["pci_device_ids"]
    sold = [(device, product) for device, products in ids.items() for product in products]
    plain = _plain(name)
    named = [each for each in sold if each[0].lower() == plain or _is_product(each[1], plain)]
    return [(int(device, 16), product) for device, product in named or sold]


@functools.cache
def _texts() -> dict[str, str]:
    """The board files by model."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.yml"))}


@functools.cache
def _without_mig() -> dict[str, dict[str, t.Any]]:
    """The boards without MIG by model, with the keys of a board file that apply to them."""
    found = t.cast("dict[str, dict[str, t.Any]]", yaml_load(_WITHOUT_MIG.read_text(encoding="utf-8")))
    return {model: {"model": model, "minimum_driver": None, "profiles": [], **found[model]} for model in sorted(found)}


@functools.cache
def _searchable() -> dict[str, str]:
    """The plain text that contains all names of a board, by model."""
    texts = {**_texts(), **{model: "%s %s" % (model, board) for model, board in _without_mig().items()}}
    return {model: _plain(text) for model, text in texts.items()}


@functools.cache
def _parsed(model: str) -> dict[str, t.Any]:
    return _without_mig().get(model) or _checked(model, yaml_load(_texts()[model]))


def _checked(model: str, board: dict[str, t.Any]) -> dict[str, t.Any]:
    known = {**FIELDS, **OPTIONAL}
    wrong = {*board} - {*known} | {*FIELDS} - {*board}
    wrong |= {name for name in {*board} & {*known} if not isinstance(board[name], known[name])}
    if wrong:
        raise BoardError("models/%s.yml has missing, unknown or invalid fields: %s" % (model, ", ".join(sorted(wrong))))
    return board


@functools.cache
def _board(model: str) -> Board:
    if model in _without_mig():
        return Board(model, (), 0, 0, 0)
    board = _parsed(model)
    incomplete = [row["name"] for row in board["profiles"] if row["placements"]["starts"] is None or row["id"] is None]
    if board["memory_units"] is None or incomplete:
        raise GeometryError(
            "the placements of %s are unknown (%s), so it can only be planned on a node, where the GPU reports them"
            % (model, ", ".join(incomplete))
        )
    return Board(
        model=model,
        profiles=tuple(_profile(row) for row in board["profiles"]),
        compute_slices=board["compute_slices"],
        memory_units=board["memory_units"],
        max_gpu_instances=board["max_gpu_instances"],
    )


def _profile(row: dict[str, t.Any]) -> Profile:
    """A profile from a board file. Unknown memory is derived from the name; unknown multiprocessors are 0."""
    memory = row["memory_mib"]
    return Profile(
        name=row["name"],
        id=row["id"],
        constant=row["constant"],
        slices=row["slices"],
        memory_mib=profile_names.parse(row["name"]).memory_gb * 1024 if memory is None else memory,
        multiprocessors=row["multiprocessors"] or 0,
        max_instances=row["max_instances"],
        placements=tuple(Placement(start, row["placements"]["size"]) for start in row["placements"]["starts"]),
    )
