# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The boards whose geometry is known, for planning where there is no GPU to ask."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import yaml

from ..module_utils._mig import profile as profile_names
from ..module_utils._mig.keys import short
from ..module_utils._mig.model import Board, Placement, Profile
from ._refusal import Refusal

_FOLDER = Path(__file__).with_name("boards")
# That of libyaml is ten times as fast, and each task of Ansible's reads the files anew.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BoardError(Refusal):
    """No such board, or too little is known of it to plan on it."""


class GeometryError(BoardError):
    """The board is known, and its placements are not."""


def names() -> list[str]:
    """The models, sorted."""
    return sorted(_texts())


def data(name: object) -> dict[str, t.Any]:
    """A board's file as it is. ``name`` is a model, an alias or a PCI device id, in any case."""
    if not isinstance(name, str):
        raise BoardError("a board cannot be %s: give a model, alias or PCI device id, such as A100-80GB" % short(name))
    wanted = name.strip().lower()
    for model, text in _texts().items():
        if wanted in text.lower():  # to search a file takes a thousandth of what it takes to parse it
            board = _parsed(model)
            known = [board["model"], *board["aliases"], *board["pci_device_ids"]]
            if wanted in (candidate.lower() for candidate in known):
                return board
    raise BoardError("no board is called %r; the boards known are %s" % (name[:60], ", ".join(names())))


def load(name: object) -> Board:
    """A board to plan on, by model, alias or PCI device id."""
    return _board(data(name)["model"])


def products(name: str) -> list[tuple[int, str]]:
    """PCI device id and product name of each product that is this board; of an id, the products that have it."""
    ids: dict[str, list[str]] = data(name)["pci_device_ids"]
    named = [device for device in ids if device.lower() == name.strip().lower()]
    return [(int(device, 16), product) for device in named or ids for product in ids[device]]


@functools.cache
def _texts() -> dict[str, str]:
    """The files, which have the names of their models."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.yml"))}


@functools.cache
def _parsed(model: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml.load(_texts()[model], Loader=_LOADER))


@functools.cache
def _board(model: str) -> Board:
    board = _parsed(model)
    incomplete = [row["name"] for row in board["profiles"] if row["placements"]["starts"] is None or row["id"] is None]
    if board["memory_units"] is None or incomplete:
        raise GeometryError(
            "the placements of %s are not known (%s), so nothing can be planned on it away from a GPU; "
            "on a node the GPU itself tells them" % (model, ", ".join(incomplete))
        )
    return Board(
        model=model,
        profiles=tuple(_profile(row) for row in board["profiles"]),
        compute_slices=board["compute_slices"],
        memory_units=board["memory_units"],
        max_gpu_instances=board["max_gpu_instances"],
    )


def _profile(row: dict[str, t.Any]) -> Profile:
    """A row of a board file. Where nobody has seen the memory, the name's stands in; multiprocessors unknown are 0."""
    memory = row["memory_mib"]
    media = row["media"]
    return Profile(
        name=row["name"],
        id=row["id"],
        constant=row["constant"],
        slices=row["slices"],
        memory_mib=profile_names.parse(row["name"]).memory_gb * 1024 if memory is None else memory,
        multiprocessors=row["multiprocessors"] or 0,
        max_instances=row["max_instances"],
        placements=tuple(Placement(start, row["placements"]["size"]) for start in row["placements"]["starts"]),
        copy_engines=row["copy_engines"],
        decoders=media["dec"],
        encoders=media["enc"],
        jpeg=media["jpeg"],
        ofa=media["ofa"],
    )
