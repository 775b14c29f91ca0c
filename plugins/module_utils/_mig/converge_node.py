# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Converge a node whose GPUs cannot all be planned completely in advance.

Some drivers list profiles only while MIG mode is on, so the mode must be switched first. No GPU of the node is
partitioned before all of them are planned: first the modes are switched, then everything is planned, and then instances
are written. If the layout of a GPU is rejected at that point, the modes are switched off again, and nothing else
changes.
"""

from __future__ import annotations

import typing as t

from .converge import Outcome, converge
from .errors import BusyError, MigError
from .model import Gpu, Target
from .operations import Plan
from .plan import plan_gpu

if t.TYPE_CHECKING:
    from .backend import Backend

Replan = t.Callable[[Gpu], Plan]


def converge_node(
    backend: Backend, plans: t.Sequence[Plan], replan: Replan, reset: bool = False
) -> t.Tuple[Outcome, ...]:
    """Apply the plans of a node; outcomes in the order of the plans.

    ``replan`` plans a GPU again after its MIG mode has changed, if its first plan only changed the mode.
    """
    modes = [item for item in plans if item.mode_only]
    switched = {outcome.before.index: outcome for outcome in converge(backend, modes, reset)}
    work: t.List[Plan] = []
    refused: t.Dict[int, str] = {}
    for item in plans:
        index = item.gpu.index
        first = switched.get(index)
        if first is None:
            work.append(item)
        elif _active(first):
            try:
                work.append(replan(first.after))
            except MigError as error:
                refused[index] = str(error)
    if refused:
        return _cancelled(backend, plans, switched, refused, reset)
    done = {outcome.before.index: outcome for outcome in converge(backend, work, reset)}
    failed = [done[index] for index in switched if index in done and done[index].error is not None]
    back = _switch_off(backend, [outcome for outcome in failed if not outcome.after.instances], reset)
    return tuple(_combined(switched.get(item.gpu.index), done.get(item.gpu.index), back) for item in plans)


def _active(first: Outcome) -> bool:
    return first.error is None and not first.reset_required and not first.reboot_required


def _switch_off(backend: Backend, outcomes: t.Sequence[Outcome], reset: bool) -> t.Dict[int, Outcome]:
    """Switch MIG mode off where it is on. A GPU that a process has begun to use keeps it, and has an error."""
    plans: t.List[Plan] = []
    back: t.Dict[int, Outcome] = {}
    for outcome in outcomes:
        gpu = outcome.after
        if not gpu.mode_current:
            continue
        try:
            plans.append(plan_gpu(gpu, Target(False), reset=reset))
        except BusyError as error:
            back[gpu.index] = Outcome(gpu, gpu, error.plan, error=str(error), read=outcome.read)
    back.update((outcome.before.index, outcome) for outcome in converge(backend, plans, reset))
    return back


def _cancelled(
    backend: Backend,
    plans: t.Sequence[Plan],
    switched: t.Mapping[int, Outcome],
    refused: t.Mapping[int, str],
    reset: bool,
) -> t.Tuple[Outcome, ...]:
    """The layout of a GPU is rejected: nothing is partitioned, and the modes are switched off again."""
    back = _switch_off(backend, [first for first in switched.values() if _active(first)], reset)
    outcomes = []
    for item in plans:
        index = item.gpu.index
        first = switched.get(index, Outcome(item.gpu, item.gpu, item))
        error = refused.get(index, first.error)
        if index in refused or (index in back and not _off(back[index])):
            state = "is off again" if _off(back[index]) else "stays on: %s" % _why(back[index])
            error = "%s. MIG mode was switched on because the driver lists profiles only then, and %s" % (
                error or "%s: the layout of another GPU is rejected" % item.gpu.label,
                state,
            )
        notice = first.notice
        if error is None and notice is None and item.changes:
            notice = "%s is unchanged, because the layout of another GPU is rejected" % item.gpu.label
        outcomes.append(_followed_by(first, back.get(index))._replace(error=error, notice=notice))
    return tuple(outcomes)


def _combined(first: t.Optional[Outcome], second: t.Optional[Outcome], back: t.Mapping[int, Outcome]) -> Outcome:
    """The combined outcome of both stages."""
    if second is None:  # only the mode was changed; every plan has at least one of the two
        return t.cast(Outcome, first)
    if first is None:
        return second
    both = second._replace(
        before=first.before, performed=first.performed + second.performed, retries=first.retries + second.retries
    )
    returned = back.get(second.before.index)
    if returned is None:
        return both
    both = _followed_by(both, returned)
    return both if _off(returned) else both._replace(error="%s. MIG mode stays on: %s" % (both.error, _why(returned)))


def _followed_by(outcome: Outcome, later: t.Optional[Outcome]) -> Outcome:
    if later is None:
        return outcome
    return outcome._replace(
        after=later.after,
        performed=outcome.performed + later.performed,
        retries=outcome.retries + later.retries,
        read=later.read,
    )


def _off(back: Outcome) -> bool:
    return not back.after.mode_current


def _why(back: Outcome) -> str:
    return back.error or back.notice or "the driver gave no reason"
