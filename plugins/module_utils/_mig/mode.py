# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Requirements and blockers of a MIG mode change, for the plan and its execution.

GPUs that report ``resetless`` change the mode immediately, and fail while a process uses them. All others (Ampere)
record the change as pending; it becomes active with a reset of the GPU. The driver resets an idle GPU itself when
the change is requested, so a change is not requested while a process uses the GPU.
"""

from __future__ import annotations

import typing as t

from . import messages
from .errors import BusyError
from .model import Gpu, Process
from .operations import Blocked


class ModeChange(t.NamedTuple):
    """The steps of a mode change. If no field is set, the mode is already the desired one."""

    request: t.Optional[bool] = None  # the mode to request from the driver
    reset: bool = False  # the change is pending already, and a reset of the GPU activates it
    blocked: t.Optional[Blocked] = None


def change(gpu: Gpu, enabled: bool, reset_allowed: bool) -> ModeChange:
    """The steps to switch MIG mode of this GPU.

    Raises BusyError if nothing but a process that the driver lists blocks a change that is not pending already.
    """
    current = bool(gpu.mode_current)
    pending = current if gpu.mode_pending is None else gpu.mode_pending
    if current == enabled:
        return ModeChange(request=None if pending == enabled else enabled)
    requested = pending == enabled and not gpu.resetless
    if not gpu.resetless and not reset_allowed and (requested or gpu.instances):
        return ModeChange(blocked=not_allowed(gpu, enabled))
    if gpu.processes and requested:
        return ModeChange(blocked=in_use(gpu, enabled))
    if gpu.processes:
        raise BusyError(
            "%s: MIG mode cannot be switched %s while %s uses the GPU. Stop it and run again"
            % (gpu.label, on_off(enabled), messages.processes(gpu.processes)),
            gpu.processes,
        )
    return ModeChange(request=None if requested else enabled, reset=requested)


def notice(gpu: Gpu, blocked: Blocked) -> str:
    """The message of a blocked mode change."""
    return "%s: %s%s" % (gpu.label, blocked.reason, ". Its instances are kept" if gpu.instances else "")


def in_use(gpu: Gpu, enabled: bool, refusal: t.Optional[Exception] = None) -> Blocked:
    """The GPU has clients, which the driver may not list. ``refusal`` is the error of a reset that they blocked."""
    needs = _needs_reset(enabled)
    if refusal is not None:
        needs += ", and it could not be reset (%s)" % refusal
    if gpu.processes:
        return Blocked(
            "%s: %s uses it. Stop it and run again" % (needs, messages.processes(gpu.processes)), gpu.processes
        )
    return Blocked("%s: %s. Stop the holder and run again" % (needs, messages.UNLISTED_CLIENTS))


def not_allowed(gpu: Gpu, enabled: bool) -> Blocked:
    holders = "%s uses it" % messages.processes(gpu.processes) if gpu.processes else messages.UNLISTED_CLIENTS
    return Blocked(
        "%s. Allow the reset with reset: true (in the role nvidia_mig_reset), or reboot. For a reset, stop all clients "
        "first: %s" % (_needs_reset(enabled), holders)
    )


def no_reset_command(enabled: bool, error: Exception) -> Blocked:
    return Blocked(
        "%s, and the command nvidia-smi, which resets GPUs, is missing (%s). Install it, or reboot"
        % (_needs_reset(enabled), error)
    )


def needs_reboot(enabled: bool, why: str) -> Blocked:
    return Blocked("%s, but %s. Reboot the node" % (_needs_reset(enabled), why), reboot=True)


def whole_gpu_clients(gpu: Gpu) -> t.Tuple[Process, ...]:
    """Processes that use the GPU as a whole, not one of its instances."""
    return tuple(process for process in gpu.processes if process.gi_id is None)


def on_off(enabled: t.Optional[bool]) -> str:
    return "on" if enabled else "off"


def _needs_reset(enabled: bool) -> str:
    return "switching MIG mode %s needs a reset of the GPU" % on_off(enabled)
