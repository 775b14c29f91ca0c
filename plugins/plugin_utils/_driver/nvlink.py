# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Services for GPUs that NVSwitches or NVLink connect."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._common.refusal import Refusal
from .sources import DriverRequest, source_remedy


class Services(t.NamedTuple):
    """What is needed. Each field is also the key of the source's packages for it."""

    fabric_manager: bool
    nvlink5: t.List[str]  # boards that need nvlsm too
    imex: t.List[str]  # boards that need nvidia-imex


def nvlink_services(request: DriverRequest, boards: t.Sequence[Data]) -> Services:
    """Raises Refusal if the source lacks what the boards need."""
    fabric_manager = _fabric_manager(request, boards)
    nvlink5 = _with(boards, "hidden_nvswitches") if fabric_manager else []
    if nvlink5 and not request.source.get("nvlink5"):
        raise Refusal(
            "%s needs nvlsm in addition to the fabric manager, and %s has no such package%s"
            % (
                ", ".join(nvlink5),
                request.table["title"],
                source_remedy(request.table, "cuda_repository", "; set")
                or "; choose a newer release of the distribution",
            )
        )
    imex = _with(boards, "multi_node_nvlink")
    if imex:
        request.notices.append(
            "nvidia-imex is installed for %s. List the nodes of the NVLink domain in /etc/nvidia-imex/nodes_config.cfg "
            "and enable nvidia-imex.service." % ", ".join(imex)
        )
    return Services(fabric_manager, nvlink5, imex)


def _fabric_manager(request: DriverRequest, boards: t.Sequence[Data]) -> bool:
    table, source = request.table, request.source
    if not _needs_fabric_manager(request, boards):
        return False
    if not source.get("fabric_manager"):
        raise Refusal(
            "the node has NVSwitches, and %s has no fabric manager%s"
            % (table["title"], source_remedy(table, "cuda_repository", "; set"))
        )
    if source.get("fabric_manager_needs_server") and not request.settings["server"]:
        raise Refusal(
            "the node has NVSwitches, and %s's fabric manager fits the server series only; "
            "set nvidia_driver_server to true%s" % (table["title"], source_remedy(table, "cuda_repository"))
        )
    return True


def _needs_fabric_manager(request: DriverRequest, boards: t.Sequence[Data]) -> bool:
    node, settings = request.node, request.settings
    if settings["fabric_manager"] != "auto":
        return bool(settings["fabric_manager"] == "present")
    if node["nvswitches"] is None:
        raise Refusal(
            "the NVSwitches on the node's PCI bus cannot be read; check that /sys is readable there, or set "
            "nvidia_driver_fabric_manager to present or absent"
        )
    if node["nvswitches"]:
        return True
    hidden = _with(boards, "hidden_nvswitches")
    if hidden:
        request.notices.append(
            "The NVSwitches of HGX and DGX machines with %s are not on the PCI bus. Set nvidia_driver_fabric_manager to "
            "present on these." % ", ".join(hidden)
        )
    return False


def _with(boards: t.Sequence[Data], field: str) -> t.List[str]:
    """The models of the boards whose file sets the field to true, sorted."""
    return sorted({board["model"] for board in boards if board.get(field)})
