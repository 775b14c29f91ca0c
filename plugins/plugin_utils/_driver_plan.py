# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which packages a node's driver is made of: facts, wishes and a table of names in, a plan or a refusal out."""

from __future__ import annotations

import re
import typing as t

from . import _boards, _driver_generations
from ._driver_generations import OPEN, PROPRIETARY, Found
from ._refusal import Refusal

Data = t.Dict[str, t.Any]

_OLDEST_BRANCH = 515  # the first with open kernel modules
_OPEN_BY_DEFAULT = 560  # NVIDIA's own default since this branch
_OPEN_ONLY = 620  # the first without proprietary modules
# No option, pattern or version.
_PACKAGE = re.compile("[A-Za-z0-9][A-Za-z0-9+._:-]*")
_UNSUFFIXED = 590  # from here on the vendor's packages carry no branch in their names
_VERSION = re.compile(r"\d{3}\.\d+(\.\d+)?$")
# The kernels whose modules Ubuntu builds and signs.
_UBUNTU_KERNEL = re.compile(r"(\d+\.\d+)\.\d+-\d+-(generic|lowlatency|aws|azure|gcp|oracle|nvidia|ibm|gke)$")
# With the flavour that Enterprise Linux puts at the end, as in "5.14.0-503.el9.x86_64+rt".
_EL_KERNEL = re.compile(r"(\S+\.el\d+(?:_\d+)?\.[^.+]+)(?:\+(\w+))?$")
_DEBIAN_KERNEL = re.compile(r"-((?:cloud-|rt-)?(?:amd64|arm64))$")
# HGX boards whose NVSwitches are not on the PCI bus.
_HIDDEN_SWITCHES = ("B200-180GB", "B300")


def plan(table: Data, node: Data, wanted: Data) -> Data:
    """``table`` is the role's for the node's system, ``node`` what facts say, ``wanted`` the role's variables."""
    notices: t.List[str] = []
    source = _source(table, wanted)
    boards = [_boards.data(name) for name in wanted["boards"]]
    found = _found(node, boards)
    branch = _branch(table, source, wanted, notices)
    _driver_generations.check_branch(found, int(branch["gives"]))
    modules = _modules(found, branch, table, wanted)
    build = _build(table, node, modules, wanted, notices)
    fabric = _fabric_manager(node, found, wanted, notices)
    if fabric and source.get("fabric_manager_needs_server") and not wanted["server"]:
        raise Refusal(
            "the node has NVSwitches, and %s's fabric manager fits the server series only; "
            "set nvidia_driver_server to true" % table["title"]
        )
    words = _words(table, node, branch, modules, wanted)
    if build == "dkms" and not words["headers"]:
        notices.append(
            "Kernel %s is not one of %s's: its headers, which DKMS needs, have to be there already."
            % (node["kernel"], table["title"])
        )
    packages = _own(wanted["packages"]) or [
        *source["packages"][wanted["flavour"]][build],
        *(source["persistenced"] if wanted["persistenced"] else ()),
    ]
    if fabric and not source.get("fabric_manager"):
        raise Refusal(
            "the node has NVSwitches, and %s has no fabric manager; set nvidia_driver_source to cuda_repository"
            % table["title"]
        )
    managers = [_fill(name, words) for name in source["fabric_manager"]] if fabric else []
    minimum, minimum_board = _minimum(node, boards)
    check_minimum(minimum, minimum_board, wanted["version"] or branch["gives"], whole=bool(wanted["version"]))
    return {
        "branch": branch["gives"],
        "branch_asked": str(wanted["branch"]),
        "version": wanted["version"] or None,
        "modules": modules,
        "build": build,
        "host": node.get("host") or "the node",
        "kernel": node["kernel"],
        # Without these, DKMS would build for other kernels, and nothing for the one that runs.
        "headers": words["headers"] if build == "dkms" else None,
        "packages": _unique([*(_fill(name, words) for name in packages), *managers]),
        "fabric_manager": fabric,
        "module_stream": _fill(source["module_stream"][modules], words)
        if modules != "none" and source.get("module_stream")
        else None,
        "repository": _repository(table, node) if wanted["source"] == "cuda_repository" else None,
        "minimum_version": minimum,
        "minimum_board": minimum_board,
        "gpus": [gpu.title for gpu in found],
        "notices": notices,
    }


def check_minimum(minimum: t.Optional[str], board: t.Optional[str], version: str, whole: bool = True) -> None:
    """Of a branch alone (``whole`` is false) only the first number can be compared."""
    if minimum is None:
        return
    have, need = numbers(version), numbers(minimum)
    if (have < need) if whole else (have[0] < need[0]):
        raise Refusal(
            "%s needs driver %s or later, and %s would be installed; set nvidia_driver_branch%s"
            % (board, minimum, version, " or nvidia_driver_version" if whole else "")
        )


def numbers(version: str) -> t.Tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _source(table: Data, wanted: Data) -> Data:
    source: t.Optional[Data] = table["sources"].get(wanted["source"])
    if source is None:
        raise Refusal(
            "%s has no NVIDIA driver of its own; set nvidia_driver_source to cuda_repository" % table["title"]
        )
    return source


def _found(node: Data, boards: t.Sequence[Data]) -> t.List[Found]:
    if boards:
        return [
            Found(board["model"], _driver_generations.generation(device_id))
            for board in boards
            for device_id in list(board["pci_device_ids"])[:1]
        ]
    found = []
    if node["gpus"] is None or any(gpu["pci_device_id"] is None for gpu in node["gpus"]):
        raise Refusal(
            "the GPUs on the node's PCI bus cannot be read; check that /sys is readable there, or name the boards in "
            "nvidia_driver_boards"
        )
    for gpu in node["gpus"]:
        title = "GPU %s (%s)" % (gpu["pci_bus_id"], gpu.get("name") or "PCI device %s" % gpu["pci_device_id"])
        found.append(Found(title, _driver_generations.generation(gpu["pci_device_id"])))
    if not found:
        raise Refusal(
            "there is no NVIDIA GPU on the PCI bus; take the node out of the group, or name the boards that it will "
            "have in nvidia_driver_boards"
        )
    return found


def _branch(table: Data, source: Data, wanted: Data, notices: t.List[str]) -> Data:
    """What the branch asked for truly gives here."""
    asked = str(wanted["branch"])
    if not (asked.isascii() and asked.isdigit()) or int(asked) < _OLDEST_BRANCH:
        raise Refusal("nvidia_driver_branch is %r; it must be a number from %d on" % (asked, _OLDEST_BRANCH))
    known: t.Optional[t.Dict[str, Data]] = source["branches"]
    if known is None:
        branch: Data = {"gives": asked}
    elif asked not in known:
        own = sorted({each["gives"] for each in known.values()})
        raise Refusal(
            "%s itself has no branch %s, but %s; set nvidia_driver_branch to one of these, or nvidia_driver_source to "
            "cuda_repository" % (table["title"], asked, ", ".join(own))
        )
    else:
        branch = known[asked]
    if branch["gives"] != asked:
        notices.append(
            "Branch %s is transitional on %s: its packages install branch %s, which is what will be installed."
            % (asked, table["title"], branch["gives"])
        )
    if wanted["server"] and branch.get("server") is False:
        raise Refusal(
            "%s has no server series of branch %s; set nvidia_driver_server to false" % (table["title"], asked)
        )
    if not wanted["server"] and branch.get("server") == "only":
        raise Refusal(
            "%s has branch %s as server series only; set nvidia_driver_server to true" % (table["title"], asked)
        )
    version = wanted["version"]
    if version:
        if not _VERSION.match(version):
            raise Refusal(
                "nvidia_driver_version is %r; it must be a driver's version such as 580.126.20, without what the "
                "package adds" % version
            )
        if version.split(".")[0] != branch["gives"]:
            raise Refusal(
                "nvidia_driver_version %s is not of branch %s, which nvidia_driver_branch %s gives on %s"
                % (version, branch["gives"], asked, table["title"])
            )
    return branch


def _modules(found: t.Sequence[Found], branch: Data, table: Data, wanted: Data) -> str:
    asked: str = wanted["kernel_modules"]
    if asked == "none":
        return asked
    possible = [each for each in _driver_generations.modules(found) if each in branch.get("modules", (OPEN, PROPRIETARY))]
    number = int(branch["gives"])
    if number >= _OPEN_ONLY and PROPRIETARY in possible:
        possible.remove(PROPRIETARY)
    if not possible:
        raise Refusal(
            "branch %s has no kernel module on %s that runs %s; choose another branch or nvidia_driver_source"
            % (branch["gives"], table["title"], ", ".join(gpu.title for gpu in found))
        )
    if asked == "auto":
        return possible[0] if len(possible) == 1 or number >= _OPEN_BY_DEFAULT else PROPRIETARY
    if asked not in possible:
        raise Refusal(
            "nvidia_driver_kernel_modules is %s, but with branch %s only the %s kernel module runs %s; "
            "set it to auto" % (asked, branch["gives"], possible[0], ", ".join(gpu.title for gpu in found))
        )
    return asked


def _build(table: Data, node: Data, modules: str, wanted: Data, notices: t.List[str]) -> str:
    """Whether modules come built, and signed, or are built on the node."""
    if modules == "none":
        return "none"
    source = table["sources"][wanted["source"]]
    can = "prebuilt" in source["packages"][wanted["flavour"]] and _UBUNTU_KERNEL.search(node["kernel"]) is not None
    asked: str = wanted["module_build"]
    if asked == "prebuilt" and not can:
        raise Refusal(
            "nobody builds modules for kernel %s on %s beforehand; set nvidia_driver_module_build to dkms"
            % (node["kernel"], table["title"])
        )
    build = asked if asked != "auto" else "prebuilt" if can else "dkms"
    if build == "dkms" and node.get("secure_boot") == "enabled":
        notices.append(
            "Secure Boot is on: a kernel module that is built on the node loads only if the key that DKMS signs it "
            "with is enrolled, which needs somebody at the console (mokutil --import)."
        )
    return build


def _fabric_manager(node: Data, found: t.Sequence[Found], wanted: Data, notices: t.List[str]) -> bool:
    if wanted["fabric_manager"] != "auto":
        return bool(wanted["fabric_manager"] == "present")
    if node["nvswitches"] is None:
        raise Refusal(
            "the NVSwitches on the node's PCI bus cannot be read; check that /sys is readable there, or set "
            "nvidia_driver_fabric_manager to present or absent"
        )
    if node["nvswitches"]:
        return True
    gpus = node["gpus"] or ()
    hidden = sorted({each for each in (_model(gpu["pci_device_id"]) for gpu in gpus) if each in _HIDDEN_SWITCHES})
    if hidden:
        notices.append(
            "%s often sits on NVSwitches that are not on the PCI bus: set nvidia_driver_fabric_manager to present on "
            "HGX and DGX machines." % ", ".join(hidden)
        )
    return False


def _words(table: Data, node: Data, branch: Data, modules: str, wanted: Data) -> t.Dict[str, str]:
    """What stands for the placeholders of the table's names."""
    number = branch["gives"]
    is_open = modules == OPEN
    return {
        "branch": number,
        "suffix": "-" + number if int(number) < _UNSUFFIXED else "",
        "server": "-server" if wanted["server"] else "",
        "open": "-open" if is_open else "",
        "meta": "nvidia-open" if is_open else "cuda-drivers",
        "kmod": "open" if is_open else "latest",
        "fabric": "nvidia-fabricmanager" if int(number) >= 580 else "nvidia-fabric-manager",
        "headers": _headers(table, node),
        "later_headers": _later_headers(table, node),
        "kernel": _kernel_meta(table, node),
    }


def _headers(table: Data, node: Data) -> str:
    """The package with the headers of the kernel that runs; of a kernel that is not the system's own, none."""
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
        flavour = "rt"  # as it was spelt up to 9.2
    # Named by the kernel that runs: without a version, dnf brings the headers of the newest one.
    return "kernel-%sdevel-%s" % (flavour + "-" if flavour else "", release)


def _later_headers(table: Data, node: Data) -> str:
    """The package that brings the headers of every later kernel too, where it has to be asked for."""
    match = _DEBIAN_KERNEL.search(node["kernel"]) if table["family"] == "debian" else None
    return "linux-headers-" + match.group(1) if match else ""


def _kernel_meta(table: Data, node: Data) -> str:
    """The name by which Ubuntu's module packages follow a kernel: generic, generic-hwe-22.04, azure."""
    match = _UBUNTU_KERNEL.search(node["kernel"])
    if match is None:
        return ""
    series, flavour = match.groups()
    if flavour in ("generic", "lowlatency") and series != table.get("kernel_series"):
        return "%s-hwe-%s" % (flavour, table["version"])
    return str(flavour)


def _repository(table: Data, node: Data) -> Data:
    architecture = table["architectures"].get(node["architecture"])
    if architecture is None:
        raise Refusal(
            "NVIDIA's repository has nothing for %s; it knows %s"
            % (node["architecture"], ", ".join(sorted(table["architectures"])))
        )
    base = "https://developer.download.nvidia.com/compute/cuda/repos/%s/%s" % (
        table["repository"]["name"],
        architecture["repository"],
    )
    return {
        "url": base,
        "key": "%s/%s" % (base, table["repository"]["key"]),
        "fingerprint": table["repository"]["fingerprint"],
    }


def _minimum(node: Data, boards: t.Sequence[Data]) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """The highest of the boards' lowest drivers, and the board that needs it."""
    models = [board["model"] for board in boards] or [_model(gpu["pci_device_id"]) for gpu in node["gpus"]]
    known = [(model, _boards.data(model)["minimum_driver"]) for model in models if model]
    needed = [(numbers(minimum), minimum, model) for model, minimum in known if minimum]
    if not needed:
        return None, None
    _numbers, minimum, model = max(needed)
    return minimum, model


def _model(pci_device_id: t.Optional[str]) -> t.Optional[str]:
    if pci_device_id is None:
        return None
    try:
        return str(_boards.data(pci_device_id)["model"])
    except _boards.BoardError:
        return None  # a GPU without MIG


def _own(names: t.Sequence[object]) -> t.List[str]:
    """Packages that the inventory names, none of which a package manager could take for an option or a pattern."""
    for name in names:
        if not _PACKAGE.fullmatch(str(name)) or name is None:
            raise Refusal("nvidia_driver_packages names %r, which cannot be a package" % (name if name is None else str(name)))
    return [str(name) for name in names]


def _fill(name: str, words: t.Mapping[str, str]) -> str:
    return name.format_map(words)


def _unique(names: t.Sequence[str]) -> t.List[str]:
    return [name for name in dict.fromkeys(names) if name]
