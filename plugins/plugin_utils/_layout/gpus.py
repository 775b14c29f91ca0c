# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Convert the GPUs that filters receive (facts or board names) to the engine's types."""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import short
from ...module_utils._mig import instances
from ...module_utils._mig import profile as names
from ...module_utils._mig.board import ci_places
from ...module_utils._mig.compute import pack
from ...module_utils._mig.errors import InfeasibleError, LayoutError
from ...module_utils._mig.explain import refusal
from ...module_utils._mig.model import Board, ComputeInstance, Gpu, GpuInstance, Placement, Profile, Target
from . import boards

Fact = t.Mapping[str, t.Any]


class BoardGpu(Gpu):
    """A GPU of which only the board is known.

    UUID and PCI bus id are empty. The device id is 0 unless it was used to name the board, the subsystem id always.
    """

    @property
    def label(self) -> str:
        return "GPU %d (%s)" % (self.index, self.board.model)

    @property
    def kind(self) -> str:
        return self.board.model


class FactGpu(Gpu):
    """A GPU of the facts whose messages are the same on all nodes with such GPUs."""

    @property
    def label(self) -> str:
        return "GPU %d (%s)" % (self.index, self.name)


def is_fact(value: object) -> bool:
    """Whether this is a GPU of the facts."""
    return isinstance(value, dict) and isinstance(value.get("mig"), dict)


def target(mig_devices: object, board: Board) -> Target:
    """The target for ``mig_devices`` on a board. Raises InfeasibleError if the instances do not fit."""
    items = instances.parse(mig_devices)
    if not board.profiles:
        raise LayoutError("%s does not support MIG" % board.model)
    found = instances.resolve(items, board)
    why = refusal(board, found.instances)
    if why is not None:
        raise InfeasibleError("%s: %s" % (board.model, why))
    return found


def board_of(fact: Fact, name: str | None = None) -> Board:
    """The board of a GPU of the facts, by its PCI device id unless ``name`` is given."""
    if name is not None:
        return boards.load(name)
    device_id = fact.get("pci_device_id")
    if isinstance(device_id, str) and device_id:
        try:
            return boards.load(device_id)
        except boards.BoardError as error:
            raise LayoutError("%s: %s; set board to the closest match" % (_called(fact), error)) from None
    raise LayoutError("%s has no pci_device_id: set board to its board" % _called(fact))


def require_known(fact: Fact) -> None:
    """Raise LayoutError if the MIG mode or instances of a GPU of the facts could not be read."""
    index, mig = _index(fact), fact["mig"]
    why = fact.get("problem")
    if not why and mig.get("capable") is None:
        why = "the facts do not show whether it supports MIG"
    elif not why and mig["capable"] and (mig.get("current") is None or mig.get("instances") is None):
        why = "the facts have no %s" % ("MIG mode" if mig.get("current") is None else "instances")
    if why:
        identity = ", ".join(str(fact[key]) for key in ("uuid", "pci_bus_id", "name") if fact.get(key))
        raise LayoutError(
            "GPU %d (%s) cannot be used, because its MIG state is unknown: %s. Fix this and gather the facts again, "
            "or exclude the GPU" % (index, identity or "unknown", str(why).rstrip("."))
        )


def from_fact(fact: Fact, board: Board) -> Gpu:
    """A GPU of the facts. Without ``require_known``, mode None and no instances may mean unknown. An unknown id is 0."""
    mig = fact["mig"]
    return Gpu(
        index=_index(fact),
        uuid=str(fact.get("uuid") or ""),
        pci_bus_id=str(fact.get("pci_bus_id") or ""),
        name=str(fact.get("name") or ""),
        pci_device_id=_number(fact.get("pci_device_id")),
        pci_subsystem_id=_number(fact.get("pci_subsystem_id")),
        mig_capable=mig.get("capable") is not False,
        mode_current=mig.get("current"),
        mode_pending=mig.get("pending"),
        resetless=None,
        board=board,
        profiles_known=True,
        instances=from_instances(mig.get("instances") or [], board),
    )


def from_board(name: str, index: int = 0, current: tuple[GpuInstance, ...] | None = None) -> BoardGpu:
    """A hypothetical GPU of a board. MIG is on if ``current``, its instances, is given."""
    board = boards.load(name)
    devices = {device for device, _product in boards.products(name)}
    return BoardGpu(
        index=index,
        uuid="",
        pci_bus_id="",
        name=board.model,
        pci_device_id=devices.pop() if len(devices) == 1 else 0,
        pci_subsystem_id=0,
        mig_capable=bool(board.profiles),
        mode_current=current is not None if board.profiles else None,
        mode_pending=current is not None if board.profiles else None,
        resetless=None,
        board=board,
        profiles_known=True,
        instances=current or (),
    )


def from_either(values: object, board: str | None = None) -> list[Gpu]:
    """GPUs from a list of facts or of board names in order of index."""
    if not isinstance(values, list) or not values:
        raise LayoutError("gpus is %s: give ansible_facts.nvidia.gpus, or a list of board names" % short(values))
    out: list[Gpu] = []
    for index, value in enumerate(values):
        if isinstance(value, str):
            out.append(from_board(value, index))
        elif not is_fact(value):
            raise LayoutError(
                "item %d of gpus is neither a GPU of the facts nor the name of a board: "
                "give ansible_facts.nvidia.gpus, or names such as 'A100-80GB'" % (index + 1)
            )
        else:
            require_known(value)
            without = value["mig"].get("capable") is False
            out.append(
                from_fact(value, Board(str(value.get("name")), (), 0, 0, 0) if without else board_of(value, board))
            )
    return out


def from_instances(values: object, board: Board) -> tuple[GpuInstance, ...]:
    """GPU instances in the format of the facts. Ids default to the position, compute instances to a single one."""
    if not isinstance(values, (list, tuple)):
        raise LayoutError("the instances are %r: give a list, as in the facts' mig.instances" % (values,))
    out = []
    for position, value in enumerate(values):
        where = "instance %d" % (position + 1)
        if not isinstance(value, dict) or not isinstance(value.get("start"), int):
            raise LayoutError("%s needs profile and start, as in the facts' mig.instances, and is %r" % (where, value))
        profile = _profile(value.get("profile"), board, where)
        placement = next((p for p in profile.placements if p.start == value["start"]), None)
        if placement is None or value.get("size", placement.size) != placement.size:
            raise LayoutError(
                "%s: %s cannot be placed at %s:%s on %s; its placements are %s"
                % (
                    where,
                    profile.name,
                    value["start"],
                    value.get("size", "*"),
                    board.model,
                    ", ".join(str(place) for place in profile.placements),
                )
            )
        parts = value.get("compute_instances")
        if parts is None:
            parts = ({"slices": profile.slices},)
        inside = _compute(parts, profile, board, where)
        out.append(GpuInstance(value.get("id", position), profile.id, placement, inside))
    _no_overlap(out)
    return tuple(out)


def _compute(values: object, profile: Profile, board: Board, where: str) -> tuple[ComputeInstance, ...]:
    """Compute instances at the lowest possible placements, because the facts do not contain placements."""
    if not isinstance(values, (list, tuple)):
        raise LayoutError("%s: its compute_instances are %r: give a list, as in the facts" % (where, values))
    slices, reduced = [], []
    for value in values:
        size = value.get("slices") if isinstance(value, dict) else None
        name = names.parse(value["profile"]) if isinstance(value, dict) and "profile" in value else None
        if size is None and name is not None:
            size = name.compute or profile.slices
        if not isinstance(size, int):
            raise LayoutError("%s: a compute instance needs slices or profile, and is %r" % (where, value))
        slices.append(size)
        reduced.append(name is not None and instances.is_reduced(name, profile, board))
    places = pack(slices, (), ci_places(profile.slices))
    if places is None:
        raise LayoutError(
            "%s: %s cannot hold compute instances of %s slices at once"
            % (where, profile.name, ", ".join(str(size) for size in slices))
        )
    return tuple(
        ComputeInstance(value.get("id", position), size, size, place, value.get("uuid"), reduced=small)
        for position, (value, size, place, small) in enumerate(zip(values, slices, places, reduced))
    )


def _profile(name: object, board: Board, where: str) -> Profile:
    found = names.find(names.parse(name), board.profiles)
    if found is None:
        raise LayoutError(
            "%s: %s has no profile %s; it has %s"
            % (where, board.model, name, ", ".join(profile.name for profile in board.profiles))
        )
    return found


def _no_overlap(placed: t.Sequence[GpuInstance]) -> None:
    ordered: list[Placement] = sorted(one.placement for one in placed)
    for first, second in zip(ordered, ordered[1:]):
        if first.overlaps(second):
            raise LayoutError("the instances at %s and %s overlap, so they cannot both exist" % (first, second))


def _number(text: object) -> int:
    try:
        return int(str(text), 16)
    except ValueError:
        return 0


def _index(fact: Fact) -> int:
    index = fact.get("index")
    if not isinstance(index, int):
        raise LayoutError("%s has no index: the driver does not list it; exclude it" % _called(fact))
    return index


def _called(fact: Fact) -> str:
    index = fact.get("index")
    return "GPU %s (%s)" % (index if index is not None else fact.get("pci_bus_id"), fact.get("name") or "unknown")
