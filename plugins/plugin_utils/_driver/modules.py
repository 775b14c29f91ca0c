# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The kernel modules of a driver: which, and whether they are built on the node."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._common.refusal import Refusal
from .generations import OPEN, PROPRIETARY, GpuWithGeneration
from .names import Placeholders, fill
from .sources import DriverRequest

_OPEN_BY_DEFAULT = 560  # NVIDIA's default from this branch on
_OPEN_ONLY = 620  # the first without proprietary modules


def select_modules(
    request: DriverRequest, found: t.Sequence[GpuWithGeneration], supporting: t.Sequence[str], branch: Data
) -> str:
    """``open``, ``proprietary`` or ``none``; one of those ``supporting`` the GPUs. Raises Refusal."""
    requested: str = request.settings["kernel_modules"]
    if requested == "none":
        return requested
    possible = [each for each in supporting if each in branch.get("modules", (OPEN, PROPRIETARY))]
    number = int(branch["installs"])
    if number >= _OPEN_ONLY and PROPRIETARY in possible:
        possible.remove(PROPRIETARY)
    if not possible:
        raise Refusal(
            "branch %s has no kernel module on %s that supports %s; choose another branch or nvidia_driver_source"
            % (branch["installs"], request.table["title"], ", ".join(gpu.title for gpu in found))
        )
    if requested == "auto":
        return possible[0] if len(possible) == 1 or number >= _OPEN_BY_DEFAULT else PROPRIETARY
    if requested not in possible:
        raise Refusal(
            "nvidia_driver_kernel_modules is %s, but with branch %s only the %s kernel module runs %s; "
            "set it to auto" % (requested, branch["installs"], possible[0], ", ".join(gpu.title for gpu in found))
        )
    return requested


def select_build(request: DriverRequest, modules: str, placeholders: Placeholders) -> str:
    """Whether the modules are installed ``prebuilt`` and signed, or built on the node (``dkms``). Raises Refusal."""
    table, settings, requested = request.table, request.settings, request.settings["module_build"]
    if modules == "none":
        if "none" not in request.source["packages"][settings["flavour"]]:
            raise Refusal(
                "there are no packages for nvidia_driver_flavour %s without kernel modules on %s; set it to headless"
                % (settings["flavour"], table["title"])
            )
        return "none"
    is_prebuilt = requested != "dkms" and (
        _is_signed(request, placeholders)
        if table["family"] == "ubuntu"
        else _is_precompiled(request, modules, placeholders)
    )
    if requested == "prebuilt" and not is_prebuilt:
        raise Refusal(
            "there are no prebuilt %s modules of branch %s for kernel %s on %s; set nvidia_driver_module_build to dkms"
            % (modules, placeholders["branch"], request.node["kernel"], table["title"])
        )
    if not is_prebuilt and request.node.get("secure_boot") == "enabled":
        request.notices.append(
            "Secure Boot is enabled. A kernel module that DKMS builds loads only if DKMS's key is enrolled, which "
            "somebody must confirm at the console (mokutil --import)."
        )
    return "prebuilt" if is_prebuilt else "dkms"


def _is_signed(request: DriverRequest, placeholders: Placeholders) -> bool:
    """Whether Canonical offers signed modules for the node's kernel. By default, these are installed."""
    driver = fill("{branch}{server}{open}", placeholders)
    is_signed = placeholders["series"] in request.source.get("signed_modules", {}).get(driver, ())
    if not is_signed and "signed_modules" in request.source:
        request.notices.append(
            "Canonical offers no signed modules of driver %s for kernel %s: DKMS builds them on the node."
            % (driver, request.node["kernel"])
        )
    return is_signed


def _is_precompiled(request: DriverRequest, modules: str, placeholders: Placeholders) -> bool:
    """Whether precompiled modules are requested and exist, on other systems than Ubuntu. Raises Refusal."""
    own: Data = request.source.get("prebuilt", {"modules": ()})
    if (
        request.settings["module_build"] != "prebuilt"
        or modules not in own["modules"]
        or request.node["architecture"] not in own["architectures"]
        or ("{kernel}" in str(own["packages"]) and not placeholders["kernel"])
    ):
        return False
    if "{version}" in str(own["packages"]) and not (placeholders["version"] or request.settings["packages"]):
        raise Refusal(
            "precompiled modules of %s have the driver's version in their names; set nvidia_driver_version"
            % request.table["title"]
        )
    if own.get("repository"):
        request.notices.append(
            "The signed modules are in the repository %s, which must be enabled on the node." % own["repository"]
        )
    return True


def select_stream(request: DriverRequest, modules: str, build: str, placeholders: Placeholders) -> str:
    """The module stream of dnf; empty if there is none."""
    streams: Data = request.source.get("module_stream", {})
    return fill(streams.get("prebuilt" if build == "prebuilt" else modules, ""), placeholders)
