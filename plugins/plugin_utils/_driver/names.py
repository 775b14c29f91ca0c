# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The names of packages: the placeholders in the tables, and the packages of a kernel."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.data import Data
from .._layout import boards as layout_boards
from .generations import OPEN
from .sources import DriverRequest

# Branches from which on the names of NVIDIA's packages have no branch: NVSwitch and NVLink packages, and all others.
_UNSUFFIXED_FABRIC = 580
_UNSUFFIXED = 590
# Series and flavour: 6.8.0-149-generic, 6.8.0-1067-nvidia-lowlatency, 6.11.0-1016-nvidia-64k
_UBUNTU_KERNEL = re.compile(r"(\d+\.\d+)\.\d+-\d+-([a-z][a-z0-9-]*)$")
# Release and flavour: "5.14.0-503.el9.x86_64+rt".
_EL_KERNEL = re.compile(r"(\S+\.el\d+(?:_\d+)?\.[^.+]+)(?:\+(\w+))?$")
_DEBIAN_KERNEL = re.compile(r"-((?:cloud-|rt-)?(?:amd64|arm64))$")

Placeholders = t.Mapping[str, str]


def placeholders_of(request: DriverRequest, branch: Data, modules: str) -> Placeholders:
    """Values of the placeholders in the table's names."""
    table, node, settings = request.table, request.node, request.settings
    number = branch["installs"]
    is_open = modules == OPEN
    series = _ubuntu_series(table, node)
    el_kernel = _EL_KERNEL.match(node["kernel"])
    return {
        "branch": number,
        "suffix": "-" + number if int(number) < _UNSUFFIXED else "",
        "fabric_suffix": "-" + number if int(number) < _UNSUFFIXED_FABRIC else "",
        "server": "-server" if settings["server"] else "",
        "open": "-open" if is_open else "",
        "meta": "nvidia-open" if is_open else "cuda-drivers",
        "kmod": "open" if is_open else "latest",
        "version": settings["version"],
        # As in names of precompiled modules; empty if there are none for the flavour: 5.14.0-611.24.1
        "kernel": el_kernel.group(1).split(".el")[0] if el_kernel and not el_kernel.group(2) else "",
        "headers": _headers(table, node),
        "later_headers": _later_headers(table, node, series),
        "series": series,
    }


def _headers(table: Data, node: Data) -> str:
    """The package with the headers of the running kernel; empty if the kernel is not the distribution's."""
    kernel: str = node["kernel"]
    if table["family"] == "ubuntu":
        return "linux-headers-" + kernel if _UBUNTU_KERNEL.search(kernel) else ""
    if table["family"] == "debian":
        return "linux-headers-" + kernel if _DEBIAN_KERNEL.search(kernel) else ""
    match = _EL_KERNEL.match(kernel)
    if match is None:
        return ""
    release, flavour = match.groups()
    if flavour is None and re.search(r"\.rt\d+\.", release):
        flavour = "rt"  # the spelling up to 9.2
    # Without a version, dnf installs the headers of the newest kernel.
    return "kernel-%sdevel-%s" % (flavour + "-" if flavour else "", release)


def _later_headers(table: Data, node: Data, series: str) -> str:
    """The package that installs the headers of later kernels too, of the same series if there are several."""
    if table["family"] == "debian":
        match = _DEBIAN_KERNEL.search(node["kernel"])
        return "linux-headers-" + match.group(1) if match else ""
    signed = table["sources"].get("distribution", {}).get("signed_modules", {})
    known = {each for kernels in signed.values() for each in kernels}
    return "linux-headers-" + series if series in known else ""


def _ubuntu_series(table: Data, node: Data) -> str:
    """The suffix of Ubuntu's packages for a kernel series: generic-6.8, azure-fde-5.15.

    Packages without the series in their names (generic-hwe-24.04, aws) move to later series, whose modules the running
    kernel cannot load.
    """
    match = _UBUNTU_KERNEL.search(node["kernel"]) if table["family"] == "ubuntu" else None
    return "%s-%s" % (match.group(2), match.group(1)) if match else ""


def applies(entry: t.Union[str, Data], version: str) -> bool:
    """Whether a package exists for a driver version; for a branch, in its newest version."""
    if isinstance(entry, str):
        return True
    driver = layout_boards.numbers(version) if "." in version else (int(version), 999)
    return layout_boards.numbers(entry.get("since", "0")) <= driver < layout_boards.numbers(entry.get("before", "9999"))


def fill(entry: t.Union[str, Data], placeholders: Placeholders) -> str:
    return (entry if isinstance(entry, str) else str(entry["name"])).format_map(placeholders)
