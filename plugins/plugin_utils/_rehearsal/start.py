# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the hosts of a rehearsal start from: a report, a former inventory or empty GPUs; and the instances with work."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._common.data import Data
from ...module_utils._common.text import did_you_mean, nearest, short
from .._common.refusal import Refusal
from .._report import data as report_data
from .._report.data import HostReport, Report

EMPTY = "empty"
_PREFIX = "rehearse_"
VARIABLES = ("rehearse_activation", "rehearse_busy", "rehearse_from", "rehearse_pods")
_KEYS = ("host", "gpu", "profile", "start", "count", "name")
_NUMBERS = ("gpu", "start", "count")
_EMPTY_FILE = "rehearse_busy: %s is empty: give [] if nothing is in use"
_NO_WORK = "it is unknown which instances are in use%s, so they are taken as idle; of the report of rehearse_busy: %s"
_NO_LIST = "rehearse_busy is no list (%s): give it as -e '{\"rehearse_busy\": [...]}', or the path of a file"
_NO_HOST = (
    "rehearse_from: %s has no host of the inventory: give a former inventory or a report's JSON, or rehearse_from=empty "
    "if all GPUs start without MIG"
)
_FORM = "give a list of {host: gpu-01, gpu: 0, profile: 3g.40gb}, a file with such a list, or a report"


@dataclasses.dataclass
class Start:
    """One host. Without ``gpus``, those of gpu_node_boards; without ``layout``, MIG is off."""

    gpus: list[Data] | None = None  # of the facts
    layout: object = None
    driver: str = ""
    busy: list[Data] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    error: str = ""  # why the report or the former inventory has nothing of the host


def require_known_names(variables: t.Iterable[str]) -> None:
    """Raises Refusal for a misspelled variable of the rehearsal."""
    for name in variables:
        if name.startswith(_PREFIX) and name not in VARIABLES:
            raise Refusal("unknown variable %s%s" % (name, did_you_mean(nearest(name, VARIABLES))))


def report_of(path: Path) -> Report | None:
    """The report in a file, or in the directory of a report; None if it is something else.

    Raises Refusal for a report that is unusable.
    """
    if (path / "index.html").is_file():  # an inventory may contain a report's JSON, but no page
        path = path / "report.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    except RecursionError:
        raise Refusal("%s cannot be read: its JSON is nested too deeply" % path) from None
    if not isinstance(found, dict) or found.get("format") != report_data.FORMAT:
        return None
    return report_data.of_file(path, found)


def removed(path: Path, former: t.Iterable[str], inventory: t.Collection[str]) -> list[str]:
    """The hosts of a former inventory or report that the inventory lacks. Raises Refusal if it has no other."""
    names = list(former)
    out = [name for name in names if name not in inventory]
    if len(out) == len(names):
        raise Refusal(_NO_HOST % path)
    return out


def of_report(host: HostReport | None) -> Start:
    """What a host starts from, by its entry in a report."""
    if host is None or host.facts is None or host.gpus is None:
        return Start(error="of the report: %s" % _why_unread(host))
    driver = str(host.facts["driver"].get("version") or "")
    gpus = _listed(host)
    layout, notes = layout_of(gpus)
    return Start(gpus, layout, driver, notes=notes)


def _why_unread(host: HostReport | None) -> str:
    return "the host is not in it" if host is None else host.error or "it has no GPUs of the host"


def _listed(host: HostReport) -> list[Data]:
    """The GPUs that the driver lists."""
    return [gpu for gpu in host.gpus or () if gpu["index"] is not None]


def layout_of(gpus: t.Sequence[Data]) -> tuple[list[Data], list[str]]:
    """The layout that creates the instances of facts, at their placements; and notes about GPUs that are unknown."""
    layout: list[Data] = []
    notes = []
    for gpu in gpus:
        mig = gpu["mig"]
        unknown = gpu.get("problem") or (mig.get("current") and mig.get("instances") is None and "no instances")
        if unknown:
            notes.append(
                "GPU %d starts without MIG, because the report could not read it: %s" % (gpu["index"], unknown)
            )
        elif mig.get("current"):
            devices = [_instance(gi) for gi in mig["instances"]]
            layout.append({"devices": [gpu["index"]], "mig_enabled": True, "mig_devices": devices or {}})
    return layout, notes


def _instance(gi: Data) -> Data:
    found: Data = {"profile": gi["profile"], "start": gi["start"]}
    if gi["compute_instances"]:
        found["compute_instances"] = [ci["profile"] for ci in gi["compute_instances"]]
    return found


def busy_of_report(host: HostReport | None) -> tuple[list[Data], list[str]]:
    """The instances that processes use, in the format of ``busy_of_list``; and notes about what is unknown."""
    if host is None or host.gpus is None:
        return [], [_NO_WORK % ("", _why_unread(host))]
    found: dict[tuple[t.Any, ...], Data] = {}
    notes = []
    for gpu in _listed(host):
        if gpu.get("processes") is None:
            notes.append(_NO_WORK % (" on GPU %d" % gpu["index"], gpu.get("problem") or "it has no list of processes"))
        placed = {gi["id"]: gi for gi in gpu["mig"].get("instances") or ()}
        for process in gpu.get("processes") or ():
            gi = placed.get(process.get("gi_id"), {})
            name = "%s, PID %s in the report" % (process.get("name"), process.get("pid"))
            key = gpu["index"], gi.get("start")
            found.setdefault(key, _busy(gpu["index"], gi.get("profile"), gi.get("start"), None, name))
    return list(found.values()), notes


def busy_entries(value: object) -> list[Data]:
    """The list of rehearse_busy, as it is, as text or in the file that it names, validated. Raises Refusal."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = _of_text(value) if value.lstrip().startswith("[") else _of_file(Path(value).expanduser())
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise Refusal("rehearse_busy is %s: %s" % (short(value), _FORM))
    for entry in value:
        for key in entry:
            if key not in _KEYS:
                raise Refusal("rehearse_busy: unknown key %s%s" % (short(key), did_you_mean(nearest(str(key), _KEYS))))
        wrong = [key for key in _NUMBERS if not str(entry.get(key, 0)).isdecimal()]
        if wrong or not isinstance(entry.get("host"), str):
            problem = "%s of %s is no number" % (wrong[0], short(entry)) if wrong else "%s names no host" % short(entry)
            raise Refusal("rehearse_busy: %s: %s" % (problem, _FORM))
    return value


def _of_text(text: str) -> object:
    try:
        return yaml_load(str(text))  # without the tags of Ansible, which YAML does not accept
    except Exception as error:  # of YAML
        raise Refusal(_NO_LIST % " ".join(str(error).split())) from error


def _of_file(path: Path) -> object:
    try:
        value = yaml_load(path.read_text(encoding="utf-8"))
    except Exception as error:  # of YAML
        raise Refusal("rehearse_busy: %s cannot be read: %s" % (path, error)) from error
    if value is None or value == {}:
        raise Refusal(_EMPTY_FILE % path)
    return t.cast(object, value)


def busy_of_list(entries: t.Sequence[Data], host: str) -> list[Data]:
    """What the entries say of a host."""
    return [
        _busy(
            _number(entry.get("gpu")),
            entry.get("profile"),
            _number(entry.get("start")),
            _number(entry.get("count")),
            str(entry.get("name") or "work of rehearse_busy"),
        )
        for entry in entries
        if entry["host"] == host
    ]


def _busy(gpu: int | None, profile: str | None, start: int | None, count: int | None, name: str) -> Data:
    values = {"gpu": gpu, "profile": profile, "start": start, "count": count}
    text = ", ".join("%s: %s" % pair for pair in values.items() if pair[1] is not None)
    return {**values, "name": name, "text": "{%s}" % text}


def _number(value: object) -> int | None:
    return None if value is None else int(str(value))
