# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Converging a node of which some GPUs tell their profiles only once MIG mode is on.

Nothing of the node is partitioned before all of it is planned: first the mode is switched on
where that is needed to plan, then everything is planned, and only then instances are touched.
If a GPU cannot be planned then, the modes are switched back and the rest stays as it is.
"""

from __future__ import annotations

import typing as t

from .converge import Outcome, converge
from .errors import MigError
from .model import Gpu, Target
from .operations import Plan
from .plan import plan

if t.TYPE_CHECKING:
    from .._driver.base import Driver
    from .planning import NodePlan


def bring(driver: Driver, node: NodePlan, reset: bool) -> t.Tuple[Outcome, ...]:
    """Carry out the plans of a node; outcomes in the order of the plans."""
    deferred = [item for item in node.plans if item.deferred]
    if not deferred:
        return converge(driver, node.plans, node.replan, reset)
    switched = {outcome.before.index: outcome for outcome in converge(driver, deferred, _mode_alone, reset)}
    plans: t.List[Plan] = []
    refused: t.Dict[int, str] = {}
    for item in node.plans:
        index = item.gpu.index
        first = switched.get(index)
        if first is None:
            plans.append(item)
        elif _switched(first):
            try:
                plans.append(node.replan(first.after))
            except MigError as error:
                refused[index] = str(error)
    if refused:
        return _called_off(driver, node.plans, switched, refused, reset)
    done = {outcome.before.index: outcome for outcome in converge(driver, plans, node.replan, reset)}
    failed = [done[index] for index in switched if index in done and done[index].error is not None]
    back = _switch_back(driver, [outcome.after for outcome in failed if not outcome.after.instances], reset)
    return tuple(_joined(switched.get(item.gpu.index), done.get(item.gpu.index), back) for item in node.plans)


def _mode_alone(gpu: Gpu) -> Plan:
    return plan(gpu, Target(True))


def _switched(first: Outcome) -> bool:
    return first.error is None and not first.reset_required and not first.reboot_required


def _switch_back(driver: Driver, gpus: t.Sequence[Gpu], reset: bool) -> t.Dict[int, Outcome]:
    plans = [plan(gpu, Target(False)) for gpu in gpus]
    return {outcome.before.index: outcome for outcome in converge(driver, plans, _mode_alone, reset)}


def _called_off(
    driver: Driver,
    plans: t.Sequence[Plan],
    switched: t.Mapping[int, Outcome],
    refused: t.Mapping[int, str],
    reset: bool,
) -> t.Tuple[Outcome, ...]:
    """Some GPU's part of the layout cannot be: nothing is partitioned, and the modes go back."""
    back = _switch_back(driver, [first.after for first in switched.values() if _switched(first)], reset)
    outcomes = []
    for item in plans:
        index = item.gpu.index
        first = switched.get(index, Outcome(item.gpu, item.gpu, item))
        error = refused.get(index, first.error)
        if index in refused or (index in back and not _off(back[index])):
            words = "MIG mode was switched on because only then the driver tells the profiles, and "
            words += "is off again" if _off(back[index]) else "stays on: %s" % _why(back[index])
            error = "%s. %s" % (error or "%s: the layout of another GPU is refused" % item.gpu.label, words)
        outcomes.append(_after(first, back.get(index))._replace(error=error))
    return tuple(outcomes)


def _joined(first: t.Optional[Outcome], second: t.Optional[Outcome], back: t.Mapping[int, Outcome]) -> Outcome:
    """One outcome of both stages."""
    if second is None:  # it did not get beyond its mode; and every plan has at least one of the two
        return t.cast(Outcome, first)
    if first is None:
        return second
    both = second._replace(before=first.before, performed=first.performed + second.performed)
    returned = back.get(second.before.index)
    if returned is None:
        return both
    both = _after(both, returned)
    return both if _off(returned) else both._replace(error="%s. MIG mode stays on: %s" % (both.error, _why(returned)))


def _after(outcome: Outcome, later: t.Optional[Outcome]) -> Outcome:
    if later is None:
        return outcome
    return outcome._replace(after=later.after, performed=outcome.performed + later.performed)


def _off(back: Outcome) -> bool:
    return not back.after.mode_current


def _why(back: Outcome) -> str:
    return back.error or back.notice or "the driver gave no reason"
