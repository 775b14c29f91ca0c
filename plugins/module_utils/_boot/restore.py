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
import os
import time
import typing as t

from .._backend import lock, select
from .._mig import codes
from .._mig.backend import BackendError
from .._mig.errors import MigError
from . import access, gpus, settings
from .limit import Limit, limited
from .report import RETRY_REMEDY, Report

if t.TYPE_CHECKING:
    from .._mig.backend import Backend
    from .settings import BootSettings

# Exit statuses.
RESTORED, NOT_RESTORED, INVALID_SETTINGS, NO_DRIVER = 0, 1, 2, 3

_POLL_SECONDS = 1.0
# Errors that waiting cannot resolve.
_PERMANENT_ERRORS = (codes.NO_PERMISSION, codes.LIB_RM_VERSION_MISMATCH)


def main(arguments: t.Optional[t.Sequence[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    report = Report()
    try:
        desired = settings.read(options.settings)
    except settings.SettingsError as error:
        report.error("Nothing is restored: %s" % error)
        return INVALID_SETTINGS
    with limited(desired.time_limit, report, NOT_RESTORED) as limit:
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


def _locked(desired: BootSettings, check: bool, report: Report, limit: Limit) -> int:
    try:
        with lock.locked(
            desired.lock_path, desired.lock_wait, create=not check, command="gpufleet-mig-restore", progress=report.info
        ):
            return _restore(desired, check, report, limit)
    except lock.LockError as error:
        report.error("Nothing is restored: %s" % error)
        return NOT_RESTORED


def _restore(desired: BootSettings, check: bool, report: Report, limit: Limit) -> int:
    try:
        backend = _open_backend(desired, report)
    except BackendError as error:
        report.error("The NVIDIA driver is not up, so the GPUs are left unchanged: %s. %s" % (error, RETRY_REMEDY))
        return NO_DRIVER
    try:
        # First, so that a GPU that hangs does not prevent it.
        granted = check or _grant(desired, report)
        good = gpus.restore(backend, desired, check, report, limit) and granted
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
