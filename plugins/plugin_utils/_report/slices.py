# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The slices of each GPU: instances with placement, use and users, or the whole GPU."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._common.refusal import Refusal
from .._layout import boards as layout_boards
from .data import ClusterReport, HostReport

BUSY, IDLE, UNKNOWN = "busy", "idle", "unknown"
WHOLE = "whole GPU"  # the profile of a GPU without MIG instances, in totals


class Slice(t.NamedTuple):
    """A GPU instance, or a whole GPU with MIG off."""

    profile: str
    start: int
    size: int
    use: str  # busy: processes use it; idle; unknown: the driver does not report whether processes use it
    uuids: t.Sequence[str] = ()
    compute_instances: t.Sequence[str] = ()  # profiles
    users: t.Sequence[str] = ()  # pods, or processes without a pod


class Map(t.NamedTuple):
    """A GPU. Without slices, the note says why; ``unreadable`` if its state is unknown."""

    index: t.Optional[int]  # type: ignore[assignment]  # it hides tuple.index
    uuid: str
    bus_id: str
    product: str
    board: str  # the model, or the product if it is no known board
    mode: str  # on, off, unsupported, unknown
    units: int = 0  # length of the grid
    slices: t.Sequence[Slice] = ()
    note: str = ""
    unreadable: bool = False
    pending: t.Optional[bool] = None  # the mode after a reset, if it differs
    unplaced: t.Sequence[str] = ()  # with MIG on: processes on none of the instances, as the driver lists them


def of_host(host: HostReport, cluster: ClusterReport | None) -> list[Map]:
    """The GPUs of a host; empty if they are unknown, or if it has none."""
    pods = {
        str(pod["uid"]): "%s/%s" % (pod["namespace"], pod["name"])
        for pod in (cluster.nodes.get(host.node, {}).get("pods", ()) if cluster and host.node else ())
    }
    return [_map(gpu, pods) for gpu in host.gpus or ()]


def _map(gpu: Data, pods: t.Mapping[str, str]) -> Map:
    mig = gpu["mig"]
    board = board_of(gpu.get("pci_device_id"), gpu.get("name"))
    out = Map(
        index=gpu["index"],
        uuid=str(gpu.get("uuid") or ""),
        bus_id=str(gpu.get("pci_bus_id") or ""),
        product=str(gpu.get("name") or ""),
        board=board["model"] if board else str(gpu.get("name") or UNKNOWN),
        mode=_mode(mig),
        units=int((board or {}).get("memory_units") or 0),
    )
    if gpu["index"] is None:
        return out._replace(note="the driver does not list it", unreadable=True)
    if out.mode == UNKNOWN or (out.mode == "on" and mig.get("instances") is None):
        problem = str(gpu.get("problem") or "the driver does not report its MIG state")
        return out._replace(note=problem, unreadable=True)
    pending = mig.get("pending")
    if out.mode in ("on", "off") and pending is not None and pending != mig["current"]:
        out = out._replace(pending=pending)
    processes = gpu.get("processes")
    if out.mode != "on":
        units = out.units or 1
        users = None if processes is None else [_user(each, pods) for each in processes]
        return out._replace(units=units, slices=[_slice(WHOLE, 0, units, users)])
    slices = [_instance(each, processes, pods) for each in mig["instances"]]
    ids = [each["id"] for each in mig["instances"]]
    unplaced = [_user(each, pods) for each in processes or () if each.get("gi_id") not in ids]
    if unplaced:  # these may use any instance
        slices = [each._replace(use=UNKNOWN) if each.use == IDLE else each for each in slices]
    ends = [each.start + each.size for each in slices]
    note = "" if slices else "MIG is on, without instances"
    slices.sort(key=lambda one: one.start)
    return out._replace(units=max([out.units, *ends]), slices=slices, note=note, unplaced=unplaced)


def _mode(mig: Data) -> str:
    if mig.get("capable") is None:
        return UNKNOWN
    if not mig["capable"]:
        return "unsupported"
    return UNKNOWN if mig.get("current") is None else "on" if mig["current"] else "off"


def _instance(instance: Data, processes: t.Sequence[Data] | None, pods: t.Mapping[str, str]) -> Slice:
    users = None
    if processes is not None:
        users = [_user(each, pods) for each in processes if each.get("gi_id") == instance["id"]]
    parts = instance["compute_instances"]
    out = _slice(instance["profile"], instance["start"], instance["size"], users)
    return out._replace(
        uuids=[str(each["uuid"]) for each in parts if each.get("uuid")],
        compute_instances=[str(each.get("profile")) for each in parts],
    )


def _slice(profile: str, start: int, size: int, users: t.Sequence[str] | None) -> Slice:
    use = UNKNOWN if users is None else BUSY if users else IDLE
    return Slice(profile, start, size, use, users=list(dict.fromkeys(users or ())))


def _user(process: Data, pods: t.Mapping[str, str]) -> str:
    """The process, with its pod if it has one."""
    name = "%s (PID %s)" % (process.get("name") or "unknown", process.get("pid"))
    uid = process.get("pod_uid")
    if not uid:
        return name
    return "%s in pod %s" % (name, pods.get(str(uid), uid))


def board_of(*names: object) -> Data | None:
    """The data of the board with one of these names, such as its PCI device id; None if it is unknown."""
    for name in names:
        if name:
            try:
                return layout_boards.data(str(name))
            except (MigError, Refusal):
                continue
    return None
