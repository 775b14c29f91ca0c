# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select driver packages from facts, settings and the package table: returns a plan or refuses."""

from __future__ import annotations

import contextlib
import re
import typing as t

from ...module_utils._common.data import Data
from .._common.refusal import Problems, Refusal
from .._layout import boards as layout_boards
from . import generations, sources
from .branch import select_branch
from .generations import GpuWithGeneration
from .modules import select_build, select_modules, select_stream
from .names import Placeholders, applies, fill, placeholders_of
from .nvlink import Services, nvlink_services
from .sources import DriverRequest

# Package names that a package manager cannot interpret as an option or a pattern.
_PACKAGE = re.compile("[A-Za-z0-9][A-Za-z0-9+._:-]*")
# Names of the packages that belong to the driver. The last pattern that matches decides.
_FAMILY = ["*nvidia*", "libcuda*", "cuda-drivers*", "libnv*", "!*container*", "!linux-*", "linux-modules-nvidia-*"]


def plan_driver(table: Data, node: Data, settings: Data) -> Data:
    """The driver that a node should have. Raises Refusal if the settings do not fit the node or its operating system, with
    the problems of all steps that need no result of a refused one.

    ``table`` is that of the operating system, ``node`` has facts, and ``settings`` has the role's variables without their
    prefix.
    """
    problems = Problems()
    boards: t.List[Data] = []
    with problems.collected():
        named = [layout_boards.data(name) for name in settings["boards"]]
        found = _gpus_with_generations(node, named)
        boards = named or _known_boards(node["gpus"])
        supporting = generations.supporting_modules(found) if settings["kernel_modules"] != "none" else ()
    with problems.collected():
        request = sources.select_source(table, node, settings)
        with problems.collected():
            nvlink = nvlink_services(request, boards)
        branch = select_branch(request)
    with problems.collected():
        _check_package_names(settings)
    problems.refuse()
    version = settings["version"] or branch["installs"]
    minimum, minimum_board = _minimum(boards)
    with problems.collected():
        generations.check_branch(found, int(branch["installs"]))
        _check_minimum(minimum, minimum_board, version)
    with problems.collected():
        modules = select_modules(request, found, supporting, branch)
    problems.refuse()
    placeholders = placeholders_of(request, branch, modules)
    build = select_build(request, modules, placeholders)
    headers = _headers(request, placeholders) if build == "dkms" else ""
    names = _package_entries(request, build, nvlink)
    packages = [*dict.fromkeys(filter(None, (fill(name, placeholders) for name in names if applies(name, version))))]
    return {
        "manager": request.table["manager"],
        "family": _FAMILY,
        # Packages of the driver that have their own versions.
        "independent": request.table["independent"],
        "source": request.source_name,
        "branch": branch["installs"],
        "version": settings["version"],
        "modules": modules,
        "build": build,
        # Without these, DKMS builds no modules for the running kernel.
        "headers": headers,
        "packages": packages,
        **_ubuntus_modules(request, build, placeholders, packages),
        "fabric_manager": nvlink.fabric_manager,
        "services": _services(settings, nvlink),
        # Needed by the fabric manager of NVLink 5.
        "load_modules": ["ib_umad"] if nvlink.nvlink5 else [],
        "module_options": _module_options(boards) if modules != "none" else {},
        "persistence_override": bool(settings["persistenced"] and request.source.get("persistence_mode_off")),
        "module_stream": select_stream(request, modules, build, placeholders),
        "module_stream_optional": bool(request.source.get("module_stream_optional")),
        "repository": sources.cuda_repository(request) if request.source_name == "cuda_repository" else {},
        "minimum_version": minimum,
        "minimum_board": minimum_board,
        "notices": request.notices,
    }


def _gpus_with_generations(node: Data, boards: t.Sequence[Data]) -> t.List[GpuWithGeneration]:
    if boards:
        return [
            GpuWithGeneration(board["model"], generations.generation(device_id))
            for board in boards
            for device_id in list(board["pci_device_ids"])[:1]
        ]
    found = []
    if node["gpus"] is None or any(gpu["pci_device_id"] is None for gpu in node["gpus"]):
        raise Refusal(
            "the GPUs on the node's PCI bus cannot be read; check that /sys is readable there, or set "
            "nvidia_driver_boards"
        )
    for gpu in node["gpus"]:
        title = "GPU %s (%s)" % (gpu["pci_bus_id"], gpu.get("name") or "PCI device %s" % gpu["pci_device_id"])
        found.append(GpuWithGeneration(title, generations.generation(gpu["pci_device_id"])))
    if not found:
        raise Refusal(
            "no NVIDIA GPU is on the PCI bus; remove the node from the group, or set nvidia_driver_boards to the boards "
            "that it will have"
        )
    return found


def _known_boards(gpus: t.Sequence[Data]) -> t.List[Data]:
    """The boards of the GPUs, except for unknown ones."""
    boards = []
    for gpu in gpus:
        with contextlib.suppress(layout_boards.BoardError):
            boards.append(layout_boards.data(gpu["pci_device_id"]))
    return boards


def _headers(request: DriverRequest, placeholders: Placeholders) -> str:
    if not placeholders["headers"]:
        request.notices.append(
            "Kernel %s is not one of %s's. DKMS needs its headers, which must be installed already."
            % (request.node["kernel"], request.table["title"])
        )
    return placeholders["headers"]


def _package_entries(request: DriverRequest, build: str, nvlink: Services) -> t.List[t.Union[str, Data]]:
    """The packages as the table and the settings name them."""
    source, settings = request.source, request.settings
    names = [*settings["packages"]] or [
        *(source.get("prebuilt", {}).get("packages", ()) if build == "prebuilt" else ()),
        *source["packages"][settings["flavour"]][build],
        *(source["persistenced"] if settings["persistenced"] else ()),
    ]
    for key, needed in nvlink._asdict().items():
        names += source.get(key, ()) if needed else ()
    return [*names, *settings["extra_packages"]]


def _ubuntus_modules(request: DriverRequest, build: str, placeholders: Placeholders, packages: t.Sequence[str]) -> Data:
    signed = build == "prebuilt" and request.table["family"] == "ubuntu"
    own = "linux-modules-nvidia-{branch}{server}{open}-" + request.node["kernel"]
    return {
        # Modules of the running kernel, installed if they exist for the driver's version.
        "optional_packages": [fill(own, placeholders)] if signed else [],
        # These install later kernels and modules for them. They are held with the driver.
        "kernel_packages": [name for name in packages if signed and name.startswith("linux-")],
    }


def _services(settings: Data, nvlink: Services) -> t.List[str]:
    return [
        *(["nvidia-persistenced.service"] if settings["persistenced"] else ()),
        *(["nvidia-fabricmanager.service"] if nvlink.fabric_manager else ()),
    ]


def _check_package_names(settings: Data) -> None:
    problems = Problems(
        "nvidia_driver_%s contains %r, which is not a package name" % (variable, name)
        for variable in ("packages", "extra_packages")
        for name in settings[variable]
        if name is None or not _PACKAGE.fullmatch(name)
    )
    problems.refuse()


def _minimum(boards: t.Sequence[Data]) -> t.Tuple[str, str]:
    """The highest minimum driver of the boards, and the board that needs it."""
    needed = [(board["minimum_driver"], board["model"]) for board in boards if board["minimum_driver"]]
    return max(needed, key=lambda each: (layout_boards.numbers(each[0]), *each), default=("", ""))


def _check_minimum(minimum: str, board: str, version: str) -> None:
    """``version`` may be a branch."""
    if minimum and layout_boards.is_older(version, minimum):
        raise Refusal(
            "%s needs driver %s or later, and %s would be installed; set nvidia_driver_branch%s"
            % (board, minimum, version, " or nvidia_driver_version" if "." in version else "")
        )


def _module_options(boards: t.Sequence[Data]) -> t.Dict[str, str]:
    return {name: value for board in boards for name, value in board.get("kernel_module_options", {}).items()}
