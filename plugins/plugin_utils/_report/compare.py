# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What has changed between two reports. A host that cannot be read in one of them is not compared further."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...module_utils._common.data import Data
from .data import HostReport, Problem, Report
from .totals import driver_version, toolkit_version


class Change(t.NamedTuple):
    """A change as a sentence without host and full stop."""

    host: str
    kind: str  # host, driver, toolkit, gpu, instances, problem, resolved
    text: str
    gpu: t.Optional[int] = None


def changes(before: Report, after: Report) -> list[Change]:
    """In the order of the hosts of the later report, and at the end hosts that it lacks."""
    found = []
    for name, host in after.hosts.items():
        former = before.hosts.get(name)
        found.extend([Change(name, "host", "it was added")] if former is None else _of_host(name, former, host))
    return [*found, *(Change(name, "host", "it was removed") for name in before.hosts if name not in after.hosts)]


def _of_host(name: str, before: HostReport, after: HostReport) -> list[Change]:
    found = []
    if before.facts is not None and after.facts is not None:
        found = [
            *_version("driver", driver_version(before), driver_version(after)),
            *_version("toolkit", toolkit_version(before), toolkit_version(after)),
            *_gpus(before, after),
        ]
    elif after.facts is not None:
        found = [Change("", "host", "it can be read again")]
    former, current = Counter(map(_key, before.problems)), Counter(map(_key, after.problems))
    found += [Change("", "problem", text, gpu) for _kind, gpu, text in (current - former)]
    found += [Change("", "resolved", text, gpu) for _kind, gpu, text in (former - current)]
    return [change._replace(host=name) for change in found]


def _version(kind: str, before: str, after: str) -> list[Change]:
    return [] if before == after else [Change("", kind, "from %s to %s" % (before, after))]


def _key(problem: Problem) -> tuple[str, int | None, str]:
    # ssh ends in different ways, and what a module that failed writes can have temporary paths.
    text = problem.text.split(": ")[0] if problem.kind in ("unreachable", "failed") else problem.text
    return problem.kind, problem.gpu, text


def _gpus(before: HostReport, after: HostReport) -> list[Change]:
    if before.gpus is None or after.gpus is None:
        return []
    former, current = ({_identity(gpu): gpu for gpu in host.gpus or ()} for host in (before, after))
    found = [
        Change("", "gpu", "%s was removed" % _name(gpu), gpu["index"])
        for each, gpu in former.items()
        if each not in current
    ]
    for each, gpu in current.items():
        if each not in former:
            found.append(Change("", "gpu", "%s was added" % _name(gpu), gpu["index"]))
        else:
            found.extend(Change("", "instances", text, gpu["index"]) for text in _instances(former[each], gpu))
    return found


def _identity(gpu: Data) -> object:
    return gpu.get("uuid") or gpu.get("pci_bus_id") or gpu["index"]


def _name(gpu: Data) -> str:
    return "%s %s" % (gpu.get("name") or "a GPU", gpu.get("uuid") or gpu.get("pci_bus_id") or "")


def _instances(before: Data, after: Data) -> list[str]:
    """Differences of MIG mode, instances and use of a GPU; none if its state is unknown in one of the reports."""
    modes = [gpu["mig"].get("current") for gpu in (before, after)]
    if None in modes:
        return []
    if modes[0] != modes[1]:
        return ["MIG mode from %s to %s" % tuple("on" if mode else "off" for mode in modes)]
    if before["mig"].get("instances") is None or after["mig"].get("instances") is None:
        return []
    former, current = (Counter(map(_place, gpu["mig"]["instances"])) for gpu in (before, after))
    texts = ["%s was destroyed" % each for each in former - current]
    texts += ["%s was created" % each for each in current - former]
    uuids = [{_place(one): _uuids(one) for one in gpu["mig"]["instances"]} for gpu in (before, after)]
    kept = sorted(set(uuids[0]) & set(uuids[1]))
    return texts + ["%s has another UUID" % each for each in kept if uuids[0][each] != uuids[1][each]]


def _place(instance: Data) -> str:
    return "%s at %d:%d" % (instance["profile"], instance["start"], instance["size"])


def _uuids(instance: Data) -> list[object]:
    return [each.get("uuid") for each in instance["compute_instances"]]
