# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What a rehearsal has shown of one host: what a change keeps, destroys and creates, its needs, and its problems."""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from ...module_utils._common.data import Data

_LINE = re.compile(r"GPU (\d+) (?:GPU-\S+ )?(.*)")


class Outcome(t.NamedTuple):
    """One host. Numbers are None where nothing was rehearsed."""

    host: str
    state: str  # unchanged, changes, or why the real run would fail: invalid, refused, fails; unknown
    gpus: str = ""
    kept: int | None = None
    destroyed: int | None = None
    created: int | None = None
    needs: str = ""
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    map: tuple[str, ...] = ()
    resources: t.Mapping[str, int] | None = None  # after the change; None: unknown
    resources_before: t.Mapping[str, int] | None = None
    node: str = ""  # its name in the cluster

    @property
    def fails(self) -> bool:
        return bool(self.problems)


def invalid(host: str, problems: t.Sequence[str], gpus: str = "") -> Outcome:
    """A host whose variables or start have problems."""
    return Outcome(host, "invalid", gpus, problems=tuple(problems))


def unknown(host: str, why: str, gpus: str = "") -> Outcome:
    """A host that cannot be simulated."""
    return Outcome(host, "unknown", gpus, notes=("not rehearsed: %s" % why,))


def without_layout(host: str, gpus: str = "", notes: t.Sequence[str] = ()) -> Outcome:
    """A host whose GPUs keep what they have."""
    return Outcome(host, "no layout", gpus, notes=(*notes, "nvidia_mig_layout is not set"))


def of_child(host: str, found: Data, job: Data) -> Outcome:
    """The outcome of a job. ``found`` is that of child.py."""
    gpus = called(gpu["name"].removeprefix("NVIDIA ") for gpu in found["before"])
    if found["problems"]:
        return invalid(host, found["problems"], gpus)
    notes = tuple(found["notes"])
    if job["options"] is None:
        return without_layout(host, gpus, notes)
    planned, applied = found["planned"], found.get("applied")
    problems = _problems(planned, applied, job)
    refused = bool(planned.get("busy") or (applied or {}).get("deferred"))
    state = ("refused" if refused else "fails") if problems else "changes" if planned["changed"] else "unchanged"
    shown = applied if applied and "gpus" in applied and not applied.get("rebooted") else planned
    change = None if shown.get("busy") else shown.get("gpus")
    kept, destroyed, created = (
        None if change is None else sum(len(gpu[what]) for gpu in change) for what in ("kept", "destroyed", "created")
    )
    return Outcome(
        host,
        state,
        gpus,
        kept,
        destroyed,
        created,
        _needs(applied),
        tuple(problems),
        (*notes, *(() if problems else (applied or planned)["warnings"])),
        slice_map(planned.get("diff")),
    )


def called(names: t.Iterable[str]) -> str:
    """The products of GPUs with their counts: 8x A100-SXM4-80GB."""
    return ", ".join("%dx %s" % (count, name) for name, count in Counter(names).items())


def _problems(planned: Data, applied: Data | None, job: Data) -> list[str]:
    """Why the real run would fail."""
    if planned.get("failed"):
        return [str(planned["msg"]).rstrip(".")]
    if applied is None or applied.get("failed"):
        return [str((applied or {}).get("msg")).rstrip(".")]
    waiting = [each["reason"] for each in applied["deferred"]]
    if waiting:
        return waiting
    if applied["reset_required"] or applied["reboot_required"]:
        texts = ["the MIG mode of some GPUs changes only with a reset or reboot: " + ". ".join(applied["warnings"])]
        texts += [] if job["options"]["reset"] else ["Set nvidia_mig_reset to true, or reset them"]
        texts += [] if job["reboot"] else ["Set nvidia_mig_reboot to true, or reboot the node"]
        return [". ".join(texts)]
    return ["these GPUs do not match the layout: %s" % ", ".join(applied["unmatched"])] if applied["unmatched"] else []


def _needs(applied: Data | None) -> str:
    """The most disruptive step that the change needs beside its writes."""
    if applied is None:
        return ""
    if applied.get("rebooted"):
        return "reboot, allowed"
    if applied.get("reboot_required"):
        return "reboot"
    if applied.get("reset_required"):
        return "reset"
    resets = sum(operation["kind"] == "reset" for operation in applied.get("operations", ()))
    return "%d resets, allowed" % resets if resets else ""


def slice_map(diff: Data | None) -> tuple[str, ...]:
    """The slice maps before and after, without UUIDs. GPUs with the same maps share their lines."""
    if diff is None:
        return ()
    before, after = (_rows(diff[key]) for key in ("before", "after"))
    same: dict[tuple[str, str], list[int]] = {}
    for index in before:
        same.setdefault((before[index], after.get(index, "")), []).append(index)
    labels = {pair: "GPU%s %s" % ("s" * (len(indices) > 1), ranges(indices)) for pair, indices in same.items()}
    width = max(map(len, labels.values()), default=0)
    out = []
    for (old, new), label in labels.items():
        lines = ((" ", old),) if old == new else (("-", old), ("+", new))
        out += ["%s %s  %s" % (sign, label.ljust(width), drawn) for sign, drawn in lines]
    return tuple(out)


def ranges(numbers: t.Sequence[int]) -> str:
    """Sorted numbers, such as 0-3, 6."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join("%d" % run[0] if len(run) == 1 else "%d-%d" % (run[0], run[-1]) for run in runs)


def _rows(drawn: str) -> dict[int, str]:
    found = (_LINE.fullmatch(line) for line in drawn.splitlines())
    return {int(match.group(1)): match.group(2) for match in found if match}
