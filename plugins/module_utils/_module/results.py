# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the module returns: of a plan in check mode, of an outcome otherwise, in one shape."""

from __future__ import annotations

import typing as t

from .._mig import render
from .._mig.operations import DESTROY_CI, DESTROY_GI, SET_MODE, Operation
from .._mig.profile import compute_name
from . import describe

if t.TYPE_CHECKING:
    from .._mig.converge import Outcome
    from .._mig.model import Gpu, Process
    from .._mig.operations import Kept, Plan
    from .._mig.render import Row

Data = t.Dict[str, t.Any]


class Result(t.NamedTuple):
    """One GPU's part of what the module returns."""

    gpu: Data
    operations: t.List[Data]
    before: Row
    after: Row
    notice: t.Optional[str] = None  # why the GPU is not as wanted, where that is no failure
    error: t.Optional[str] = None


def of_plan(plan: Plan) -> Result:
    """What carrying out the plan would give, as far as the GPU lets itself be known beforehand."""
    blockers = _blockers(plan)
    if blockers:
        return _of_blocked(plan, blockers)
    operations = list(plan.operations)
    if plan.waiting:
        # Asked for again: nothing that is known stands in the way of it any more.
        gone = sum(operation.kind in (DESTROY_CI, DESTROY_GI) for operation in operations)
        operations.insert(gone, Operation(SET_MODE, enabled=_enabled(plan)))
    kept = [_kept(plan.gpu, item) for item in plan.kept]
    created = [
        describe.gpu_instance(
            item.wanted.profile.name,
            item.placement,
            None,
            [
                describe.compute_instance(compute_name(item.wanted.profile, slices), slices)
                for slices in item.wanted.slices
            ],
        )
        for item in plan.created
    ]
    destroyed = describe.instances(plan.gpu._replace(instances=plan.destroyed))
    return Result(
        gpu=_gpu(plan, plan.gpu, plan.gpu, bool(operations), kept, created, destroyed, deferred=plan.deferred),
        operations=[describe.operation(plan.gpu, operation) for operation in operations],
        before=render.row(plan.gpu),
        after=render.row_after(plan),
    )


def of_outcome(outcome: Outcome) -> Result:
    """What became of the GPU, whatever was planned."""
    before, after = describe.instances(outcome.before), describe.instances(outcome.after)
    had, has = set(map(_key, before)), set(map(_key, after))
    return Result(
        gpu=_gpu(
            outcome.plan,
            outcome.before,
            outcome.after,
            # What could not be put back, or not even be read, is not as it was.
            outcome.changed or outcome.restored is False,
            kept=[item for item in after if _key(item) in had],
            created=[item for item in after if _key(item) not in had],
            destroyed=[item for item in before if _key(item) not in has],
            reset_required=outcome.reset_required,
            reboot_required=outcome.reboot_required,
            clients=outcome.clients,
        ),
        operations=[describe.operation(outcome.before, operation) for operation in outcome.performed],
        before=render.row(outcome.before),
        after=render.row(outcome.after),
        notice=outcome.notice,
        error=outcome.error,
    )


def merged(results: t.Sequence[Result], driver: str) -> Data:
    """The module's return values."""
    gpus = [result.gpu for result in results]
    return {
        "changed": any(gpu["changed"] for gpu in gpus),
        "gpus": gpus,
        "operations": [operation for result in results for operation in result.operations],
        "reset_required": any(gpu["reset_required"] for gpu in gpus),
        "reboot_required": any(gpu["reboot_required"] for gpu in gpus),
        "driver": driver,
        "diff": render.diff([result.before for result in results], [result.after for result in results]),
    }


def _of_blocked(plan: Plan, blockers: t.Sequence[Process]) -> Result:
    """A mode change that only a reset makes, on a GPU in use: it can be asked for, and no more."""
    from .._mig import words

    enabled = _enabled(plan)
    # With instances on the GPU it is not even asked for.
    asked = plan.set_mode is not None and not plan.gpu.instances
    after = plan.gpu._replace(mode_pending=enabled) if asked else plan.gpu
    operations = [Operation(SET_MODE, enabled=enabled)] if asked else []
    return Result(
        gpu=_gpu(
            plan, plan.gpu, plan.gpu, asked, describe.instances(plan.gpu), [], [], reset_required=True, clients=blockers
        ),
        operations=[describe.operation(plan.gpu, operation) for operation in operations],
        before=render.row(plan.gpu),
        after=render.row(after),
        notice="%s: MIG mode can be switched %s only by a reset of the GPU, and %s uses it. Stop it and run again"
        % (plan.gpu.label, "on" if enabled else "off", words.processes(blockers)),
    )


def _blockers(plan: Plan) -> t.Tuple[Process, ...]:
    """Processes that keep a mode change of the plan from becoming active."""
    if (plan.set_mode is None and not plan.waiting) or plan.gpu.resetless:
        return ()
    return plan.gpu.processes


def _enabled(plan: Plan) -> bool:
    return plan.target is None or plan.target.enabled


def _kept(gpu: Gpu, item: Kept) -> Data:
    (found,) = describe.instances(gpu._replace(instances=(item.instance,)))
    staying = [ci for ci in found["compute_instances"] if ci["id"] in item.keep]
    coming = [
        describe.compute_instance(compute_name(item.wanted.profile, slices), slices) for slices in item.create
    ]
    return dict(found, compute_instances=staying + coming)


def _gpu(
    plan: Plan,
    before: Gpu,
    now: Gpu,
    changed: bool,
    kept: t.List[Data],
    created: t.List[Data],
    destroyed: t.List[Data],
    deferred: bool = False,
    reset_required: bool = False,
    reboot_required: bool = False,
    clients: t.Sequence[Process] = (),
) -> Data:
    return dict(
        describe.identity(before),
        mode={
            "before": before.mode_current,
            "wanted": _enabled(plan),
            "current": now.mode_current,
            "pending": now.mode_pending,
        },
        changed=changed,
        kept=kept,
        created=created,
        destroyed=destroyed,
        deferred=deferred,
        reset_required=reset_required,
        reboot_required=reboot_required,
        clients=[{"pid": process.pid, "name": process.name} for process in clients],
    )


def _key(instance: Data) -> t.Tuple[t.Any, ...]:
    return instance["id"], instance["profile"], instance["start"], instance["size"]
