# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The table and the maps of a rehearsal, as text."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...module_utils._common.text import listed
from .outcome import Outcome

_COLUMNS = ("host", "GPUs", "kept", "destroyed", "created", "needs", "result")
_MAX_HOSTS = 8  # named in a heading
_MAX_REMOVED = 40


def text_of(outcomes: t.Sequence[Outcome], pods: t.Sequence[str] = (), removed: t.Sequence[str] = ()) -> str:
    """The table of all hosts, then notes, maps and resources, each once for the hosts that share them, and pods.

    ``removed`` are hosts that are not in the inventory any more. Each pod keeps its line: names of manifests may contain line breaks.
    """
    parts = [
        table([_COLUMNS, *map(_row, outcomes)]),
        _shared("Notes", {each.host: each.notes for each in outcomes}),
        _shared("Problems", {each.host: each.problems for each in outcomes}),
        _shared("Maps", {each.host: each.map for each in outcomes}),
        _shared("Resources of nodes", {each.host: _resources(each) for each in outcomes}),
        "\n".join(["Pods:", *("  " + " ".join(line.split()) for line in pods)]) if pods else "",
        "Not in the inventory any more: %s" % listed(removed, ", ", _MAX_REMOVED) if removed else "",
        summary(outcomes),
    ]
    return "\n\n".join(filter(None, parts))


def table(rows: t.Sequence[t.Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _row(outcome: Outcome) -> tuple[str, ...]:
    numbers = (outcome.kept, outcome.destroyed, outcome.created)
    cells = ("?" if number is None else str(number) for number in numbers)
    return (outcome.host, outcome.gpus or "?", *cells, outcome.needs or "-", outcome.state)


def _shared(title: str, lines_of: t.Mapping[str, t.Sequence[str]]) -> str:
    """A section with the lines of each host; those of several hosts once."""
    hosts: dict[tuple[str, ...], list[str]] = {}
    for host, lines in lines_of.items():
        if lines:
            hosts.setdefault(tuple(lines), []).append(host)
    out = [title + ":"] if hosts else []
    for lines, names in hosts.items():
        number = " (%d hosts)" % len(names) if len(names) > 1 else ""
        out.append("  %s%s" % (listed(names, ", ", _MAX_HOSTS), number))
        out.extend("    " + part for line in lines for part in line.splitlines())
    return "\n".join(out)


def _resources(outcome: Outcome) -> list[str]:
    """The resources before and after the change."""
    after, before = outcome.resources, outcome.resources_before
    if after is None:
        return []
    names = sorted({*after, *(before or {})})
    return ["%s: %s" % (name, _count(name, before, after)) for name in names] or ["none"]


def _count(name: str, before: t.Mapping[str, int] | None, after: t.Mapping[str, int]) -> str:
    then, now = "?" if before is None else str(before.get(name, 0)), str(after.get(name, 0))
    return now if then == now else "%s -> %s" % (then, now)


def summary(outcomes: t.Sequence[Outcome]) -> str:
    """How many hosts have which result."""
    states = Counter(each.state for each in outcomes)
    return "Hosts: %d (%s)" % (len(outcomes), ", ".join("%s: %d" % pair for pair in sorted(states.items())))
