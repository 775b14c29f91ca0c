# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Select driver packages from facts, settings and the package table: returns a plan or refuses."""

from __future__ import annotations

import contextlib
import re
import typing as t

from .._common.refusal import Refusal
from .._layout import boards as layout_boards
from . import generations
from .generations import OPEN, PROPRIETARY, Found
from .tables import Data

_OLDEST_BRANCH = 515  # the first with open kernel modules
_OPEN_BY_DEFAULT = 560  # NVIDIA's default from this branch on
_OPEN_ONLY = 620  # the first without proprietary modules
# Branches from which on the names of NVIDIA's packages have no branch: NVSwitch and NVLink packages, and all others.
_UNSUFFIXED_FABRIC = 580
_UNSUFFIXED = 590
# Package names that a package manager cannot interpret as an option or a pattern.
_PACKAGE = re.compile("[A-Za-z0-9][A-Za-z0-9+._:-]*")
_SOURCES = {
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
_VERSION = re.compile(r"\d{3}\.\d+(\.\d+)?$")
# Series and flavour: 6.8.0-149-generic, 6.8.0-1067-nvidia-lowlatency, 6.11.0-1016-nvidia-64k
_UBUNTU_KERNEL = re.compile(r"(\d+\.\d+)\.\d+-\d+-([a-z][a-z0-9-]*)$")
# Release and flavour: "5.14.0-503.el9.x86_64+rt".
_EL_KERNEL = re.compile(r"(\S+\.el\d+(?:_\d+)?\.[^.+]+)(?:\+(\w+))?$")
_DEBIAN_KERNEL = re.compile(r"-((?:cloud-|rt-)?(?:amd64|arm64))$")
# Names of the packages that belong to the driver. The last pattern that matches decides.
_FAMILY = ["*nvidia*", "libcuda*", "cuda-drivers*", "libnv*", "!*container*", "!linux-*", "linux-modules-nvidia-*"]


def plan(table: Data, node: Data, settings: Data) -> Data:
    """The driver that a node should have. Raises Refusal if the settings do not fit the node or its operating system.

    ``table`` is that of the operating system, ``node`` has facts, and ``settings`` has the role's variables without their
    prefix.
    """
    notices: t.List[str] = []
    table = _for_architecture(table, node["architecture"], settings)
    source_name = _source_name(table, settings)
    source = _source(table, source_name)
    named = [layout_boards.data(name) for name in settings["boards"]]
    found = _found(node, named)
    boards = named or _known(node["gpus"])
    branch = _branch(table, source_name, source, settings, notices)
    generations.check_branch(found, int(branch["installs"]))
    modules = _modules(found, branch, table, settings)
    words = _words(table, node, branch, modules, settings)
    build = _build(table, source, node, modules, words, settings, notices)
    fabric = _fabric_manager(table, source, node, boards, settings, notices)
    nvlink5 = _with(boards, "hidden_nvswitches") if fabric else []
    if nvlink5 and not source.get("nvlink5"):
        raise Refusal(
            "%s needs nvlsm in addition to the fabric manager, and %s has no such package%s"
            % (
                ", ".join(nvlink5),
                table["title"],
                _or_other(table, "cuda_repository", "; set") or "; choose a newer release of the distribution",
            )
        )
    imex = _with(boards, "multi_node_nvlink")
    if imex:
        notices.append(
            "nvidia-imex is installed for %s. List the nodes of the NVLink domain in /etc/nvidia-imex/nodes_config.cfg "
            "and enable nvidia-imex.service." % ", ".join(imex)
        )
    if build == "dkms" and not words["headers"]:
        notices.append(
            "Kernel %s is not one of %s's. DKMS needs its headers, which must be installed already."
            % (node["kernel"], table["title"])
        )
    names = _named(settings, "packages") or [
        *(source.get("prebuilt", {}).get("packages", ()) if build == "prebuilt" else ()),
        *source["packages"][settings["flavour"]][build],
        *(source["persistenced"] if settings["persistenced"] else ()),
    ]
    for present, key in ((fabric, "fabric_manager"), (nvlink5, "nvlink5"), (imex, "imex")):
        names += source.get(key, ()) if present else ()
    names += _named(settings, "extra_packages")
    minimum, minimum_board = _minimum(boards)
    _check_minimum(minimum, minimum_board, settings["version"] or branch["installs"])
    packages = _unique(
        _fill(name, words) for name in names if _applies(name, settings["version"] or branch["installs"])
    )
    follows_kernel = build == "prebuilt" and table["family"] == "ubuntu"
    services = ["nvidia-persistenced.service"] if settings["persistenced"] else []
    return {
        "manager": table["manager"],
        "family": _FAMILY,
        # Packages of the driver that have their own versions.
        "independent": table["independent"],
        "source": source_name,
        "branch": branch["installs"],
        "version": settings["version"] or None,
        "modules": modules,
        "build": build,
        # Without these, DKMS builds no modules for the running kernel.
        "headers": words["headers"] if build == "dkms" else None,
        "packages": packages,
        # Modules of the running kernel, installed if they exist for the driver's version.
        "running_modules": _fill("linux-modules-nvidia-{branch}{server}{open}-" + node["kernel"], words)
        if follows_kernel
        else None,
        # These install later kernels and modules for them. They are held with the driver.
        "kernel_packages": [name for name in packages if follows_kernel and name.startswith("linux-")],
        "fabric_manager": fabric,
        "services": [*services, *(["nvidia-fabricmanager.service"] if fabric else [])],
        # Needed by the fabric manager of NVLink 5.
        "load_modules": ["ib_umad"] if nvlink5 else [],
        "module_options": _module_options(boards) if modules != "none" else {},
        "persistence_override": bool(settings["persistenced"] and source.get("persistence_mode_off")),
        "module_stream": _module_stream(source, modules, build, words),
        "module_stream_optional": bool(source.get("module_stream_optional")),
        "repository": _repository(table, node, settings) if source_name == "cuda_repository" else {},
        "minimum_version": minimum,
        "minimum_board": minimum_board,
        "notices": notices,
    }


def _check_minimum(minimum: t.Optional[str], board: t.Optional[str], version: str) -> None:
    """``version`` may be a branch."""
    if minimum and layout_boards.is_older(version, minimum):
        raise Refusal(
            "%s needs driver %s or later, and %s would be installed; set nvidia_driver_branch%s"
            % (board, minimum, version, " or nvidia_driver_version" if "." in version else "")
        )


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


def _found(node: Data, boards: t.Sequence[Data]) -> t.List[Found]:
    if boards:
        return [
            Found(board["model"], generations.generation(device_id))
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
        found.append(Found(title, generations.generation(gpu["pci_device_id"])))
    if not found:
        raise Refusal(
            "no NVIDIA GPU is on the PCI bus; remove the node from the group, or set nvidia_driver_boards to the boards "
            "that it will have"
        )
    return found


def _branch(table: Data, source_name: str, source: Data, settings: Data, notices: t.List[str]) -> Data:
    """The requested branch as the table has it, and the branch that its packages install."""
    requested = str(settings["branch"])
    if requested == "auto":
        requested = (
            settings["version"].split(".")[0] if _VERSION.match(settings["version"]) else source["default_branch"]
        )
    if not (requested.isascii() and requested.isdigit()) or int(requested) < _OLDEST_BRANCH:
        raise Refusal(
            "nvidia_driver_branch is %r; set it to auto or to a number from %d on" % (requested, _OLDEST_BRANCH)
        )
    known: t.Dict[str, Data] = source["branches"]
    # A mirror may hold any branch.
    if requested not in known and not (source_name == "cuda_repository" and settings["repository_url"]):
        own = ", ".join(sorted({row.get("installs", name) for name, row in known.items()}))
        variable = "version" if str(settings["branch"]) == "auto" else "branch"
        remedy = "set nvidia_driver_%s to one of these" % variable
        if source_name == "distribution":
            raise Refusal(
                "%s itself has no branch %s, but %s; %s%s"
                % (table["title"], requested, own, remedy, _or_other(table, "cuda_repository", branch=requested))
            )
        if int(requested) < int(source["oldest_branch"]):
            raise Refusal(
                "NVIDIA's repository for %s has no branch %s, but %s; %s%s"
                % (table["title"], requested, own, remedy, _or_other(table, "distribution", branch=requested))
            )
        notices.append(
            "Branch %s is not among the known branches of NVIDIA's repository for %s: %s. The installation fails if the "
            "repository does not offer it." % (requested, table["title"], own)
        )
    branch: Data = {"installs": requested, **known.get(requested, {})}
    if branch["installs"] != requested:
        notices.append(
            "Branch %s is transitional on %s: its packages install branch %s."
            % (requested, table["title"], branch["installs"])
        )
    if settings["server"] and branch.get("server") is False:
        raise Refusal(
            "%s has no server series of branch %s; set nvidia_driver_server to false, or nvidia_driver_branch to another"
            % (table["title"], requested)
        )
    if not settings["server"] and branch.get("server") == "only":
        raise Refusal(
            "%s has only the server series of branch %s; set nvidia_driver_server to true" % (table["title"], requested)
        )
    version = settings["version"]
    if version:
        if not _VERSION.match(version):
            raise Refusal(
                "nvidia_driver_version is %r; it must be a driver version such as 580.126.20, without the "
                "package's revision" % version
            )
        if version.split(".")[0] != branch["installs"]:
            raise Refusal(
                "nvidia_driver_version %s is not of branch %s, which nvidia_driver_branch %s installs on %s%s"
                % (
                    version,
                    branch["installs"],
                    requested,
                    table["title"],
                    "; set nvidia_driver_version to one of branch %s%s"
                    % (branch["installs"], _or_other(table, "cuda_repository", branch=requested))
                    if version.split(".")[0] == requested
                    else "; set nvidia_driver_branch to auto",
                )
            )
    return branch


def _or_other(table: Data, source: str, words: str = ", or", branch: str = "") -> str:
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


def _modules(found: t.Sequence[Found], branch: Data, table: Data, settings: Data) -> str:
    requested: str = settings["kernel_modules"]
    if requested == "none":
        return requested
    possible = [each for each in generations.modules(found) if each in branch.get("modules", (OPEN, PROPRIETARY))]
    number = int(branch["installs"])
    if number >= _OPEN_ONLY and PROPRIETARY in possible:
        possible.remove(PROPRIETARY)
    if not possible:
        raise Refusal(
            "branch %s has no kernel module on %s that supports %s; choose another branch or nvidia_driver_source"
            % (branch["installs"], table["title"], ", ".join(gpu.title for gpu in found))
        )
    if requested == "auto":
        return possible[0] if len(possible) == 1 or number >= _OPEN_BY_DEFAULT else PROPRIETARY
    if requested not in possible:
        raise Refusal(
            "nvidia_driver_kernel_modules is %s, but with branch %s only the %s kernel module runs %s; "
            "set it to auto" % (requested, branch["installs"], possible[0], ", ".join(gpu.title for gpu in found))
        )
    return requested


def _build(
    table: Data,
    source: Data,
    node: Data,
    modules: str,
    words: t.Mapping[str, str],
    settings: Data,
    notices: t.List[str],
) -> str:
    """Whether the modules are installed prebuilt and signed, or built on the node."""
    if modules == "none":
        if "none" not in source["packages"][settings["flavour"]]:
            raise Refusal(
                "there are no packages for nvidia_driver_flavour %s without kernel modules on %s; set it to headless"
                % (settings["flavour"], table["title"])
            )
        return "none"
    requested: str = settings["module_build"]
    if table["family"] == "ubuntu":
        signed = source.get("signed_modules", {}).get(_fill("{branch}{server}{open}", words), ())
        can = words["series"] in signed
        if not can and requested != "dkms" and "signed_modules" in source:
            notices.append(
                "Canonical offers no signed modules of driver %s for kernel %s: DKMS builds them on the node."
                % (_fill("{branch}{server}{open}", words), node["kernel"])
            )
        build = "prebuilt" if can and requested != "dkms" else "dkms"
    else:
        can = requested == "prebuilt" and _has_prebuilt(source, node, modules, words)
        build = "prebuilt" if can else "dkms"
        if (
            can
            and not (words["version"] or settings["packages"])
            and "{version}" in str(source["prebuilt"]["packages"])
        ):
            raise Refusal(
                "precompiled modules of %s have the driver's version in their names; set nvidia_driver_version"
                % table["title"]
            )
        if can and source["prebuilt"].get("repository"):
            notices.append(
                "The signed modules are in the repository %s, which must be enabled on the node."
                % source["prebuilt"]["repository"]
            )
    if requested == "prebuilt" and build != "prebuilt":
        raise Refusal(
            "there are no prebuilt %s modules of branch %s for kernel %s on %s; set nvidia_driver_module_build to dkms"
            % (modules, words["branch"], node["kernel"], table["title"])
        )
    if build == "dkms" and node.get("secure_boot") == "enabled":
        notices.append(
            "Secure Boot is enabled. A kernel module that DKMS builds loads only if DKMS's key is enrolled, which "
            "somebody must confirm at the console (mokutil --import)."
        )
    return build


def _has_prebuilt(source: Data, node: Data, modules: str, words: t.Mapping[str, str]) -> bool:
    """Whether there are modules beside those that DKMS builds, on other systems than Ubuntu."""
    own: Data = source.get("prebuilt", {"modules": ()})
    return bool(
        modules in own["modules"]
        and node["architecture"] in own["architectures"]
        and (words["kernel"] or "{kernel}" not in str(own["packages"]))
    )


def _fabric_manager(
    table: Data, source: Data, node: Data, boards: t.Sequence[Data], settings: Data, notices: t.List[str]
) -> bool:
    if not _needs_fabric_manager(node, boards, settings, notices):
        return False
    if not source.get("fabric_manager"):
        raise Refusal(
            "the node has NVSwitches, and %s has no fabric manager%s"
            % (table["title"], _or_other(table, "cuda_repository", "; set"))
        )
    if source.get("fabric_manager_needs_server") and not settings["server"]:
        raise Refusal(
            "the node has NVSwitches, and %s's fabric manager fits the server series only; "
            "set nvidia_driver_server to true%s" % (table["title"], _or_other(table, "cuda_repository"))
        )
    return True


def _needs_fabric_manager(node: Data, boards: t.Sequence[Data], settings: Data, notices: t.List[str]) -> bool:
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
        notices.append(
            "The NVSwitches of HGX and DGX machines with %s are not on the PCI bus. Set nvidia_driver_fabric_manager to "
            "present on these." % ", ".join(hidden)
        )
    return False


def _with(boards: t.Sequence[Data], field: str) -> t.List[str]:
    """The models of the boards whose file sets the field to true, sorted."""
    return sorted({board["model"] for board in boards if board.get(field)})


def _module_options(boards: t.Sequence[Data]) -> t.Dict[str, str]:
    return {name: value for board in boards for name, value in board.get("kernel_module_options", {}).items()}


def _module_stream(source: Data, modules: str, build: str, words: t.Mapping[str, str]) -> t.Optional[str]:
    streams: Data = source.get("module_stream", {})
    stream = streams.get("prebuilt") if build == "prebuilt" else streams.get(modules)
    return _fill(stream, words) if stream else None


def _words(table: Data, node: Data, branch: Data, modules: str, settings: Data) -> t.Dict[str, str]:
    """Values of the placeholders in the table's names."""
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


def _repository(table: Data, node: Data, settings: Data) -> Data:
    """NVIDIA's repository or its mirror, with the key and the files for them on the node."""
    own = table["repository"]
    architecture = node["architecture"]
    directory = table["sources"]["cuda_repository"]["architectures"].get(architecture, architecture)
    url = settings["repository_url"] or "https://developer.download.nvidia.com/compute/cuda/repos/%s/%s" % (
        own["name"],
        directory,
    )
    url = url.rstrip("/") + "/"
    key = settings["repository_key"] or url + own["key"]
    apt_keyring = "/usr/share/keyrings/gpufleet-nvidia-driver" + (".gpg" if key.endswith(".gpg") else ".asc")
    return {
        "url": url,
        "file": _SOURCES[table["manager"]],
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


def _known(gpus: t.Sequence[Data]) -> t.List[Data]:
    """The boards of the GPUs, except for unknown ones."""
    boards = []
    for gpu in gpus:
        with contextlib.suppress(layout_boards.BoardError):
            boards.append(layout_boards.data(gpu["pci_device_id"]))
    return boards


def _minimum(boards: t.Sequence[Data]) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """The highest minimum driver of the boards, and the board that needs it."""
    needed = [(board["minimum_driver"], board["model"]) for board in boards if board["minimum_driver"]]
    return max(needed, key=lambda each: (layout_boards.numbers(each[0]), *each), default=(None, None))


def _named(settings: Data, variable: str) -> t.List[t.Union[str, Data]]:
    """The packages in a setting."""
    for name in settings[variable]:
        if name is None or not _PACKAGE.fullmatch(str(name)):
            raise Refusal("nvidia_driver_%s contains %r, which is not a package name" % (variable, name and str(name)))
    return [str(name) for name in settings[variable]]


def _applies(entry: t.Union[str, Data], version: str) -> bool:
    """Whether a package exists for a driver version; for a branch, in its newest version."""
    if isinstance(entry, str):
        return True
    driver = layout_boards.numbers(version) if "." in version else (int(version), 999)
    return layout_boards.numbers(entry.get("since", "0")) <= driver < layout_boards.numbers(entry.get("before", "9999"))


def _fill(entry: t.Union[str, Data], words: t.Mapping[str, str]) -> str:
    return (entry if isinstance(entry, str) else str(entry["name"])).format_map(words)


def _unique(names: t.Iterable[str]) -> t.List[str]:
    return [name for name in dict.fromkeys(names) if name]
