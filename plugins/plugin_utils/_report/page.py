# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The page: one file without requests. Everything in it that comes from nodes is escaped by Jinja2's autoescape."""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ...module_utils._common.data import Data
from . import colours, slices
from .compare import Change, changes
from .data import HostReport, Problem, Report
from .slices import Map, Slice

_FOLDER = Path(__file__).parent
# How the page calls the kinds of problems, and how grave they are, in this order.
KINDS = {
    "unreachable": ("cannot be reached", "bad"),
    "failed": ("cannot be read", "bad"),
    "variables": ("variables cannot be read", "bad"),
    "unreadable": ("GPU or driver cannot be read", "bad"),
    "duplicate": ("GPU of two hosts", "bad"),
    "boards": ("boards differ", "bad"),
    "service": ("out of service", "warn"),
    "layout": ("layout differs", "warn"),
    "cluster": ("cluster differs", "warn"),
    "unknown": ("layout not compared", "warn"),
    "driver": ("driver differs", "warn"),
    "toolkit": ("toolkit differs", "warn"),
}
CHANGES = {
    "host": "host",
    "driver": "driver",
    "toolkit": "container toolkit",
    "gpu": "GPU",
    "instances": "instances",
    "problem": "found since",
    "resolved": "resolved since",
}
MARKS = {slices.BUSY: "\u25cf", slices.IDLE: "\u25cb", slices.UNKNOWN: "?"}  # meaning without colour
_NAMED = " (named by the inventory)"
_FEW = 6  # places of a problem that are shown at once
_MODES = {"on": "MIG on", "off": "MIG off", "unsupported": "no MIG", "unknown": "MIG state unknown"}


class Row(t.NamedTuple):
    """A GPU on the page."""

    map: Map
    uses: str  # of its slices
    problems: t.Sequence[Problem]
    desired: t.Optional[t.Sequence[Slice]]  # if the layout differs
    named: t.Optional[str]  # the board of the inventory, if that of the GPU is unknown

    @property
    def board(self) -> str:
        return self.named or self.map.board


class Group(t.NamedTuple):
    """Problems with the same text."""

    kind: str
    text: str
    where: t.Sequence[tuple[t.Any, t.Sequence[int]]]  # sections, and indices of GPUs


class Section(t.NamedTuple):
    """A host on the page."""

    number: int
    name: str
    host: HostReport
    rows: t.Sequence[Row]
    problems: t.Sequence[Problem]  # those of no GPU on the page

    @property
    def boards(self) -> str:
        """Such as 8 x A100-80GB."""
        names = Counter(row.board + _NAMED * bool(row.named) for row in self.rows)
        return ", ".join("%d \u00d7 %s" % (count, name) for name, count in names.items())

    @property
    def unread_boards(self) -> t.Sequence[str]:
        """Of a host whose GPUs are unknown: those of the inventory."""
        return list(dict.fromkeys(_models(self.host) or [slices.UNKNOWN])) if self.host.gpus is None else []

    @property
    def severity(self) -> str:
        """That of its gravest problem; empty without problems."""
        kinds = {problem.kind for problem in self.host.problems}
        return next((severity for kind, (_name, severity) in KINDS.items() if kind in kinds), "")


def render(
    report: Report, gpus: t.Mapping[str, t.Sequence[Map]], totals: Data, previous: Report | None, data: str
) -> str:
    """The page. ``data`` is the name of the JSON file beside it."""
    sections = [_section(number, name, report.hosts[name], gpus[name]) for number, name in enumerate(_ordered(gpus))]
    style, script = colours.css() + _text("page.css"), _text("page.js")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.globals.update(
        kinds=KINDS,
        change_kinds=CHANGES,
        marks=MARKS,
        modes=_MODES,
        label=label,
        short=short,
        percent=percent,
        few=_FEW,
        named=_NAMED,
    )
    environment.filters["counted"] = counted
    return environment.from_string(_text("page.html.j2")).render(
        report=report,
        totals=totals,
        sections=sections,
        number_of={section.name: section.number for section in sections},
        groups=_groups(sections),
        previous=previous,
        data=quote(data),
        changes=None if previous is None else _sorted_changes(changes(previous, report)),
        use={each: sum(row[each] for row in totals["profiles"]) for each in MARKS},
        boards=sorted(
            {board for each in sections for board in (*(row.board for row in each.rows), *each.unread_boards)}
        ),
        unknown_use=_unknown_use(sections, totals),
        out_of_service=_out_of_service(report),
        notes=_notes(report),
        nodes=_nodes(report),
        style=Markup(style),  # ours
        script=Markup(script),
        policy="default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'"
        % (_hash(style), _hash(script)),
    )


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression of a content security policy that allows only this text."""
    return "sha256-%s" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _ordered(names: t.Iterable[str]) -> list[str]:
    """In natural order: gpu2 before gpu10."""
    return sorted(
        names,
        key=lambda name: [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)],
    )


def _section(number: int, name: str, host: HostReport, gpus: t.Sequence[Map]) -> Section:
    shown = {gpu.index for gpu in gpus if gpu.index is not None}
    boards = _named_boards(host, gpus)
    rows = [
        _row(gpu, [each for each in host.problems if each.gpu is not None and each.gpu == gpu.index], boards)
        for gpu in gpus
    ]
    return Section(number, name, host, rows, [each for each in host.problems if each.gpu not in shown])


def _named_boards(host: HostReport, gpus: t.Sequence[Map]) -> dict[int, str]:
    """The boards of gpu_node_boards by index of the GPU; empty if it names more or fewer."""
    indices = sorted(gpu.index for gpu in gpus if gpu.index is not None)
    models = _models(host)
    return dict(zip(indices, models, strict=True)) if len(indices) == len(models) else {}


def _models(host: HostReport) -> list[str]:
    """Those of gpu_node_boards, which can also be products."""
    return [str((slices.board_of(name) or {"model": name})["model"]) for name in host.boards or ()]


def _row(gpu: Map, problems: t.Sequence[Problem], boards: t.Mapping[int, str]) -> Row:
    uses = " ".join(dict.fromkeys(each.use for each in gpu.slices)) or slices.UNKNOWN * gpu.unreadable
    desired = next((each.desired for each in problems if each.desired is not None), None)
    named = boards.get(gpu.index) if gpu.index is not None and gpu.board == slices.UNKNOWN else None
    return Row(gpu, uses, problems, None if desired is None else _desired(desired, gpu.units), named)


def _desired(rows: t.Sequence[Data], units: int) -> list[Slice]:
    if not rows:
        return [Slice("MIG off or empty", 0, units, "desired")]
    return [Slice(str(row["profile"]), row["start"], row["size"], "desired") for row in rows]


def _groups(sections: t.Sequence[Section]) -> list[Group]:
    """All problems, each text once: the gravest kind first, then that of most hosts."""
    order = list(KINDS)
    found: dict[tuple[str, str], dict[int, list[int]]] = {}
    for section in sections:
        for problem in section.host.problems:
            gpus = found.setdefault((problem.kind, problem.text), {}).setdefault(section.number, [])
            gpus.extend([] if problem.gpu is None else [problem.gpu])
    groups = [
        Group(kind, text, [(sections[number], gpus) for number, gpus in where.items()])
        for (kind, text), where in found.items()
    ]
    return sorted(groups, key=lambda group: (order.index(group.kind), -len(group.where)))


def _sorted_changes(found: t.Sequence[Change]) -> list[Change]:
    order = list(CHANGES)
    return sorted(found, key=lambda change: order.index(change.kind))


def _notes(report: Report) -> list[str]:
    """Problems of the cluster that belong to no host."""
    if report.cluster is None:
        return []
    if report.cluster.error:
        return ["The cluster cannot be read: %s" % report.cluster.error]
    others = [name for name in _ordered(report.cluster.nodes) if report.cluster.nodes[name]["host"] is None]
    return ["Nodes of the cluster with GPUs that are no hosts of this report: %s" % ", ".join(others)] if others else []


def _unknown_use(sections: t.Sequence[Section], totals: Data) -> str:
    """The GPUs whose instances are in no total; empty if there are none."""
    hosts = sum(section.host.gpus is None or any(row.map.unreadable for row in section.rows) for section in sections)
    if not hosts:
        return ""
    named = totals["gpus_named"]
    gpus = "GPUs" if named is None else counted(totals["gpus_unread"] + named, "GPU")
    return "%s of %s unknown" % (gpus, counted(hosts, "host"))


def _out_of_service(report: Report) -> tuple[str, str]:
    """The number of hosts and of other nodes, which only a cluster shows completely, and the reason or all nodes."""
    found = sum(any(each.kind == "service" for each in host.problems) for host in report.hosts.values())
    if report.cluster is not None and not report.cluster.error:
        nodes = report.cluster.nodes.values()
        found += sum(bool(node["out_of_service"]) for node in nodes if node["host"] is None)
        return str(found), "of %s" % counted(len(nodes), "GPU node")
    reason = "no cluster configured" if report.cluster is None else "cluster cannot be read"
    return "at least %d" % found if found else "unknown", reason


def _nodes(report: Report) -> list[tuple[str, Data]]:
    """The nodes of the cluster, those with differences first."""
    nodes = report.cluster.nodes if report.cluster else {}

    def matches(node: Data) -> bool:
        same = node["expected"] in (None, node["allocatable"])
        return bool(node["host"] and node["ready"] and not node["out_of_service"] and same)

    return sorted(((name, nodes[name]) for name in _ordered(nodes)), key=lambda pair: matches(pair[1]))


def label(gpu: Map, problems: t.Sequence[Problem]) -> str:
    """The map in words, for screen readers. The page shows problems below it."""
    if gpu.unreadable:
        return "unknown" if problems else "unknown: %s" % gpu.note
    parts = ["%s at %d:%d %s" % (each.profile, each.start, each.size, each.use) for each in gpu.slices]
    return "%s. %s" % (_MODES[gpu.mode], "; ".join(parts) or "no instances")


def short(profile: str) -> str:
    """A profile for a narrow cell: without its memory."""
    return re.sub(r"\.\d+gb", "", profile)


def counted(number: int, noun: str) -> str:
    return "%d %s%s" % (number, noun, "" if number == 1 else "s")


def percent(part: float, whole: float) -> str:
    return "%.4g%%" % (100 * part / whole if whole else 0)
