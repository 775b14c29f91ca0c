# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every NVML call of a run fails, with every code that nvml.h allows for it.

After one transient failure, the GPU matches the layout. After any other failure, it matches the layout or its earlier
state. If a function keeps failing and the rollback is therefore incomplete, the error names exactly what differs.
Writes also fail after they took effect. A second run without faults reaches the target.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
import typing as t
from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import MigError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Gpu
from ansible_collections.gpufleet.node.plugins.module_utils._mig.rollback import differences

from .header import ALLOWED, WRITES, codes_of
from .support import Simulated, matches, mode_and_instances, run
from .transitions import BY_NAME, TRANSITIONS, Transition


class Fault(t.NamedTuple):
    function: str
    nth: int
    code: int
    action: str
    always: bool = False  # from that call on
    passes: bool = False  # fails once with a transient code, so the run must succeed

    def __str__(self) -> str:
        return "%s of call %d of %s (%s%s)" % (
            codes.NAMES.get(self.code, self.code),
            self.nth,
            self.function,
            self.action,
            ", and all after it" if self.always else "",
        )


TRANSIENT = (codes.UNKNOWN, codes.TIMEOUT, codes.IN_USE, codes.INSUFFICIENT_RESOURCES)
START = ("nvmlInitWithFlags", "nvmlShutdown", "nvmlDeviceGetCount_v2")

Drivers = t.Callable[[Simulated], t.Any]


def calls_of(node: Simulated, drivers: Drivers, transition: Transition) -> t.List[str]:
    """Return the NVML functions that a run without faults calls, in order. The run must reach the target."""
    node.trace()
    outcomes = run(drivers(node), transition.desired, transition.reset)
    node.trace(False)
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    calls = [call["function"] for call in node.calls() if call["function"].startswith("nvml")]
    assert all(matches(gpu, layout) for gpu, layout in zip(node.read(), transition.desired))
    return calls


def numbered(calls: t.Sequence[str]) -> t.List[t.Tuple[str, int]]:
    """Return each call with its number among the calls of the same function."""
    seen: t.Counter[str] = Counter()
    out = []
    for function in calls:
        seen[function] += 1
        out.append((function, seen[function]))
    return out


def all_faults(calls: t.Sequence[str]) -> t.Iterator[Fault]:
    for function, nth in numbered(calls):
        for code in codes_of(function):
            passes = code in TRANSIENT and function not in START
            yield Fault(function, nth, code, "return", passes=passes)
            if function in WRITES:
                yield Fault(function, nth, code, "return-after", passes=passes)


def problems(
    case: Simulated, before: t.Sequence[Gpu], drivers: Drivers, transition: Transition, fault: Fault
) -> t.Iterator[str]:
    """Return the errors after a run with this fault, and after a second run without faults."""
    case.fault(fault.function, fault.nth, fault.code, fault.always, fault.action)
    said: t.List[t.Optional[str]]
    pending = False
    try:
        outcomes = run(drivers(case), transition.desired, transition.reset)
        said = [outcome.error for outcome in outcomes]
        pending = any(outcome.reset_required or outcome.reboot_required for outcome in outcomes)
    except (BackendError, MigError) as error:
        said = [str(error)]
        outcomes = ()
    case.clear_faults()
    after = case.read()
    if fault.passes and not outcomes:
        yield "refused: %s" % said
    if not outcomes and [mode_and_instances(gpu) for gpu in after] != [mode_and_instances(gpu) for gpu in before]:
        yield "changed although it was refused: %s" % said
    for outcome, was, now, layout in zip(outcomes, before, after, transition.desired):
        reached = matches(now, layout)
        same = mode_and_instances(was) == mode_and_instances(now)
        if outcome.error is None and not reached and not pending:
            yield "no error, but the GPU does not match the layout: %s" % (now.instances,)
        if fault.passes and (outcome.error is not None or not reached):
            yield "the run failed because of one transient failure: %s %s" % (outcome.error, outcome.notice)
        if outcome.error is not None and not reached and not same:
            if not fault.always:
                yield "not restored: %s" % outcome.error
            for text in differences(was, now):
                if text not in outcome.error:
                    yield "the error does not contain %r: %s" % (text, outcome.error)
        if outcome.error is not None and (reached or same) and "missing: " in outcome.error:
            yield "the error reports a loss that did not occur: %s" % outcome.error
        if outcome.restored and not same:
            yield "reported as restored, but the state differs: %s" % (now.instances,)
    if [mode_and_instances(gpu) for gpu in after] == [mode_and_instances(gpu) for gpu in before]:
        return  # a run without faults from this state is known to reach the target
    for outcome in run(drivers(case), transition.desired, transition.reset):
        if outcome.error is not None or outcome.reset_required or outcome.reboot_required:
            yield "the second run failed: %s %s" % (outcome.error, outcome.notice)
    if not all(matches(gpu, layout) for gpu, layout in zip(case.read(), transition.desired)):
        yield "the second run did not reach the target"


def check(cases: Path, node: Simulated, drivers: Drivers, transition: Transition, faults: t.Iterable[Fault]) -> int:
    """Run all faults on all cores, and return their number."""
    before = node.copy(cases / "before").read()

    def share(part: int) -> t.List[str]:
        found = []
        for fault in everything[part::parts]:
            case = node.copy(cases / ("case%d" % part))
            found.extend("%s: %s" % (fault, text) for text in problems(case, before, drivers, transition, fault))
        return found

    everything, parts = list(faults), os.cpu_count() or 1
    found = [text for texts in forked(share, parts) for text in texts]
    assert found == [], "%d problems in %d faults, the first: %s" % (len(found), len(everything), "\n".join(found[:5]))
    return len(everything)


def forked(work: t.Callable[[int], t.List[str]], parts: int) -> t.List[t.List[str]]:
    """Run each part in a separate process, and yield the results."""
    context = multiprocessing.get_context("fork")

    def child(part: int, pipe: t.Any) -> None:
        try:
            result = work(part)
        except BaseException:
            result = ["the test itself failed: %s" % traceback.format_exc()]
        pipe.send(result)

    running = []
    for part in range(parts):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=child, args=(part, theirs))
        process.start()
        theirs.close()  # otherwise the death of a child would not cause EOFError here
        running.append((process, ours))
    results = [pipe.recv() for _process, pipe in running]
    for process, _pipe in running:
        process.join()
    return results


@pytest.mark.parametrize("transition", TRANSITIONS, ids=str)
def test_every_call_fails_with_every_code(templates, cases, transition):
    node = transition.node(templates)
    calls = calls_of(node.copy(cases / "plain"), Simulated.nvml, transition)
    assert set(calls) <= set(ALLOWED), "functions without codes in header.py"
    count = check(cases, node, Simulated.nvml, transition, all_faults(calls))
    assert count > 300


def lasting_faults(calls: t.Sequence[str]) -> t.Iterator[Fault]:
    """A write function fails permanently, starting with some call."""
    for function, nth in numbered(calls):
        if function in WRITES:
            yield Fault(function, nth, codes.UNKNOWN, "return", always=True)


@pytest.mark.parametrize("transition", TRANSITIONS, ids=str)
def test_an_incomplete_rollback_names_the_differences(templates, cases, transition):
    node = transition.node(templates)
    calls = calls_of(node.copy(cases / "plain"), Simulated.nvml, transition)
    assert check(cases, node, Simulated.nvml, transition, lasting_faults(calls)) > 0


def representative_faults(calls: t.Sequence[str]) -> t.Iterator[Fault]:
    """Return all faults of writes, including a kill of nvidia-smi, and of reads the first, middle and last call.

    After a failed read, nvidia-smi may report different data, so the test requires recovery only from writes.
    """
    calls = [function for function in calls if function in ALLOWED]
    counts = Counter(calls)
    for function, nth in numbered(calls):
        if function in WRITES:
            for code in codes_of(function):
                yield Fault(function, nth, code, "return", passes=code in TRANSIENT)
            for action in ("return-after", "kill-during", "kill-after"):
                yield Fault(function, nth, codes.UNKNOWN, action, passes=True)
        elif nth in (1, counts[function] // 2, counts[function]):
            yield Fault(function, nth, codes.UNKNOWN, "return")


# Each version of nvidia-smi with different kinds of transitions. Each transition takes more than a thousand processes.
SMI_CASES = [
    ("550.163.01", "create"),
    ("550.163.01", "compute instances"),
    ("550.163.01", "mode on by reset"),
    ("550.163.01", "mode off, Hopper"),
    ("535.261.03", "keep"),
    ("535.261.03", "repair"),
    ("535.261.03", "mode on, late profiles"),
    ("535.261.03", "mode off"),
]


@pytest.mark.parametrize(("version", "name"), SMI_CASES)
def test_every_call_of_nvidia_smi_fails(templates, cases, version, name):
    """The same with the real nvidia-smi. The trace has all of its NVML calls."""
    transition = BY_NAME[name]._replace(driver=version)
    node = transition.node(templates)

    def drivers(case: Simulated) -> t.Any:
        return case.nvidia_smi(version)

    calls = calls_of(node.copy(cases / "plain"), drivers, transition)
    count = check(cases, node, drivers, transition, representative_faults(calls))
    assert count > 30
