# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs of the node, and how nvidia-smi addresses them: by UUID, because indices may change."""

from __future__ import annotations

import csv
import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from . import smi_log, smi_tables
from .command import CommandResult
from .smi_command import NvidiaSmi, command_line, not_understood
from .smi_errors import failure


class Listed(t.NamedTuple):
    """A GPU in the order of indices."""

    uuid: t.Optional[str]  # None: the GPU cannot be reached
    compute_capability: t.Optional[str] = None
    address: t.Optional[str] = None


def listed(smi: NvidiaSmi) -> t.List[Listed]:
    argv = ["--query-gpu=index,uuid,compute_cap,count", "--format=csv,noheader"]
    result = smi.result(argv)
    # If there is more text, or if -L lists GPUs, the GPUs exist but cannot be accessed.
    if result.out.strip() == "No devices were found" and not smi_tables.gpu_slots(smi.result(["-L"]).out):
        return []
    if result.rc != 0:
        raise failure(command_line(argv), result)
    rows = list(csv.reader(result.out.splitlines(), skipinitialspace=True))
    if any(len(row) != 4 or row[0] != str(index) or not row[1].startswith("GPU-") for index, row in enumerate(rows)):
        raise not_understood(argv, result)
    if any(row[3] != str(len(rows)) for row in rows):
        # nvidia-smi omits GPUs that this user may not access, and exits with status 0.
        raise failure(
            command_line(argv), CommandResult(codes.NO_PERMISSION, "%d of %s GPUs" % (len(rows), rows[0][3]), "")
        )
    return [Listed(uuid, _capability(capability), uuid) for _index, uuid, capability, _count in rows]


def reachable(smi: NvidiaSmi, problem: BackendError) -> t.List[Listed]:
    """The GPUs that ``-L`` lists, which works if one GPU is lost. Raises ``problem`` if it lists none.

    Given a UUID, nvidia-smi searches all GPUs, and fails if one is lost. Given a bus id, it does not.
    """
    slots = smi_tables.gpu_slots(smi.result(["-L"]).out)
    if not slots:
        raise problem
    return [_slot(smi, index, uuid) for index, uuid in enumerate(slots)]


def _slot(smi: NvidiaSmi, index: int, uuid: t.Optional[str]) -> Listed:
    lost = Listed(None)
    if uuid is None:
        return lost
    try:
        log = smi.query(["-q", "-x", "-i", str(index)], smi_log.parse)
        row = smi.query(["--query-gpu=compute_cap", "--format=csv,noheader", "-i", log.pci_bus_id], str)
    except BackendError:
        return lost
    return Listed(uuid, _capability(row.strip()), log.pci_bus_id) if log.uuid == uuid else lost


def _capability(text: str) -> t.Optional[str]:
    return text if text[:1].isdigit() else None
