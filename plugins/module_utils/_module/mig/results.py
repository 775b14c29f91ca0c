# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Return values of the module, in the same format for plans (check mode) and outcomes."""

from __future__ import annotations

import typing as t

from ..._common.data import Data
from ..._mig import describe, render
from ..._mig.model import Process
from ..._mig.operations import DESTROY_CI, DESTROY_GI, RESET, SET_MODE

if t.TYPE_CHECKING:
    from ..._mig.converge import Outcome
    from ..._mig.errors import BusyError
    from ..._mig.model import Gpu
    from ..._mig.operations import Blocked, Plan
    from ..._mig.render import Row


# The most disruptive step of a change. Each includes those before it.
NONE = "none"
CREATE = "create"
DESTROY = "destroy"
MODE = "mode"
DISRUPTIONS = (NONE, CREATE, DESTROY, MODE)
_OF_KIND = {SET_MODE: MODE, RESET: MODE, DESTROY_CI: DESTROY, DESTROY_GI: DESTROY}


class GpuResult(t.NamedTuple):
    """The return values for one GPU."""

    gpu: Data
    operations: t.List[Data]
    before: Row
    after: Row
    unmatched: bool  # whether the GPU differs from the layout: for a plan before the change, for an outcome after it
    notice: t.Optional[str] = None  # why the GPU does not match the layout, if that is not a failure
    error: t.Optional[str] = None
    blocked: t.Sequence[Data] = ()  # the operations that processes block

    @property
    def pending(self) -> bool:
        """Whether processes that the driver lists are the reason of the notice."""
        return self.notice is not None and bool(self.gpu["clients"])


def planned_result(plan: Plan) -> GpuResult:
    """The expected result of the plan. Clients that the driver does not list are only detected when it is applied."""
    gpu, blocked = plan.gpu, plan.blocked
    operations = [describe.operation(gpu, operation) for operation in plan.operations]
    return GpuResult(
        gpu=_gpu(
            plan,
            gpu,
            gpu,
            bool(operations),
            kept=[describe.kept(gpu, item) for item in plan.kept] if blocked is None else describe.instances(gpu),
            created=[describe.created(item) for item in plan.created],
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


def busy_result(error: BusyError, planned: bool) -> GpuResult:
    """The result for a GPU that is left unchanged because processes use it.

    With ``planned`` it shows the change without these processes, else the actual state.
    """
    plan = error.plan
    change = planned_result(plan)
    shown = change
    if not planned:
        from ..._mig.converge import Outcome  # large, and loaded only if GPUs are changed

        shown = applied_result(Outcome(plan.gpu, plan.gpu, plan))
    return shown._replace(
        gpu=dict(shown.gpu, changed=False, clients=describe.clients(error.processes)),
        operations=[],
        unmatched=True,
        notice=str(error),
        blocked=change.operations,
    )


def _notice(gpu: Gpu, blocked: Blocked) -> str:
    from ..._mig import mode

    return mode.notice(gpu, blocked)


def applied_result(outcome: Outcome) -> GpuResult:
    """The actual result for the GPU."""
    before, after = describe.instances(outcome.before), describe.instances(outcome.after)
    had, has = set(map(_key, before)), set(map(_key, after))
    return GpuResult(
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


def merged_result(results: t.Sequence[GpuResult], backend: str, skip_busy: bool = False) -> Data:
    """The module's return values. With ``skip_busy``, a reset is not required for GPUs that are pending."""
    gpus = [result.gpu for result in results]
    pending = [result for result in results if result.pending]
    operations = [operation for result in results for operation in result.operations]
    blocked = [operation for result in results for operation in result.blocked]
    resets = [result for result in results if result.gpu["reset_required"]]
    diff = render.diff([result.before for result in results], [_after(result) for result in results])
    return {
        "changed": any(gpu["changed"] for gpu in gpus),
        "gpus": gpus,
        "uuids": {str(gpu["index"]): gpu["uuid"] for gpu in gpus},
        "operations": operations,
        "pending": [
            {
                "index": result.gpu["index"],
                "uuid": result.gpu["uuid"],
                "reason": result.notice,
                "clients": result.gpu["clients"],
            }
            for result in pending
        ],
        "disruption": MODE if resets else disruption(operations + blocked),
        "unmatched": [describe.gpu_name(result.gpu) for result in results if result.unmatched],
        "reset_required": any(not (skip_busy and result.pending) for result in resets),
        "reboot_required": any(gpu["reboot_required"] for gpu in gpus),
        "backend": backend,
        "diff": diff,
        "changed_lines": _changed_lines(diff["before"].splitlines(), diff["after"].splitlines()),
    }


def _changed_lines(before: t.Sequence[str], after: t.Sequence[str]) -> t.List[str]:
    return ["-" + line for line in before if line not in after] + ["+" + line for line in after if line not in before]


def _after(result: GpuResult) -> Row:
    if not result.pending:
        return result.after
    from ..._mig import messages  # only needed for processes

    clients = messages.processes(Process(**client) for client in result.gpu["clients"])
    return result.after._replace(remark="blocked by %s" % clients)


def disruption(operations: t.Iterable[Data]) -> str:
    return max((_OF_KIND.get(each["kind"], CREATE) for each in operations), key=DISRUPTIONS.index, default=NONE)


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
            "desired": plan.target.enabled,
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
