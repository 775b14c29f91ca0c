# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boards, GPUs and layouts for the planner's tests, and a strict simulator that executes plans."""

from __future__ import annotations

import functools
import itertools
import typing as t
from pathlib import Path

import yaml

from ansible_collections.gpufleet.node.plugins.module_utils._mig import operations as ops
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import (
    WHOLE,
    Board,
    ComputeInstance,
    DesiredInstance,
    Gpu,
    GpuInstance,
    Placement,
    Process,
    Profile,
    Target,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.brute_force import legal

REDUCED = "1c."  # in front of 1g.20gb: its compute instance of the kind with fewer multiprocessors
_BOARDS = Path(__file__).parents[5] / "plugins" / "plugin_utils" / "_layout" / "models"
# Possible starts of compute instances by slices, for GPU instances by slices; independent of the code under test.
_CI_STARTS = {
    (1, 1): [0],
    (2, 1): [0, 1],
    (2, 2): [0],
    (3, 1): [0, 1, 2],
    (3, 2): [0],
    (3, 3): [0],
    (4, 1): [0, 1, 2, 3],
    (4, 2): [0, 2],
    (4, 4): [0],
    (7, 1): [0, 1, 2, 3, 4, 5, 6],
    (7, 2): [0, 2, 4],
    (7, 3): [0, 4],
    (7, 4): [0],
    (7, 7): [0],
}


def board_file(model: str) -> t.Dict[str, t.Any]:
    """The data of a board. Controllers read it with _layout/boards.py, which needs a later Python than nodes have."""
    return t.cast("t.Dict[str, t.Any]", yaml.safe_load((_BOARDS / (model + ".yml")).read_text(encoding="utf-8")))


@functools.lru_cache(maxsize=None)
def board(model: str) -> Board:
    data = board_file(model)
    profiles = []
    for row in data["profiles"]:
        places = tuple(Placement(start, row["placements"]["size"]) for start in row["placements"]["starts"])
        profiles.append(
            Profile(
                row["name"],
                row["id"],
                row["constant"],
                row["slices"],
                row["memory_mib"] or 0,
                row["multiprocessors"] or 0,
                row["max_instances"],
                places,
            )
        )
    return Board(
        data["model"], tuple(profiles), data["compute_slices"], data["memory_units"], data["max_gpu_instances"]
    )


def models() -> t.List[str]:
    """Boards whose placements are known."""
    out = []
    for path in sorted(_BOARDS.glob("*.yml")):
        rows = yaml.safe_load(path.read_text(encoding="utf-8"))["profiles"]
        if all(row["placements"]["starts"] is not None and row["id"] is not None for row in rows):
            out.append(path.stem)
    return out


def profile(on: Board, name: str) -> Profile:
    return next(candidate for candidate in on.profiles if candidate.name == name)


def want(on: Board, *specs: str) -> Target:
    """A target from texts like ``3g.40gb``, ``3g.40gb@4`` (pinned), ``3g.40gb=2+1`` (compute instances).

    ``1c.1g.20gb`` is a whole one of the reduced kind.
    """
    out = []
    for spec in specs:
        spec, _equals, slices = spec.partition("=")
        name, _at, start = spec.partition("@")
        out.append(
            DesiredInstance(
                profile(on, name[len(REDUCED) :] if name.startswith(REDUCED) else name),
                int(start) if start else None,
                tuple(int(part) for part in slices.split("+")) if slices else WHOLE,
                name.startswith(REDUCED),
            )
        )
    return Target(True, tuple(out))


def gi_id(place: Placement) -> int:
    """As on hardware, a GPU instance's ID depends on its placement."""
    return place.start * 16 + place.size


def instance(on: Board, spec: str) -> GpuInstance:
    """An instance that exists: ``3g.40gb@4`` (with one whole compute instance), ``...=1@0+1@2``, ``...=`` (none).

    ``1c.1g.20gb@4`` has a whole one of the reduced kind.
    """
    reduced = spec.startswith(REDUCED)
    spec = spec[len(REDUCED) :] if reduced else spec
    spec, equals, slices = spec.partition("=")
    name, _at, start = spec.partition("@")
    of = profile(on, name)
    place = next(place for place in of.placements if place.start == int(start))
    parts = slices.split("+") if slices else [] if equals else ["%d@0" % of.slices]
    cis = []
    for number, part in enumerate(parts):
        size, _at, ci_start = part.partition("@")
        place_inside = Placement(int(ci_start), int(size)) if ci_start else None
        cis.append(ComputeInstance(number, 0, int(size), place_inside, reduced=reduced))
    return GpuInstance(gi_id(place), of.id, place, tuple(cis))


def gpu(on: Board, *specs: str, busy: t.Sequence[t.Tuple[int, t.Optional[int]]] = (), **fields: t.Any) -> Gpu:
    """A GPU with these instances; ``busy`` are (start of the GPU instance, compute instance id or None)."""
    instances = tuple(instance(on, spec) for spec in specs)
    processes = []
    for number, (start, ci_id) in enumerate(busy):
        user = next(gi for gi in instances if gi.placement.start == start)
        processes.append(Process(1000 + number, "train", user.id, ci_id))
    values: t.Dict[str, t.Any] = {
        "index": 0,
        "uuid": "GPU-0",
        "pci_bus_id": "00000000:01:00.0",
        "name": "NVIDIA " + on.model,
        "pci_device_id": 0x20B210DE,
        "pci_subsystem_id": 0x147F10DE,
        "mig_capable": True,
        "mode_current": True,
        "mode_pending": True,
        "resetless": False,
        "board": on,
        "profiles_known": True,
        "instances": instances,
        "processes": tuple(processes),
    }
    values.update(fields)
    return Gpu(**values)


def holds(of: Gpu) -> t.List[t.Tuple[str, int, t.Tuple[int, ...]]]:
    """The instances of a GPU: profile, start and compute slices (descending) of each."""
    return sorted(
        (
            of.profile(gi.profile_id).name,
            gi.placement.start,
            tuple(sorted((ci.slices for ci in gi.compute_instances), reverse=True)),
        )
        for gi in of.instances
    )


class Refused(Exception):
    """An operation that hardware would refuse."""


def carry_out(plan: ops.Plan) -> Gpu:
    """The GPU after a plan, operation by operation, as strict as hardware."""
    before = plan.gpu
    state = {gi.placement: gi for gi in before.instances}
    mode = before.mode_current
    todo = list(plan.operations)
    for number, op in enumerate(todo):
        if op.kind == ops.SET_MODE:
            if state:
                raise Refused("mode change with instances")
            mode = op.enabled
            continue
        if op.placement is None or op.profile is None:
            raise Refused("no placement or profile: %s" % (op,))
        if op.kind == ops.CREATE_GI:
            _check_new(before, mode, state, op.profile, op.placement)
            state[op.placement] = GpuInstance(gi_id(op.placement), op.profile.id, op.placement)
            continue
        gi = state[op.placement]
        if gi.profile_id != op.profile.id or op.gi_id not in (None, gi.id):
            raise Refused("another instance lies there: %s" % (op,))
        if op.kind == ops.DESTROY_GI:
            if gi.compute_instances:
                raise Refused("in use: %s" % (op,))
            del state[op.placement]
        elif op.kind == ops.DESTROY_CI:
            left = tuple(ci for ci in gi.compute_instances if ci.id != op.ci_id)
            if len(left) == len(gi.compute_instances):
                raise Refused("not found: %s" % (op,))
            state[op.placement] = gi._replace(compute_instances=left)
        elif op.kind == ops.CREATE_CI:
            rest = [later.slices or 0 for later in todo[number:] if _creates_ci(later, op.placement)]
            state[op.placement] = gi._replace(compute_instances=_add_ci(gi, op.profile, rest, op.reduced))
    after = tuple(sorted(state.values(), key=lambda gi: gi.id))
    return before._replace(mode_current=mode, mode_pending=mode, instances=after)


def _creates_ci(op: ops.Operation, place: t.Optional[Placement]) -> bool:
    return op.kind == ops.CREATE_CI and op.placement == place


def _check_new(
    before: Gpu, mode: t.Optional[bool], state: t.Dict[Placement, GpuInstance], new: Profile, place: Placement
) -> None:
    if not mode:
        raise Refused("MIG mode is off")
    if place not in new.placements:
        raise Refused("%s cannot lie at %s" % (new.name, place))
    for other in state:
        if set(range(place.start, place.start + place.size)) & set(range(other.start, other.start + other.size)):
            raise Refused("%s at %s overlaps %s" % (new.name, place, other))
    if not legal(before.board, [before.profile(gi.profile_id) for gi in state.values()] + [new]):
        raise Refused("insufficient resources for %s" % new.name)


def _add_ci(gi: GpuInstance, of: Profile, rest: t.Sequence[int], reduced: bool) -> t.Tuple[ComputeInstance, ...]:
    """The compute instances with the first of ``rest`` added, if it leaves space for the others."""
    starts = ci_starts(of, gi.compute_instances, rest)
    if starts is None:
        raise Refused("no space for compute instances %s in %s" % (rest, gi))
    new_id = next(n for n in itertools.count() if n not in {ci.id for ci in gi.compute_instances})
    new = ComputeInstance(new_id, 0, rest[0], Placement(starts[0], rest[0]), reduced=reduced)
    return tuple(sorted(gi.compute_instances + (new,), key=lambda ci: ci.id))


def ci_starts(
    of: Profile, present: t.Iterable[ComputeInstance], sizes: t.Sequence[int]
) -> t.Optional[t.Tuple[int, ...]]:
    """Starts for compute instances of these sizes next to the existing ones, by brute force; None if impossible."""
    used = {unit for ci in present if ci.placement for unit in _units(ci.placement)}
    for starts in itertools.product(*(_CI_STARTS[of.slices, size] for size in sizes)):
        units = [unit for start, size in zip(starts, sizes) for unit in range(start, start + size)]
        if len(set(units)) == len(units) and not used & set(units):
            return starts
    return None


def _units(place: Placement) -> t.Set[int]:
    return set(range(place.start, place.start + place.size))
