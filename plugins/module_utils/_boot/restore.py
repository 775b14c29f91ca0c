# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Bringing the GPUs to their layout at boot, with no Ansible.

The same engine under the same rules as the module, with one difference: at boot nobody is
there to decide, so a GPU that cannot have its layout does not keep the others from theirs.
It controls no service, and ends by itself when its time is up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import threading
import time
import typing as t

from .._driver import errors, lock, select
from .._driver.errors import DriverError
from .._mig import render
from .._mig.errors import MigError
from .._mig.planning import NodePlan, plan_gpu
from .._mig.stages import converge_node
from . import access, settings
from .report import Report

if t.TYPE_CHECKING:
    from .._driver.base import Driver
    from .._mig.converge import Outcome
    from .._mig.model import Gpu
    from .._mig.operations import Plan
    from .settings import Settings

# Exit statuses.
AS_WANTED, NOT_AS_WANTED, UNUSABLE, NO_DRIVER = 0, 1, 2, 3

_POLL_SECONDS = 1.0
# No waiting mends these.
_HOPELESS = (errors.NO_PERMISSION, errors.LIB_RM_VERSION_MISMATCH)
_AGAIN = "Then run gpufleet-mig-restore, or restart gpufleet-mig-restore.service"


def main(arguments: t.Optional[t.Sequence[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    report = Report()
    try:
        wanted = settings.read(options.settings)
    except settings.SettingsError as error:
        report.error("Nothing is restored: %s" % error)
        return UNUSABLE
    with _limited(wanted.time_limit, report):
        if options.access_only:
            return AS_WANTED if _grant(wanted, report) else NOT_AS_WANTED
        return _locked(wanted, options.check, report)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpufleet-mig-restore",
        description="Bring the GPUs of this node to the MIG layout that the role gpufleet.node.nvidia_mig left for it.",
        epilog="Exit status: %d as wanted, %d not as wanted, %d the settings cannot be used, %d the driver is not up."
        % (AS_WANTED, NOT_AS_WANTED, UNUSABLE, NO_DRIVER),
    )
    parser.add_argument("--settings", default=settings.DEFAULT_PATH, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="change nothing; status 1 if there is something to change")
    parser.add_argument("--access-only", action="store_true", help="only let the group of the settings at MIG")
    return parser


@contextlib.contextmanager
def _limited(seconds: float, report: Report) -> t.Iterator[None]:
    """End the whole process when the time is up, wherever in the driver it hangs."""

    def expire() -> None:
        report.error(
            "Not done after %g seconds: the driver or a GPU does not answer. GPUs may be half-way to their layout. "
            "Look at dmesg and nvidia-smi. %s: what is there is kept, and what is missing is made" % (seconds, _AGAIN)
        )
        os._exit(NOT_AS_WANTED)

    timer = threading.Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _locked(wanted: Settings, check: bool, report: Report) -> int:
    try:
        with lock.held(
            wanted.lock_path, wanted.lock_wait, create=not check, command="gpufleet-mig-restore", progress=report.info
        ):
            return _restore(wanted, check, report)
    except lock.LockError as error:
        report.error("Nothing is restored: %s" % error)
        return NOT_AS_WANTED


def _restore(wanted: Settings, check: bool, report: Report) -> int:
    try:
        driver = _driver(wanted, report)
    except DriverError as error:
        report.error("The NVIDIA driver is not up, so the GPUs are left as they are: %s. %s" % (error, _AGAIN))
        return NO_DRIVER
    with contextlib.closing(driver):
        try:
            good = _bring(driver, wanted, check, report)
        except (MigError, DriverError) as error:
            report.error("The GPUs are left as they are: %s" % error)
            return NOT_AS_WANTED
    if not check:
        good = _grant(wanted, report) and good
    return AS_WANTED if good else NOT_AS_WANTED


def _driver(wanted: Settings, report: Report) -> Driver:
    """The driver, as soon as it answers and has GPUs. At boot, that may take it a while."""
    deadline = time.monotonic() + wanted.driver_wait
    told = False
    while True:
        try:
            return _with_gpus(select.open_driver(wanted.driver))
        except DriverError as error:
            if error.code in _HOPELESS or time.monotonic() >= deadline:
                raise
            if not told:
                report.info("Waiting up to %g seconds for the NVIDIA driver: %s" % (wanted.driver_wait, error))
                told = True
        time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))


def _with_gpus(driver: Driver) -> Driver:
    try:
        if driver.count():
            return driver
    except DriverError:
        driver.close()
        raise
    driver.close()
    raise DriverError(
        errors.NOT_FOUND, "counting GPUs", "the driver knows no GPU", "Look at lspci and dmesg for what became of them"
    )


def _bring(driver: Driver, wanted: Settings, check: bool, report: Report) -> bool:
    """Plan and converge all GPUs that can be; whether all of them are as wanted then."""
    gpus, good = _read(driver, report)
    if not gpus:
        return False
    requests = wanted.layout.resolve(gpus)
    plans = []
    for gpu in gpus:
        if gpu.index not in requests:
            _tell(report.info, gpu, "not in the layout, left alone")
            continue
        try:
            plans.append(plan_gpu(gpu, requests[gpu.index], wanted.disturb, wanted.reset))
        except MigError as error:
            _tell(report.error, gpu, "left as it is: %s" % error)
            good = False
    if check:
        checked = [_checked(plan, report) for plan in plans]  # all are told, whatever the first one is
        return all(checked) and good
    node = NodePlan(tuple(plans), requests, wanted.disturb, wanted.reset)
    outcomes = converge_node(driver, node.plans, node.replan, wanted.reset)
    done = [_done(outcome, report) for outcome in outcomes]
    return all(done) and good


def _read(driver: Driver, report: Report) -> t.Tuple[t.List[Gpu], bool]:
    """The GPUs that can be read, and whether these are all."""
    gpus: t.List[Gpu] = []
    number = driver.count()
    driver.prefetch()
    for index in range(number):
        try:
            gpus.append(driver.read(index))
        except DriverError as error:
            report.error("GPU %d cannot be read, and is left as it is: %s" % (index, error))
    return gpus, len(gpus) == number


def _checked(plan: Plan, report: Report) -> bool:
    good = not plan.changes and not plan.blocked
    if good:
        _tell(report.info, plan.gpu, "as wanted")
    else:
        _tell(report.warning, plan.gpu, "would become %s" % render.draw([render.row_after(plan)]).strip())
    return good


def _done(outcome: Outcome, report: Report) -> bool:
    if outcome.error is not None:
        _tell(report.error, outcome.after, "FAILED: %s" % outcome.error)
        return False
    if outcome.reset_required or outcome.reboot_required:
        _tell(report.error, outcome.after, "not as wanted yet: %s" % outcome.notice)
        return False
    _tell(report.info, outcome.after, "restored" if outcome.changed else "as wanted already")
    return True


def _tell(say: t.Callable[[str], None], gpu: Gpu, text: str) -> None:
    say("%s  %s" % (render.draw([render.row(gpu)]).strip(), text))


def _grant(wanted: Settings, report: Report) -> bool:
    if not wanted.access_group:
        return True
    try:
        granted = access.grant(wanted.access_group, wanted.access_capabilities)
    except access.AccessError as error:
        report.error("Group %s gets no access to MIG: %s" % (wanted.access_group, error))
        return False
    report.info(
        "Group %s %s %s"
        % (wanted.access_group, "was given access to" if granted.changed else "has access to", ", ".join(granted.devices))
    )
    return True
