# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Where a driver comes from: the distribution, or NVIDIA's repository or a mirror of it."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._common.refusal import Refusal

_FILES = {
    "apt": "/etc/apt/sources.list.d/gpufleet-nvidia-driver.sources",
    "dnf": "/etc/yum.repos.d/gpufleet-nvidia-driver.repo",
}
# Messages for sources whose packages are not known for a node's architecture: the source, and the remedy.
_UNKNOWN_SOURCES = {
    "cuda_repository": (
        "in NVIDIA's CUDA repository",
        "set nvidia_driver_repository_url to a mirror that has one",
    ),
    "distribution": ("of its own", "list its packages in nvidia_driver_packages"),
}


class DriverRequest(t.NamedTuple):
    """What a driver is planned for."""

    table: Data  # of the operating system, with the sources that exist for the node's architecture
    source_name: str
    source: Data
    node: Data  # facts
    settings: Data  # the role's variables without their prefix
    notices: t.List[str]  # for the user; the steps of the plan add to them


def select_source(table: Data, node: Data, settings: Data) -> DriverRequest:
    """Raises Refusal if the operating system has no known driver of the source."""
    table = _for_architecture(table, node["architecture"], settings)
    name = _source_name(table, settings)
    return DriverRequest(table, name, _source(table, name), node, settings, [])


def _for_architecture(table: Data, architecture: str, settings: Data) -> Data:
    """The table for nodes of an architecture: without the sources whose packages are not known for it.

    A mirror may have packages for any architecture, and packages in the settings need no table.
    """
    chosen = {"cuda_repository": settings["repository_url"], "distribution": settings["packages"]}
    sources = {
        name: {**source, **source.get(architecture, {})}
        for name, source in table["sources"].items()
        if architecture in source["architectures"] or chosen[name]
    }
    title = table["title"] if architecture == "x86_64" else "%s on %s" % (table["title"], architecture)
    return {**table, "title": title, "sources": sources, "unknown": sorted({*table["sources"]} - {*sources})}


def _source_name(table: Data, settings: Data) -> str:
    """The source. With a mirror, auto is the CUDA repository."""
    if settings["source"] != "auto":
        return str(settings["source"])
    if settings["repository_url"]:
        return "cuda_repository"
    default = str(table["default_source"])
    return default if default in table["sources"] else next(iter(table["sources"]), default)


def _source(table: Data, name: str) -> Data:
    source: t.Optional[Data] = table["sources"].get(name)
    if source is None:
        what, remedy = _UNKNOWN_SOURCES[name]
        others = table["sources"] or {*table["unknown"]} - {name}
        remedies = ["set nvidia_driver_source to " + other for other in others]
        remedies += [remedy] if name in table["unknown"] else []
        raise Refusal("%s has no known driver %s; %s" % (table["title"], what, ", or ".join(remedies)))
    return source


def source_remedy(table: Data, source: str, words: str = ", or", branch: str = "") -> str:
    """The remedy to select another source; empty if the system does not have it, or if it lacks the branch."""
    own = table["sources"].get(source)
    if own is None or (branch and not _may_have(own, branch)):
        return ""
    return "%s nvidia_driver_source to %s" % (words, source)


def _may_have(source: Data, branch: str) -> bool:
    """Whether a source may have a branch, and not only packages that install another."""
    if branch in source["branches"]:
        return "installs" not in source["branches"][branch]
    return "oldest_branch" in source and int(branch) >= int(source["oldest_branch"])


def cuda_repository(request: DriverRequest) -> Data:
    """NVIDIA's repository or its mirror, with the key and the files for them on the node."""
    table, settings, architecture = request.table, request.settings, request.node["architecture"]
    own = table["repository"]
    directory = table["sources"]["cuda_repository"]["architectures"].get(architecture, architecture)
    url = settings["repository_url"] or "https://developer.download.nvidia.com/compute/cuda/repos/%s/%s" % (
        own["name"],
        directory,
    )
    url = url.rstrip("/") + "/"
    key = settings["repository_key"] or url + own["key"]
    apt_keyring = "/etc/apt/keyrings/gpufleet-nvidia-driver" + (".gpg" if key.endswith(".gpg") else ".asc")
    return {
        "url": url,
        "file": _FILES[table["manager"]],
        "key": key,
        "keyring": apt_keyring if table["manager"] == "apt" else "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpufleet-nvidia-driver",
        # Empty if unknown.
        "fingerprint": settings["repository_key_fingerprint"] or own["fingerprint"],
        "signed": _signed(settings),
        # Checksum of the key file without the Version lines of its armour.
        "checksum_without_version": own.get("checksum_without_version", ""),
    }


def _signed(settings: Data) -> str:
    """What the key signs in an rpm repository. NVIDIA signs packages and metadata; mirrors often make new metadata."""
    if settings["repository_signed"] != "auto":
        return str(settings["repository_signed"])
    return "packages" if settings["repository_url"] else "both"
