# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Query all GPUs of a node at once.

A call of nvidia-smi takes as long for one GPU as for all: 5 ms on a simulated node, seconds
on one with eight GPUs and no persistence daemon.
"""

from __future__ import annotations

import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from . import smi_log, smi_tables
from .smi_command import NvidiaSmi

_Row = t.TypeVar("_Row", smi_tables.InstanceRow, smi_tables.ComputeRow)


class Prefetched(t.NamedTuple):
    """The results for one GPU; None if the GPU must be queried separately."""

    log: smi_log.Log
    instances: t.Optional[t.List[smi_tables.InstanceRow]] = None
    compute_instances: t.Optional[t.List[smi_tables.ComputeRow]] = None
    listed: t.Optional[str] = None  # output of -L


def prefetch(uuids: t.Sequence[str], smi: NvidiaSmi) -> t.Dict[int, Prefetched]:
    """Results by GPU index, for those UUIDs that can be identified reliably."""
    logs = {log.uuid: log for log in smi.query(["-q", "-x"], smi_log.parse_all)}
    if set(logs) != set(uuids):
        return {}
    modes_on = [uuid for uuid in uuids if logs[uuid].mode_current]
    if not modes_on:
        return {index: Prefetched(logs[uuid]) for index, uuid in enumerate(uuids)}
    which = ["-i", ",".join(modes_on)]
    try:
        instances = _by_gpu(smi.query(["mig", "-lgi"] + which, smi_tables.instances))
        inside = _by_gpu(smi.query(["mig", "-lci"] + which, smi_tables.compute_instances))
    except BackendError as error:  # also raised if none of them has an instance
        if error.code == codes.TIMEOUT:
            raise  # the earlier results may be outdated
        return {index: Prefetched(logs[uuid]) for index, uuid in enumerate(uuids)}
    listed = smi.query(["-L"], str)
    # The tables contain GPU indices, which shift if a GPU has since fallen off the bus.
    if smi_tables.listed_gpus(listed) != dict(enumerate(uuids)):
        return {}
    # A GPU that is not in a table may be empty or may have been missed, so it is queried again.
    return {
        index: Prefetched(logs[uuid], instances.get(index), inside.get(index), listed)
        for index, uuid in enumerate(uuids)
    }


def _by_gpu(rows: t.Sequence[_Row]) -> t.Dict[int, t.List[_Row]]:
    found: t.Dict[int, t.List[_Row]] = {}
    for row in rows:
        found.setdefault(row.gpu, []).append(row)
    return found
