# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read, plan and converge the GPUs: as many as possible, each in its own thread."""

from __future__ import annotations

import time
import typing as t

from .._backend import signals
from .._backend.remedies import remedy
from .._mig import codes, parallel, render, retry
from .._mig.backend import BackendError
from .._mig.errors import LayoutError, MigError
from .._mig.model import Gpu, LostGpu
from .._mig.plan_node import NodePlan, plan_request, read_gpu

if t.TYPE_CHECKING:
    from .._mig.backend import Backend
    from .._mig.converge import Outcome
    from .._mig.layout import Request
    from .._mig.operations import Plan
    from .limit import Limit
    from .report import Report
    from .settings import BootSettings

# A GPU that cannot be read within this time, or half of the remaining time, is not changed.
_READ_SECONDS = 60.0


def restore(backend: Backend, desired: BootSettings, check: bool, report: Report, limit: Limit) -> bool:
    """Plan and converge as many GPUs as possible; returns whether all GPUs of the layout match it."""
    found = _read_gpus(backend, limit)
    gpus = [gpu for gpu in found if isinstance(gpu, Gpu)]
    lost = [gpu for gpu in found if isinstance(gpu, LostGpu)]
    missing = _missing(desired, gpus, lost)
    layout = desired.layout.pinned(desired.gpus)
    good = not missing
    for one in lost:
        if layout.covering(one, gpus):
            report.error("GPU %d cannot be read, and is left unchanged: %s%s" % (one.index, one.error, _identity(one)))
            good = False
        else:
            report.info(
                "GPU %d cannot be read, and is not in the layout: %s%s" % (one.index, one.error, _identity(one))
            )
    for one in missing:
        report.error("%s %s" % (one.label, one.error))
    if not gpus:
        return False
    refused: t.List[LayoutError] = []
    requests = layout.resolve(gpus, lost + missing, refused.append)
    for error in refused:
        report.error("A part of the layout cannot be restored: %s" % error)
    plans, unplanned = _plan_gpus(gpus, requests, desired, report)
    good = good and not refused and not unplanned
    if check:
        checked = [_report_plan(plan, report) for plan in plans]  # a list, to report all of them
        return all(checked) and good
    node = NodePlan(tuple(plans), requests, desired.disturb, desired.reset)
    return _converge(backend, node, report, limit) and good


def _read_gpus(backend: Backend, limit: Limit) -> t.List[t.Union[Gpu, LostGpu]]:
    """Read all GPUs in parallel, so that one that hangs does not block the others."""
    number = retry.read(backend.count)
    backend.prefetch()
    done: t.Dict[int, t.Union[Gpu, LostGpu]] = {}

    def read(index: int) -> None:
        try:
            done[index] = read_gpu(backend, index)
        except Exception as error:
            done[index] = LostGpu(index, error)

    seconds = min(_READ_SECONDS, (limit.deadline - time.monotonic()) / 2)
    parallel.run(number, read, seconds)
    found = dict(done)
    limit.hanging = len(found) < number
    late = BackendError(
        codes.TIMEOUT, "reading the GPU", "no response after %.3g seconds" % seconds, remedy(codes.TIMEOUT)
    )
    return [found.get(index, LostGpu(index, late)) for index in range(number)]


def _missing(desired: BootSettings, gpus: t.Sequence[Gpu], lost: t.Sequence[LostGpu]) -> t.List[LostGpu]:
    """The GPUs that the role found for the layout and that are missing now."""
    known = {gpu.uuid for gpu in [*gpus, *(one.gpu for one in lost if one.gpu)]}
    why = MigError(
        "is not among the GPUs that can be read, and has no layout. Check lspci and dmesg; "
        "if it was replaced or removed, run the role gpufleet.node.nvidia_mig"
    )
    return [
        LostGpu(index, why, Gpu.missing(index, uuid))
        for index, uuid in sorted(desired.gpus.items())
        if uuid not in known
    ]


def _identity(lost: LostGpu) -> str:
    return "" if lost.gpu is None else " (%s, %s)" % (lost.gpu.uuid, lost.gpu.pci_bus_id)


def _plan_gpus(
    gpus: t.Sequence[Gpu], requests: t.Mapping[int, Request], desired: BootSettings, report: Report
) -> t.Tuple[t.List[Plan], t.List[Gpu]]:
    """The plans, and the GPUs of the layout that cannot be planned."""
    plans, unplanned = [], []
    for gpu in gpus:
        if gpu.index not in requests:
            _report_gpu(report.info, gpu, "not in the layout, unchanged")
            continue
        try:
            plans.append(plan_request(gpu, requests[gpu.index], desired.disturb, desired.reset))
        except MigError as error:
            _report_gpu(report.error, gpu, "left unchanged: %s" % error)
            unplanned.append(gpu)
    return plans, unplanned


def _converge(backend: Backend, node: NodePlan, report: Report, limit: Limit) -> bool:
    """Whether all plans were applied. If a GPU hangs, the process exits at the limit, after the others are done."""
    if not any(plan.changes or plan.blocked for plan in node.plans):
        for plan in node.plans:
            _report_gpu(report.info, plan.gpu, "already matches the layout")
        return True
    from .._mig.converge_node import converge_node  # large, and needed by few runs

    good: t.Dict[int, bool] = {}

    def run(index: int) -> None:
        plan = node.plans[index]
        try:
            (outcome,) = converge_node(backend, [plan], node.replan, node.reset)
            good[plan.gpu.index] = _report_outcome(outcome, report)
        except Exception as error:
            _report_gpu(report.error, plan.gpu, "FAILED: internal error: %r" % error)
        finally:
            del limit.converging[plan.gpu.index]

    limit.converging.update((plan.gpu.index, plan.gpu) for plan in node.plans)
    with signals.deferred() as ending:
        parallel.run(len(node.plans), run)
        if ending.received:
            report.warning("Received %s during the change, which was not interrupted" % ", ".join(ending.received))
    return len(good) == len(node.plans) and all(good.values())


def _report_plan(plan: Plan, report: Report) -> bool:
    good = not plan.changes and not plan.blocked
    if good:
        _report_gpu(report.info, plan.gpu, "matches the layout")
    else:
        _report_gpu(report.warning, plan.gpu, "would change to %s" % render.draw([render.row_after(plan)]).strip())
    return good


def _report_outcome(outcome: Outcome, report: Report) -> bool:
    if outcome.error is not None:
        _report_gpu(report.error, outcome.after, "FAILED: %s" % outcome.error)
        return False
    if outcome.reset_required or outcome.reboot_required:
        _report_gpu(report.error, outcome.after, "does not match the layout yet: %s" % outcome.notice)
        return False
    _report_gpu(report.info, outcome.after, "restored" if outcome.changed else "already matches the layout")
    return True


def _report_gpu(say: t.Callable[[str], None], gpu: Gpu, text: str) -> None:
    say("%s  %s" % (render.draw([render.row(gpu)]).strip(), text))
