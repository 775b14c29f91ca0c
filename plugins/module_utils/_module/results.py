# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Return values of the module, in the same format for plans (check mode) and outcomes."""

from __future__ import annotations

import typing as t

from .._mig import render
from .._mig.operations import DESTROY_CI, DESTROY_GI, RESET, SET_MODE
from .._mig.profile import compute_name
from . import describe

if t.TYPE_CHECKING:
    from .._mig.converge import Outcome
    from .._mig.model import Gpu, Process
    from .._mig.operations import Blocked, Kept, Plan
    from .._mig.render import Row

Data = t.Dict[str, t.Any]

# The most disruptive step of a change. Each includes those before it.
NONE = "none"
CREATE = "create"
DESTROY = "destroy"
MODE = "mode"
DISRUPTIONS = (NONE, CREATE, DESTROY, MODE)
_OF_KIND = {SET_MODE: MODE, RESET: MODE, DESTROY_CI: DESTROY, DESTROY_GI: DESTROY}


class Result(t.NamedTuple):
    """The return values for one GPU."""

    gpu: Data
    operations: t.List[Data]
    before: Row
    after: Row
    unmatched: bool  # whether the GPU differs from the layout: for a plan before the change, for an outcome after it
    notice: t.Optional[str] = None  # why the GPU does not match the layout, if that is not a failure
    error: t.Optional[str] = None


def of_plan(plan: Plan) -> Result:
    """The expected result of the plan. Clients that the driver does not list are only detected when it is applied."""
    gpu, blocked = plan.gpu, plan.blocked
    operations = [describe.operation(gpu, operation) for operation in plan.operations]
    created = [
        describe.gpu_instance(
            item.wanted.profile.name,
            item.placement,
            None,
            [
                describe.compute_instance(compute_name(item.wanted.profile, slices, item.wanted.reduced), slices)
                for slices in item.wanted.slices
            ],
        )
        for item in plan.created
    ]
    return Result(
        gpu=_gpu(
            plan,
            gpu,
            gpu,
            bool(operations),
            kept=[kept(gpu, item) for item in plan.kept] if blocked is None else describe.instances(gpu),
            created=created,
            destroyed=describe.instances(gpu._replace(instances=plan.destroyed)),
            deferred=plan.deferred,
            reset_required=blocked is not None,
            clients=() if blocked is None else blocked.clients,
        ),
        operations=operations,
        before=render.row(gpu),
        after=render.row_after(plan),
        unmatched=bool(operations) or blocked is not None,
        notice=None if blocked is None else _notice(gpu, blocked),
    )


def _notice(gpu: Gpu, blocked: Blocked) -> str:
    from .._mig import mode

    return mode.notice(gpu, blocked)


def of_outcome(outcome: Outcome) -> Result:
    """The actual result for the GPU."""
    before, after = describe.instances(outcome.before), describe.instances(outcome.after)
    had, has = set(map(_key, before)), set(map(_key, after))
    return Result(
        gpu=_gpu(
            outcome.plan,
            outcome.before,
            outcome.after,
            # Failed to restore, or to read: the GPU counts as changed.
            outcome.changed or outcome.restored is False,
            kept=[item for item in after if _key(item) in had],
            created=[item for item in after if _key(item) not in had],
            destroyed=[item for item in before if _key(item) not in has],
            reset_required=outcome.reset_required,
            reboot_required=outcome.reboot_required,
            clients=outcome.clients,
            retries=[
                dict(describe.operation(outcome.before, retry.operation), error=retry.error)
                for retry in outcome.retries
            ],
            error=outcome.error,
        ),
        operations=[describe.operation(outcome.before, operation) for operation in outcome.performed],
        before=render.row(outcome.before),
        after=render.row(outcome.after),
        unmatched=outcome.unmatched,
        notice=outcome.notice,
        error=outcome.error,
    )


def merged(results: t.Sequence[Result], backend: str) -> Data:
    """The module's return values."""
    gpus = [result.gpu for result in results]
    operations = [operation for result in results for operation in result.operations]
    reset_required = any(gpu["reset_required"] for gpu in gpus)
    return {
        "changed": any(gpu["changed"] for gpu in gpus),
        "gpus": gpus,
        "operations": operations,
        "disruption": MODE if reset_required else disruption(operations),
        "unmatched": [describe.name(result.gpu) for result in results if result.unmatched],
        "reset_required": reset_required,
        "reboot_required": any(gpu["reboot_required"] for gpu in gpus),
        "backend": backend,
        "diff": render.diff([result.before for result in results], [result.after for result in results]),
    }


def disruption(operations: t.Iterable[Data]) -> str:
    return max((_OF_KIND.get(each["kind"], CREATE) for each in operations), key=DISRUPTIONS.index, default=NONE)


def kept(gpu: Gpu, item: Kept) -> Data:
    """A GPU instance after the change."""
    (found,) = describe.instances(gpu._replace(instances=(item.instance,)))
    staying = [ci for ci in found["compute_instances"] if ci["id"] in item.keep]
    coming = [
        describe.compute_instance(compute_name(item.wanted.profile, slices, item.wanted.reduced), slices)
        for slices in item.create
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
    retries: t.Sequence[Data] = (),
    error: t.Optional[str] = None,
) -> Data:
    return dict(
        describe.identity(before),
        mode={
            "before": before.mode_current,
            "wanted": plan.target.enabled,
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
        clients=describe.clients(clients),
        retries=list(retries),
        error=error,
    )


def _key(instance: Data) -> t.Tuple[t.Any, ...]:
    return instance["id"], instance["profile"], instance["start"], instance["size"]
