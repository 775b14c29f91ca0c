# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Totals of a fleet: boards, instances by profile and use, versions, problems."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...module_utils._common.data import Data
from . import slices
from .data import HostReport, Report
from .slices import Map

_COLUMNS = ("gpus", "mig_on", "mig_off", "without_mig", "unreadable")
_MODES = {"on": "mig_on", "off": "mig_off", "unsupported": "without_mig"}
NOT_INSTALLED, UNKNOWN = "not installed", "unknown"


def maps(report: Report) -> dict[str, list[Map]]:
    """The GPUs of each host."""
    return {name: slices.of_host(host, report.cluster) for name, host in report.hosts.items()}


def totals(report: Report, gpus: t.Mapping[str, t.Sequence[Map]]) -> Data:
    """The totals, as the JSON file has them. GPUs of hosts that cannot be read are not in them."""
    return {
        "hosts": len(report.hosts),
        "hosts_unread": sum(host.gpus is None for host in report.hosts.values()),
        "hosts_with_problems": sum(bool(host.problems) for host in report.hosts.values()),
        "gpus": sum(map(len, gpus.values())),
        "gpus_unread": sum(each.unreadable for found in gpus.values() for each in found),
        "gpus_named": _named(report),
        "boards": _boards(gpus),
        "profiles": _profiles(gpus),
        "drivers": _versions(map(driver_version, report.hosts.values())),
        "toolkits": _versions(map(toolkit_version, report.hosts.values())),
        "resources": _resources(report),
        "problems": dict(Counter(problem.kind for host in report.hosts.values() for problem in host.problems)),
    }


def _named(report: Report) -> int | None:
    """The GPUs that gpu_node_boards names for hosts that cannot be read; None if one of these hosts has no boards."""
    unread = [host.boards for host in report.hosts.values() if host.gpus is None]
    return None if None in unread else sum(map(len, filter(None, unread)))


def _boards(gpus: t.Mapping[str, t.Sequence[Map]]) -> list[Data]:
    found: dict[str, Counter[str]] = {}
    hosts: dict[str, set[str]] = {}
    for name, of_host in gpus.items():
        for gpu in of_host:
            found.setdefault(gpu.board, Counter()).update(
                ["gpus", "unreadable" if gpu.unreadable else _MODES[gpu.mode]]
            )
            hosts.setdefault(gpu.board, set()).add(name)
    return [
        {"board": board, "hosts": len(hosts[board]), **{column: found[board][column] for column in _COLUMNS}}
        for board in sorted(found)
    ]


def _profiles(gpus: t.Mapping[str, t.Sequence[Map]]) -> list[Data]:
    found: dict[tuple[str, str], Counter[str]] = {}
    for of_host in gpus.values():
        for gpu in of_host:
            for each in gpu.slices:
                found.setdefault((gpu.board, each.profile), Counter()).update(["instances", each.use])
    columns = ("instances", slices.BUSY, slices.IDLE, slices.UNKNOWN)
    return [
        {"board": board, "profile": profile, **{column: found[board, profile][column] for column in columns}}
        for board, profile in sorted(found)
    ]


def _resources(report: Report) -> list[Data] | None:
    """What all nodes advertise, and what pods request of it; None without a cluster that can be read."""
    if report.cluster is None or report.cluster.error:
        return None
    found = {key: Counter[str]() for key in ("allocatable", "requested")}
    for node in report.cluster.nodes.values():
        for key, counts in found.items():
            counts.update(node[key])
    names = sorted({*found["allocatable"], *found["requested"]})
    return [
        {"resource": name, "advertised": found["allocatable"][name], "requested": found["requested"][name]}
        for name in names
    ]


def driver_version(host: HostReport) -> str:
    """The version, or that it is unknown or not installed."""
    if host.facts is None:
        return UNKNOWN
    driver = host.facts["driver"]
    return str(driver.get("version") or (UNKNOWN if driver.get("problem") else NOT_INSTALLED))


def toolkit_version(host: HostReport) -> str:
    """The same for the container toolkit."""
    if host.toolkit is None:
        return UNKNOWN
    missing = NOT_INSTALLED in str(host.toolkit.get("problem"))
    return str(host.toolkit.get("version") or (NOT_INSTALLED if missing else UNKNOWN))


def _versions(found: t.Iterable[str]) -> dict[str, int]:
    """The number of hosts, by version."""
    return dict(sorted(Counter(found).items()))
