# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Apply plans: each GPU reaches its planned state or is rolled back.

Uses the backend protocol and does no I/O of its own.
"""

from __future__ import annotations

import typing as t

from . import codes, messages, mode, parallel
from .backend import BackendError
from .ci_choice import Choice, choose
from .errors import MigError
from .journal import Journal, Retry
from .model import Gpu, Placement, Process
from .operations import CREATE_CI, CREATE_GI, DESTROY_CI, DESTROY_GI, RESET, SET_MODE, Blocked, Operation, Plan
from .rollback import Restored, differences, restore, shape
from .verify import mismatch

if t.TYPE_CHECKING:
    from .backend import Backend

_DESTROYING = (DESTROY_CI, DESTROY_GI)


class Outcome(t.NamedTuple):
    """The result for one GPU.

    Exactly one of these applies: the GPU matches its plan; its mode change is blocked
    (``reset_required`` or ``reboot_required``, with ``notice``), which is not a failure, and it
    keeps its instances; or ``error`` describes what failed, what was rolled back, what could
    not be, and how to proceed.
    """

    before: Gpu
    after: Gpu
    plan: Plan
    performed: t.Tuple[Operation, ...] = ()  # with ids, including those of the rollback
    reset_required: bool = False
    reboot_required: bool = False
    notice: t.Optional[str] = None
    restored: t.Optional[bool] = None  # None: no rollback was needed
    error: t.Optional[str] = None
    clients: t.Tuple[Process, ...] = ()  # processes that block it, if the driver lists them
    retries: t.Tuple[Retry, ...] = ()
    read: bool = True  # False: ``after`` is derived from the writes, because the GPU could not be read

    @property
    def unmatched(self) -> bool:
        """Whether the GPU differs from its target, or may differ because it could not be read."""
        pending = self.reset_required or self.reboot_required or self.plan.mode_only
        return pending or not self.read or mismatch(self.plan, self.after) is not None

    @property
    def changed(self) -> bool:
        """Whether the state of the GPU changed; restored instances count as unchanged."""
        return bool(differences(self.before, self.after))


def converge(backend: Backend, plans: t.Sequence[Plan], reset: bool = False) -> t.Tuple[Outcome, ...]:
    """Apply all plans, GPUs in parallel; outcomes in the order of the plans."""
    work = [plan for plan in plans if plan.changes or plan.blocked]
    runs = parallel.over(len(work), lambda index: _Run(backend, work[index], reset).run())
    outcomes = {outcome.before.index: outcome for outcome in runs}
    return tuple(outcomes.get(plan.gpu.index, Outcome(plan.gpu, plan.gpu, plan)) for plan in plans)


class _Failed(Exception):
    """The GPU cannot reach its planned state, although no call failed."""

    def __init__(self, text: str, clients: t.Sequence[Process] = ()) -> None:
        super().__init__(text)
        self.clients = tuple(clients)


class _NotActive(Exception):
    """The mode change does not become active in this run."""

    def __init__(self, blocked: Blocked) -> None:
        super().__init__(blocked.reason)
        self.blocked = blocked


class _Unverified(Exception):
    """All writes were made, but the GPU could not be read afterwards."""


class _Run:
    """Applies the plan of one GPU."""

    def __init__(self, backend: Backend, plan: Plan, reset: bool) -> None:
        self._plan = plan
        self._reset_allowed = reset
        self._before = plan.gpu
        self._journal = Journal(backend, plan.gpu)
        self._current: t.Optional[Operation] = None  # in progress
        self._choices: t.Dict[Placement, t.List[Choice]] = {}

    def run(self) -> Outcome:
        try:
            self._check()
        except _NotActive as found:
            return self._blocked(found.blocked)
        except Exception as error:
            text = "%s. Nothing was changed" % _error_text(error, None).rstrip(".")
            if not isinstance(error, MigError):
                text = "%s: %s" % (self._before.label, text)
            return self._outcome(error=text, clients=getattr(error, "clients", ()))
        try:
            self._execute()
            if not self._plan.mode_only:
                self._verify()
        except _NotActive as found:
            return self._blocked(found.blocked)
        except Exception as error:  # roll back a partially changed GPU after any error
            return self._failed(error)
        return self._outcome()

    def _check(self) -> None:
        """Before the first write, check that the GPU has not changed since it was planned and has no new users."""
        now = self._journal.read()
        planned = self._before
        if now.uuid != planned.uuid or differences(planned, now) or _ids(planned) != _ids(now):
            raise _Failed(
                "another program changed it after the plan was made. Run again to plan from its current state"
            )
        self._before = now
        for operation in self._plan.operations:
            if operation.kind in _DESTROYING:
                users = _users(now, operation)
                if users:
                    raise _Failed(
                        "%s began to use %s after the plan was made. "
                        "Stop it, or use a layout that keeps this instance"
                        % (messages.processes(users), messages.instance(operation)),
                        users,
                    )
        if self._plan.blocked is not None:
            raise _NotActive(self._plan.blocked)
        blocked = mode.change(now, self._plan.target.enabled, self._reset_allowed).blocked
        if blocked is not None:
            raise _NotActive(blocked)

    def _execute(self) -> None:
        steps = self._plan.operations
        for position, step in enumerate(steps):
            self._current = step
            if step.kind == SET_MODE:
                self._set_mode(bool(step.enabled))
            elif step.kind == RESET:
                self._reset(self._plan.target.enabled)
            elif step.kind == CREATE_CI:
                self._create_ci(step, steps[position:])
            else:
                self._step(step)
        self._current = None

    def _step(self, step: Operation) -> None:
        journal = self._journal
        if step.profile is None or step.placement is None:
            raise ValueError("%s names no instance" % (step,))
        if step.kind == CREATE_GI:
            journal.create_gi(step.profile, step.placement)
            return
        instance = journal.instance(step.placement)
        if step.kind == DESTROY_GI:
            journal.destroy_gi(instance)
        elif step.ci_id is not None:
            journal.destroy_ci(instance, step.ci_id, step.slices or 0)

    def _create_ci(self, step: Operation, rest: t.Sequence[Operation]) -> None:
        if step.placement is None:
            raise ValueError("%s names no instance" % (step,))
        instance = self._journal.instance(step.placement)
        if step.placement not in self._choices:
            slices = [
                other.slices or 0 for other in rest if other.kind == CREATE_CI and other.placement == step.placement
            ]
            offered = self._journal.compute_profiles(instance)
            try:
                chosen = choose(offered, slices, instance.compute_instances, step.reduced)
                self._choices[step.placement] = list(chosen)
            except LookupError as error:
                raise _Failed(
                    "the driver offers no compute instance of %s slices in %s"
                    % (error, messages.gpu_instance(self._journal.state, instance))
                ) from error
        profile, start = self._choices[step.placement].pop(0)
        self._journal.create_ci(instance, profile, start)

    def _set_mode(self, enabled: bool) -> None:
        status = self._journal.set_mode(enabled)
        now = self._journal.read()
        if now.mode_current == enabled:
            return
        if now.resetless:
            clients = mode.whole_gpu_clients(now)
            raise _Failed(
                "MIG mode was not switched %s (activation status %s): %s"
                % (mode.on_off(enabled), codes.NAMES.get(status, status), _in_use_by(clients)),
                clients,
            )
        if status == codes.IN_USE or now.processes:
            raise _NotActive(mode.in_use(now, enabled))
        if not self._reset_allowed:
            raise _NotActive(mode.not_allowed(now, enabled))
        self._current = Operation(RESET)
        self._reset(enabled)

    def _reset(self, enabled: bool) -> None:
        """The change is pending: reset this one GPU."""
        try:
            self._journal.reset()
        except BackendError as error:
            if error.code in (codes.NOT_SUPPORTED, codes.RESET_TYPE_NOT_SUPPORTED):
                raise _NotActive(mode.needs_reboot(enabled, "it cannot be reset (%s)" % error)) from error
            if error.code == codes.FUNCTION_NOT_FOUND:
                raise _NotActive(mode.no_reset_command(enabled, error)) from error
            if error.code == codes.IN_USE:
                raise _NotActive(mode.in_use(self._journal.read(), enabled, error)) from error
            raise
        if self._journal.read().mode_current != enabled:
            raise _NotActive(mode.needs_reboot(enabled, "the reset did not activate it"))

    def _verify(self) -> None:
        """Compare the GPU with its plan. A mismatch is an error only after a second read."""
        for _attempt in range(2):
            try:
                wrong = mismatch(self._plan, self._journal.read())
            except BackendError as error:
                raise _Unverified(str(error)) from error
            if wrong is None:
                return
        raise _Failed("the GPU does not match its plan after the writes: %s" % wrong)

    def _blocked(self, blocked: Blocked) -> Outcome:
        """The GPU keeps its instances, or they are restored. A change that a reboot activates stays requested."""
        notice = mode.notice(self._before, blocked)
        rolled_back: t.Optional[bool] = None
        if shape(self._journal.state) != shape(self._before):
            restored = restore(self._journal, self._before, self._reset_allowed, keep_mode=blocked.reboot)
            if restored.missing:
                return self._outcome(
                    error="%s. %s" % (notice, ". ".join(_rollback_text(restored))),
                    restored=False,
                    clients=blocked.clients,
                    read=restored.read,
                )
            rolled_back = True
        return self._outcome(
            reset_required=not blocked.reboot,
            reboot_required=blocked.reboot,
            notice=notice,
            clients=blocked.clients,
            restored=rolled_back,
        )

    def _failed(self, error: Exception) -> Outcome:
        if isinstance(error, _Unverified):
            return self._outcome(
                error="%s: all writes were made as planned, but the result could not be read back: %s. "
                "Run again to verify it" % (self._before.label, error),
                read=False,
            )
        failed_operation = self._current
        restored = restore(self._journal, self._before, self._reset_allowed)
        clients = self._blocking_clients(error, failed_operation, restored)
        parts = ["%s: %s" % (self._before.label, _error_text(error, failed_operation))]
        if isinstance(error, BackendError) and error.code == codes.IN_USE:
            parts.append(_in_use_by(clients))
        parts.extend(_rollback_text(restored))
        return self._outcome(
            error=". ".join(part.rstrip(".") for part in parts),
            restored=not restored.missing,
            clients=clients,
            read=restored.read,
        )

    def _blocking_clients(
        self, error: Exception, failed_operation: t.Optional[Operation], restored: Restored
    ) -> t.Tuple[Process, ...]:
        if isinstance(error, _Failed):
            return error.clients
        if isinstance(error, BackendError) and error.code == codes.IN_USE and restored.seen is not None:
            if failed_operation is not None and failed_operation.kind in _DESTROYING:
                return _users(restored.seen, failed_operation)
            return mode.whole_gpu_clients(restored.seen)
        return ()

    def _outcome(self, **fields: t.Any) -> Outcome:
        journal = self._journal
        return Outcome(
            self._before, journal.state, self._plan, tuple(journal.performed), retries=tuple(journal.retries), **fields
        )


def _error_text(error: Exception, failed_operation: t.Optional[Operation]) -> str:
    if isinstance(error, (MigError, _Failed)):
        return str(error)
    text = str(error) if isinstance(error, BackendError) else "internal error: %r" % error
    return "failed to %s: %s" % (messages.operation(failed_operation), text) if failed_operation is not None else text


def _rollback_text(restored: Restored) -> t.List[str]:
    if restored.missing:
        return [
            "Its previous state could not be restored: %s" % "; ".join(restored.missing),
            "Run again: existing instances are kept, and missing ones are created",
        ]
    parts = ["Its previous state was restored"]
    if restored.new_uuids:
        parts.append("New UUIDs of MIG devices that were recreated: %s" % ", ".join(restored.new_uuids))
    return parts


def _ids(gpu: Gpu) -> t.Set[t.Tuple[int, int]]:
    return {(gi.id, -1) for gi in gpu.instances} | {
        (gi.id, ci.id) for gi in gpu.instances for ci in gi.compute_instances
    }


def _users(gpu: Gpu, operation: Operation) -> t.Tuple[Process, ...]:
    """Processes that use what the operation destroys."""
    return gpu.users(operation.gi_id, None if operation.kind == DESTROY_GI else (operation.ci_id,))


def _in_use_by(clients: t.Sequence[Process]) -> str:
    if clients:
        return "it is used by %s. Stop them and run again" % messages.processes(clients)
    return "%s. Stop the holder and run again" % messages.UNLISTED_CLIENTS
