# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""SIGKILL at every write of a run. The next run without a kill reaches the target."""

from __future__ import annotations

import os
import signal
import typing as t
from functools import partial

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.smi import SmiBackend

from .support import Simulated, matches, run
from .transitions import BY_NAME, PAIR, TRANSITIONS, Transition

_SMI_WRITES = {"-mig", "-cgi", "-dgi", "-cci", "-dci", "--gpu-reset"}


def in_child(work: t.Callable[[], t.Any]) -> bool:
    """Run the work in a separate process, and return whether it was killed. Fail on any other unsuccessful exit."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            outcomes = work()
            status = 0 if all(outcome.error is None for outcome in outcomes) else 2
        finally:
            os._exit(status)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), "the child ended with %d" % status
    return status == signal.SIGKILL


def kill_everywhere(
    cases: t.Any, node: Simulated, transition: Transition, victim: t.Callable[[Simulated, int], t.Any], again: t.Any
) -> int:
    """Kill at write 1, 2, 3 ... until a run completes, and return the number of kills."""
    nth = 1
    while True:
        case = node.copy(cases / "case")
        killed = in_child(partial(victim, case, nth))
        case.clear_faults()
        case.read()  # the node's state is valid after a kill
        for outcome in run(again(case), transition.desired, transition.reset):
            assert outcome.error is None and not outcome.reset_required, (nth, outcome.error, outcome.notice)
        assert all(matches(gpu, layout) for gpu, layout in zip(case.read(), transition.desired)), nth
        if not killed:
            return nth - 1
        nth += 1


@pytest.mark.parametrize("action", ["kill-before", "kill-during", "kill-after"])
@pytest.mark.parametrize("transition", TRANSITIONS + (PAIR,), ids=str)
def test_killed_at_every_write(templates, cases, transition, action):
    def victim(case: Simulated, nth: int) -> t.Any:
        case.fault("write", nth, action=action)
        return run(case.nvml(), transition.desired, transition.reset)

    killed = kill_everywhere(cases, transition.node(templates), transition, victim, Simulated.nvml)
    assert killed >= (1 if transition.name == "repair" else 3)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("550.163.01", "keep"),
        ("550.163.01", "two GPUs"),
        ("535.261.03", "mode on, late profiles"),
        ("535.261.03", "mode off"),
    ],
)
def test_killed_after_every_command_that_writes(templates, cases, version, name):
    transition = BY_NAME[name]._replace(driver=version)

    def victim(case: Simulated, nth: int) -> t.Any:
        plain, done = case.runner(version), []

        def runner(argv: t.Sequence[str]) -> t.Any:
            result = plain(argv)
            if _SMI_WRITES.intersection(argv):
                done.append(argv)
                if len(done) == nth:
                    os.kill(os.getpid(), signal.SIGKILL)
            return result

        return run(SmiBackend(runner), transition.desired, transition.reset)

    killed = kill_everywhere(
        cases, transition.node(templates), transition, victim, lambda case: case.nvidia_smi(version)
    )
    assert killed >= 3
