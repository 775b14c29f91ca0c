# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Boards with known geometry, for planning without a GPU."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ..module_utils._mig import profile as profile_names
from ..module_utils._mig.keys import short
from ..module_utils._mig.model import Board, Placement, Profile
from ._refusal import Refusal

_FOLDER = Path(__file__).with_name("boards")


class BoardError(Refusal):
    """The board is unknown, or its data is too incomplete for planning."""


class GeometryError(BoardError):
    """The board is known, but its placements are not."""


def names() -> list[str]:
    """The models, sorted."""
    return sorted(_texts())


def data(name: object) -> dict[str, t.Any]:
    """The parsed file of a board. ``name`` is a model, an alias or a PCI device id, case-insensitive."""
    if not isinstance(name, str):
        raise BoardError("a board cannot be %s: give a model, alias or PCI device id, such as A100-80GB" % short(name))
    wanted = name.strip().lower()
    for model, text in _texts().items():
        if wanted in text.lower():  # searching a file is a thousand times faster than parsing it
            board = _parsed(model)
            known = [board["model"], *board["aliases"], *board["pci_device_ids"]]
            if wanted in (candidate.lower() for candidate in known):
                return board
    raise BoardError("unknown board %r: use one of %s" % (name[:60], ", ".join(names())))


def load(name: object) -> Board:
    """The board by model, alias or PCI device id. Raises GeometryError if its placements are unknown."""
    return _board(data(name)["model"])


def products(name: str) -> list[tuple[int, str]]:
    """PCI device id and product name of each product of the board; for a PCI device id, only its products."""
    ids: dict[str, list[str]] = data(name)["pci_device_ids"]
    named = [device for device in ids if device.lower() == name.strip().lower()]
    return [(int(device, 16), product) for device in named or ids for product in ids[device]]


@functools.cache
def _texts() -> dict[str, str]:
    """The board files by model."""
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(_FOLDER.glob("*.yml"))}


@functools.cache
def _parsed(model: str) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml_load(_texts()[model]))


@functools.cache
def _board(model: str) -> Board:
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
