# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The plans of a whole node: of every GPU that the layout names, or one error with all that is against it."""

from __future__ import annotations

import typing as t

from .errors import BusyError, InfeasibleError, MigError
from .unchanged import unchanged

if t.TYPE_CHECKING:
    from .._driver.base import Driver
    from .layout import Layout, Request
    from .model import Gpu
    from .operations import Plan


class NodePlan(t.NamedTuple):
    """What is to be done on a node, in order of GPU index."""

    plans: t.Tuple[Plan, ...]
    requests: t.Mapping[int, Request]
    disturb: bool

    def replan(self, gpu: Gpu) -> Plan:
        """The plan of a GPU that told its profiles only after its MIG mode was on."""
        return _full_plan(gpu, self.requests[gpu.index], self.disturb)


def plan_node(driver: Driver, layout: Layout, disturb: bool) -> NodePlan:
    """Reads all GPUs and plans those that the layout names.

    Raises MigError with what every GPU has against it; BusyError where processes are all that is in the way.
    """
    driver.prefetch()
    gpus = [driver.read(index) for index in range(driver.count())]
    requests = layout.resolve(gpus)
    plans = []
    refused: t.List[t.Tuple[Gpu, MigError]] = []
    for gpu in gpus:
        if gpu.index in requests:
            try:
                plans.append(plan_gpu(gpu, requests[gpu.index], disturb))
            except MigError as error:
                refused.append((gpu, error))
    if refused:
        busy = all(isinstance(error, BusyError) for _gpu, error in refused)
        raise (BusyError if busy else MigError)(_together(refused))
    return NodePlan(tuple(plans), requests, disturb)


def plan_gpu(gpu: Gpu, request: Request, disturb: bool) -> Plan:
    """The plan of one GPU. Raises MigError where there is none."""
    if request.enabled and request.items and not gpu.profiles_known and not gpu.mode_current:
        from .plan import deferred_plan

        found = deferred_plan(gpu)
    else:
        found = _full_plan(gpu, request, disturb)
    _refuse_clients(gpu, found)
    return found


def _full_plan(gpu: Gpu, request: Request, disturb: bool) -> Plan:
    target = request.target(gpu.board)
    found = unchanged(gpu, target)
    if found is not None:
        return found
    from .plan import plan  # with its search the largest part of the engine that only changes need

    try:
        return plan(gpu, target, disturb)
    except InfeasibleError as error:
        raise InfeasibleError("%s, %s" % (request.where, error)) from None


def _refuse_clients(gpu: Gpu, found: Plan) -> None:
    """A GPU that needs no reset for a mode change does not make one either while somebody uses it."""
    clients = [process for process in gpu.processes if process.gi_id is None]
    if found.set_mode is not None and gpu.resetless and clients:
        from . import words

        raise BusyError(
            "%s: MIG mode cannot be switched %s while %s uses the GPU. Stop it and run again"
            % (gpu.label, "on" if found.set_mode else "off", words.processes(clients))
        )


def _together(refused: t.Sequence[t.Tuple[Gpu, MigError]]) -> str:
    """One line for each reason, and not for each of the GPUs that share it."""
    alike: t.Dict[str, t.List[Gpu]] = {}
    for gpu, error in refused:
        alike.setdefault(str(error).replace(gpu.label, "\0"), []).append(gpu)
    return "\n".join(text.replace("\0", _names(gpus)) for text, gpus in alike.items())


def _names(gpus: t.Sequence[Gpu]) -> str:
    if len(gpus) == 1:
        return gpus[0].label
    products = sorted({gpu.name for gpu in gpus})
    return "GPUs %s (%s)" % (", ".join(str(gpu.index) for gpu in gpus), ", ".join(products))
