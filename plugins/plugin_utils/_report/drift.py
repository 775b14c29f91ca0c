# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Differences between the inventory and a node, and GPUs that cannot be read."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._common.text import listed
from ...module_utils._mig import layout as layouts
from ...module_utils._mig import messages
from ...module_utils._mig.errors import LayoutError, MigError
from ...module_utils._mig.model import Board, Gpu, LostGpu
from ...module_utils._mig.operations import CREATE_CI, DESTROY_CI, Plan
from ...module_utils._mig.plan_node import plan_request
from .._common.refusal import Refusal
from .._inventory import board_differences
from .._layout import gpus as layout_gpus
from .data import HostReport, Problem


def of_host(host: HostReport) -> list[Problem]:
    """All problems of a host that do not need the cluster, after those of reading it."""
    if host.facts is None:
        return list(host.problems)
    return [
        *host.problems,
        *_service(host),
        *_unreadable(host),
        *_boards(host),
        *_versions(host),
        *_layout(host),
    ]


def duplicates(hosts: t.Mapping[str, HostReport]) -> t.Iterator[tuple[str, Problem]]:
    """Hosts that report GPUs with the same UUIDs, such as two hosts of the inventory that are one machine."""
    owners: dict[str, dict[str, None]] = {}
    for name, host in hosts.items():
        for gpu in host.gpus or ():
            if gpu.get("uuid"):
                owners.setdefault(str(gpu["uuid"]), {})[name] = None
    shared = {uuid: names for uuid, names in owners.items() if len(names) > 1}
    for name in dict.fromkeys(name for names in shared.values() for name in names):
        own = [uuid for uuid, names in shared.items() if name in names]
        others = dict.fromkeys(other for uuid in own for other in shared[uuid] if other != name)
        text = "GPU UUID %s is also reported by %s. Compare the addresses of these hosts, such as ansible_host"
        yield name, Problem("duplicate", text % (listed(own, ", "), listed(list(others), ", ")))


def _service(host: HostReport) -> list[Problem]:
    text = "out of service since gpu_node_drain_tasks. Run site.yml, which returns it with gpu_node_return_tasks"
    return [Problem("service", text)] if host.drained else []


def _unreadable(host: HostReport) -> list[Problem]:
    has_none = host.gpus == [] and not host.boards  # such as a server of a cluster
    driver = None if has_none else (host.facts or {})["driver"].get("problem")
    found = [Problem("unreadable", "the driver cannot be used: %s" % _sentence(driver))] if driver else []
    if host.gpus is None and not driver:
        found.append(Problem("unreadable", "neither the driver nor the PCI bus can be read"))
    for gpu in host.gpus or ():
        if gpu.get("problem"):
            # Without its index, GPUs with the same problem have the same text.
            text = _sentence(gpu["problem"]).replace("GPU %s: " % gpu["index"], "")
            found.append(Problem("unreadable", text, gpu["index"]))
        elif gpu["index"] is None and not driver:
            text = "%s is on the PCI bus, but the driver does not list it" % gpu.get("pci_bus_id")
            found.append(Problem("unreadable", text))
    return found


def _boards(host: HostReport) -> list[Problem]:
    try:
        found = board_differences.inventory_differences({"gpu_node_boards": host.boards}, host.gpus)
    except Refusal as error:
        found = [str(error)]
    return [Problem("boards", text) for text in found]


def _versions(host: HostReport) -> list[Problem]:
    facts: Data = host.facts or {}
    found = []
    running = facts["driver"].get("version")
    kernel = facts.get("kernel_module") or {}
    if kernel.get("versions_match") is False:
        text = "the kernel runs driver %s, and %s is installed. Reboot the node"
        found.append(Problem("driver", text % (kernel.get("loaded_version"), kernel.get("installed_version"))))
    desired, branch = host.requested.get("driver"), host.requested.get("branch")
    if running and desired and not _same(running, desired):
        found.append(Problem("driver", "driver %s, and nvidia_driver_version is %s" % (running, desired)))
    elif running and branch and branch.isdigit() and str(running).partition(".")[0] != branch:
        found.append(Problem("driver", "driver %s, and nvidia_driver_branch is %s" % (running, branch)))
    desired, toolkit = host.requested.get("toolkit"), host.toolkit or {}
    if desired and toolkit.get("version") and not _same(toolkit["version"], desired):
        text = "container toolkit %s, and nvidia_container_toolkit_version is %s"
        found.append(Problem("toolkit", text % (toolkit["version"], desired)))
    elif desired and toolkit.get("problem"):
        text = "container toolkit unknown (%s), and nvidia_container_toolkit_version is %s"
        found.append(Problem("toolkit", text % (_sentence(toolkit["problem"]), desired)))
    return found


def _same(version: object, package: str) -> bool:
    """Whether a version is that of a package, whose revision may follow."""
    return package.partition("-")[0] == str(version).partition("-")[0]


def _layout(host: HostReport) -> list[Problem]:
    """Differences from the layout, by GPU. GPUs that cannot be read are not compared."""
    if host.desired is None or not host.gpus:
        return []
    try:
        layout = layouts.parse(host.desired)
    except MigError as error:
        return [Problem("layout", "nvidia_mig_layout is invalid: %s" % _sentence(error))]
    known: list[Gpu] = []
    lost: list[LostGpu] = []
    found: list[Problem] = []
    for fact in host.gpus:
        if fact["index"] is None:
            continue
        try:
            layout_gpus.require_known(fact)
            known.append(layout_gpus.from_fact(fact, _board(fact)))
        except (LayoutError, Refusal) as error:
            lost.append(LostGpu(fact["index"], error))
            if not fact.get("problem"):
                found.append(Problem("unknown", "its layout cannot be compared: %s" % _sentence(error), fact["index"]))
    requests = layout.resolve(
        known, lost, lambda error: found.append(Problem("layout", "nvidia_mig_layout: %s" % _sentence(error)))
    )
    for gpu in known:
        if gpu.index in requests:
            try:
                found.extend(_difference(plan_request(gpu, requests[gpu.index], True, True)))
            except MigError as error:
                found.append(Problem("layout", _sentence(error), gpu.index))
    return found


def _board(fact: Data) -> Board:
    if fact["mig"].get("capable") is False:
        return Board(str(fact.get("name")), (), 0, 0, 0)
    return layout_gpus.board_of(fact)


def _difference(plan: Plan) -> list[Problem]:
    if not plan.changes:
        return []
    gpu = plan.gpu
    # Compute instances follow their GPU instances.
    whole = [each for each in plan.operations if each.kind not in (CREATE_CI, DESTROY_CI)] or plan.operations
    text = "to match nvidia_mig_layout: %s" % listed([messages.operation(each) for each in whole], most=6)
    desired = [
        *((kept.desired.profile.name, kept.instance.placement) for kept in plan.kept),
        *((created.desired.profile.name, created.placement) for created in plan.created),
    ]
    rows = [
        {"profile": name, "start": at.start, "size": at.size} for name, at in sorted(desired, key=lambda row: row[1])
    ]
    return [Problem("layout", text, gpu.index, rows if plan.target.enabled else [])]


def _sentence(text: object) -> str:
    return " ".join(str(text).split()).rstrip(".")
