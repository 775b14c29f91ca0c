# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Restore the MIG layout of the GPUs at boot, without Ansible.

Uses the same engine and rules as the module, with one difference: a GPU that is missing, lost,
hangs or cannot get its layout does not block the others, because no operator is present at boot.
Each GPU is read and converged in its own thread. The command controls no services, and exits
when its time limit expires.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
import typing as t

from .._backend import lock, select, signals
from .._backend.remedies import remedy
from .._mig import codes, parallel, render, retry
from .._mig.backend import BackendError
from .._mig.errors import LayoutError, MigError
from .._mig.model import Board, Gpu, LostGpu
from .._mig.plan_node import NodePlan, plan_gpu, read_gpu
from . import access, settings
from .report import Report

if t.TYPE_CHECKING:
    from .._mig.backend import Backend
    from .._mig.converge import Outcome
    from .._mig.layout import Request
    from .._mig.operations import Plan
    from .settings import BootSettings

# Exit statuses.
RESTORED, NOT_RESTORED, INVALID_SETTINGS, NO_DRIVER = 0, 1, 2, 3

_POLL_SECONDS = 1.0
# A GPU that cannot be read within this time, or half of the remaining time, is not changed.
_READ_SECONDS = 60.0
# Errors that waiting cannot resolve.
_PERMANENT_ERRORS = (codes.NO_PERMISSION, codes.LIB_RM_VERSION_MISMATCH)
_RETRY_REMEDY = "Then run gpufleet-mig-restore, or restart gpufleet-mig-restore.service"


def main(arguments: t.Optional[t.Sequence[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    report = Report()
    try:
        desired = settings.read(options.settings)
    except settings.SettingsError as error:
        report.error("Nothing is restored: %s" % error)
        return INVALID_SETTINGS
    with _limited(desired.time_limit, report) as limit:
        if options.access_only:
            return RESTORED if _grant(desired, report) else NOT_RESTORED
        status = _locked(desired, options.check, report, limit)
    if limit.hanging:
        os._exit(status)  # a regular exit would wait for the driver
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpufleet-mig-restore",
        description="Restore the MIG layout that the role gpufleet.node.nvidia_mig configured for this node.",
        epilog="Exit status: %d layout restored, %d not restored, %d the settings are invalid, %d the driver is not up."
        % (RESTORED, NOT_RESTORED, INVALID_SETTINGS, NO_DRIVER),
    )
    parser.add_argument("--settings", default=settings.DEFAULT_PATH, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if changes are needed")
    parser.add_argument("--access-only", action="store_true", help="only grant the group of the settings access to MIG")
    return parser


class _Limit:
    """The deadline, and the operations in progress."""

    def __init__(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self.converging: t.Dict[int, Gpu] = {}
        self.hanging = False  # a thread has not returned from the driver


@contextlib.contextmanager
def _limited(seconds: float, report: Report) -> t.Iterator[_Limit]:
    """Exit the process when the time limit expires, even if a driver call hangs."""
    limit = _Limit(seconds)

    def expire() -> None:
        for gpu in list(limit.converging.values()):
            report.error("%s does not respond, and may be partially configured" % gpu.label)
        report.error(
            "Not done after %g seconds: the driver or a GPU does not respond. GPUs may be partially configured. "
            "Check dmesg and nvidia-smi. %s: existing instances are kept, missing ones are created"
            % (seconds, _RETRY_REMEDY)
        )
        os._exit(NOT_RESTORED)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield limit
    finally:
        timer.cancel()


def _locked(desired: BootSettings, check: bool, report: Report, limit: _Limit) -> int:
    try:
        with lock.locked(
            desired.lock_path, desired.lock_wait, create=not check, command="gpufleet-mig-restore", progress=report.info
        ):
            return _restore(desired, check, report, limit)
    except lock.LockError as error:
        report.error("Nothing is restored: %s" % error)
        return NOT_RESTORED


def _restore(desired: BootSettings, check: bool, report: Report, limit: _Limit) -> int:
    try:
        backend = _open_backend(desired, report)
    except BackendError as error:
        report.error("The NVIDIA driver is not up, so the GPUs are left unchanged: %s. %s" % (error, _RETRY_REMEDY))
        return NO_DRIVER
    try:
        # First, so that a GPU that hangs does not prevent it.
        granted = check or _grant(desired, report)
        good = _restore_gpus(backend, desired, check, report, limit) and granted
    except (MigError, BackendError) as error:
        report.error("The GPUs are left unchanged: %s" % error)
        good = False
    finally:
        if not limit.hanging:
            backend.close()
    return RESTORED if good else NOT_RESTORED


def _open_backend(desired: BootSettings, report: Report) -> Backend:
    """The backend, as soon as the driver responds and lists GPUs, which may take some time at boot."""
    deadline = time.monotonic() + desired.driver_wait
    reported = False
    while True:
        try:
            return _with_gpus(select.open_backend(desired.backend))
        except BackendError as error:
            if error.code in _PERMANENT_ERRORS or time.monotonic() >= deadline:
                raise
            if not reported:
                report.info("Waiting up to %g seconds for the NVIDIA driver: %s" % (desired.driver_wait, error))
                reported = True
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _with_gpus(backend: Backend) -> Backend:
    try:
        if backend.count():
            return backend
    except BackendError:
        backend.close()
        raise
    backend.close()
    raise BackendError(
        codes.NOT_FOUND, "counting GPUs", "the driver lists no GPU", "Check lspci and dmesg for the cause"
    )


def _restore_gpus(backend: Backend, desired: BootSettings, check: bool, report: Report, limit: _Limit) -> bool:
    """Plan and converge as many GPUs as possible; returns whether all GPUs of the layout match it."""
    found = _read_gpus(backend, limit)
    gpus = [gpu for gpu in found if isinstance(gpu, Gpu)]
    lost = [gpu for gpu in found if isinstance(gpu, LostGpu)]
    missing = _missing(desired, gpus, lost)
    layout = desired.layout.pinned(desired.gpus)
    good = not missing
    for one in lost:
        if any(entry.covers(one, gpus) is not False for entry in layout.entries):
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


def _read_gpus(backend: Backend, limit: _Limit) -> t.List[t.Union[Gpu, LostGpu]]:
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
    nothing = Board("", (), 0, 0, 0)
    return [
        LostGpu(
            index,
            why,
            Gpu(
                index,
                uuid,
                pci_bus_id="",
                name="",
                pci_device_id=0,
                pci_subsystem_id=0,
                mig_capable=True,
                mode_current=None,
                mode_pending=None,
                resetless=None,
                board=nothing,
                profiles_known=False,
            ),
        )
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
            plans.append(plan_gpu(gpu, requests[gpu.index], desired.disturb, desired.reset))
        except MigError as error:
            _report_gpu(report.error, gpu, "left unchanged: %s" % error)
            unplanned.append(gpu)
    return plans, unplanned


def _converge(backend: Backend, node: NodePlan, report: Report, limit: _Limit) -> bool:
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


def _grant(desired: BootSettings, report: Report) -> bool:
    if not desired.access_group:
        return True
    try:
        granted = access.grant(desired.access_group, desired.access_capabilities)
    except access.AccessError as error:
        report.error("Group %s was not granted access to MIG: %s" % (desired.access_group, error))
        return False
    report.info(
        "Group %s %s %s"
        % (
            desired.access_group,
            "was given access to" if granted.changed else "has access to",
            ", ".join(granted.devices),
        )
    )
    return True
