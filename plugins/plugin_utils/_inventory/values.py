# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Validate boards and variables and report all problems, not only the first."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...module_utils._mig.messages import listed_indices
from ...module_utils._mig.text import cut, short
from .._common.refusal import Refusal
from .._common.truth import is_valid
from .._layout import boards as layout_boards
from .._layout import gpus as layout_gpus
from . import kubernetes_values


def board_differences(gpus: object, boards: object) -> list[str]:
    """Differences between the boards and the GPUs that the driver lists, or else those on the PCI bus."""
    if not isinstance(gpus, (list, tuple)) or not all(_is_listed(gpu) for gpu in gpus):
        raise Refusal("the GPUs are %s: give ansible_facts.nvidia.gpus" % short(gpus))
    if not isinstance(boards, (list, tuple)):
        raise Refusal("boards is %s: give a list of board names" % short(boards))
    seen = sorted((gpu for gpu in gpus if gpu.get("index") is not None), key=lambda gpu: t.cast(int, gpu["index"]))
    where = "driver"
    if gpus and not seen:
        seen, where = sorted(gpus, key=lambda gpu: str(gpu.get("pci_bus_id"))), "PCI bus"
    if len(seen) != len(boards):
        return ["the %s shows %d GPUs, and %d boards are named" % (where, len(seen), len(boards))]
    problems = []
    other: dict[tuple[str | None, object], list[int]] = {}  # the GPUs, by their board and the declared one
    for number, (gpu, name) in enumerate(zip(seen, boards, strict=True)):
        try:
            wanted = layout_boards.data(name)["model"]
        except layout_boards.BoardError as error:
            problems.append(str(error))
            continue
        found = _model_of(gpu)
        if found not in (None, wanted):
            other.setdefault((found, name), []).append(number)
    for (found, name), places in other.items():
        # Without UUIDs, nodes with the same problem share one message.
        called = "GPU %d %s is" % (places[0], seen[places[0]].get("pci_bus_id"))
        called = called if len(places) == 1 else "GPUs %s are" % listed_indices(places)
        problems.append("%s %s, and %s is named" % (called, found, name))
    return list(dict.fromkeys(problems))


def _is_listed(gpu: object) -> bool:
    return isinstance(gpu, dict) and isinstance(gpu.get("index"), (int, type(None)))


def _model_of(gpu: layout_gpus.Fact) -> str | None:
    """The model, or None if the board is unknown and any name is accepted."""
    try:
        return str(layout_boards.data(str(gpu.get("pci_device_id")))["model"])
    except layout_boards.BoardError:
        return None


_HOST_NAME = re.compile(
    r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?"
)

# The format of Ansible's serial, except 0, which means all hosts at once.
_BATCH = re.compile("0*([1-9][0-9]*|([1-9][0-9]?|100)%)")

_UNIT = re.compile(r"[A-Za-z0-9:_.\\@-]+\.(automount|device|mount|path|scope|service|slice|socket|swap|target|timer)")

_CHECKSUM = re.compile(r"sha256:[0-9A-Fa-f]{64}|sha384:[0-9A-Fa-f]{96}|sha512:[0-9A-Fa-f]{128}")
# get_url also accepts the URL of a checksum file.
_CHECKSUM_FILE = re.compile(r"sha(256|384|512):(file|ftp|https?)://\S+")

_FINGERPRINT = re.compile("[0-9A-Fa-f]{40}")

# Lists for which the role also accepts the word auto.
_LIST_OR_AUTO = frozenset({"nvidia_container_toolkit_runtimes"})

# Values that messages must not show, because they may contain passwords.
_SECRET = frozenset(
    {
        "gpu_cluster_pip_arguments",
        "gpu_node_environment",
        "rke2_config",
        "rke2_environment_options",
        "rke2_registries",
        "rke2_token",
    }
)

_MAX_SECONDS = 10**9  # seconds; longer waits are mistakes, and systemd is limited to 64 bits of microseconds


def value_problems(values: t.Mapping[str, t.Any], types: t.Mapping[str, str]) -> list[str]:
    """Problems of values that pass the argument specifications but cannot work on a node.

    Ansible accepts a string as a list, and anything as a string, but passes the original value to the roles. ``types``
    are the types in the argument specifications, by name.
    """
    problems = []
    mistyped = type_problems(values, types)
    for name, value in sorted(values.items()):
        if name in mistyped:
            problems.append("%s is %s: %s" % (name, _shown(value, name), mistyped[name]))
        elif name.endswith(("_path", "_output")) and value:
            if not str(value).startswith(("/", "~")):
                problems.append("%s is %r: give an absolute path" % (name, str(value)))
        elif name.endswith(("_timeout", "_time_limit", "_wait")):
            least, number = 0 if name.endswith("_wait") else 1, _number(value)
            if number is not None and not least <= number <= _MAX_SECONDS:
                problems.append("%s is %s: give seconds, from %d to %d" % (name, value, least, _MAX_SECONDS))
        elif name == "gpu_node_batches":
            sizes = value if isinstance(value, (list, tuple)) else [value]
            if not sizes or not all(_BATCH.fullmatch(str(size)) for size in sizes):
                problems.append(
                    "%s is %s: give numbers of hosts or percentages, from 1 or 1%% to 100%%" % (name, _shown(value))
                )
        elif name == "gpu_node_environment":  # Ansible would ignore it, with a warning
            if not all(isinstance(each, dict) for each in (value if isinstance(value, (list, tuple)) else [value])):
                problems.append("%s is %s: give a dictionary" % (name, _shown(value, name)))
        elif name == "gpu_node_max_fail_percentage":
            number = _number(value)
            if number is None or not 0 <= number <= 100:
                problems.append("%s is %s: give a number from 0 to 100" % (name, _shown(value)))
        elif name in ("nvidia_mig_boot_after", "nvidia_mig_boot_before"):
            wrong = [each for each in value if not (isinstance(each, str) and _UNIT.fullmatch(each))]
            if wrong:  # systemd would ignore it and only log a warning
                problems.append("%s names %s: give full unit names, such as kubelet.service" % (name, _shown(wrong[0])))
        elif name.endswith("_checksum") and value and not _is_checksum(name, str(value)):
            problems.append(
                "%s is %s: give sha256:, sha384: or sha512: followed by the hexadecimal digest" % (name, _shown(value))
            )
        elif name.endswith("_fingerprint") and value and not _FINGERPRINT.fullmatch(re.sub("[ :]", "", str(value))):
            problems.append("%s is %s: give 40 hexadecimal digits" % (name, _shown(value)))
        elif name == "gpu_node_hostname" and value and not _is_host_name(value):
            problems.append("%s is %r, which is not a valid host name" % (name, str(value)))
        elif name in ("gpu_node_boards", "nvidia_driver_boards"):
            problems.extend("%s, entry %d: %s" % (name, place, why) for place, why in _board_name_problems(value))
        elif name == "gpu_node_hosts_entries":
            for place, entry in enumerate(value, 1):
                problems.extend("%s, entry %d: %s" % (name, place, reason) for reason in _hosts_entry_problems(entry))
        else:
            problems.extend(kubernetes_values.problems(name, value))
    return problems


def type_problems(values: t.Mapping[str, t.Any], types: t.Mapping[str, str]) -> dict[str, str]:
    """What is wrong with the type of a value, by name."""
    found = {
        name: _type_problem(value, types.get(name, "raw"))
        for name, value in values.items()
        if not (value == "auto" and name in _LIST_OR_AUTO)
    }
    return {name: why for name, why in found.items() if why}


def _is_checksum(name: str, value: str) -> bool:
    if _CHECKSUM.fullmatch(value):
        return True
    return not name.endswith(("_key_checksum", "_chart_checksum")) and _CHECKSUM_FILE.fullmatch(value) is not None


def _type_problem(value: object, kind: str) -> str:
    if value is None:
        return "give a value, or remove the variable"
    if kind == "list":
        if not isinstance(value, (list, tuple)):
            return "give a list"
        if not all(each.isprintable() for each in value if isinstance(each, str)):
            return "no control characters"
    if kind == "bool" and not is_valid(value):
        return "give true or false"
    if kind == "dict" and not isinstance(value, dict):
        return "give a mapping"
    if kind in ("str", "path"):
        if isinstance(value, (dict, list, tuple)):
            return "give a string"
        if not str(value).isprintable():
            return "no control characters"
    return ""


def _shown(value: object, name: str = "") -> str:
    """A value for a message: without Ansible's own types, shortened, and not that of a variable with secrets."""
    if value is None:
        return "null"
    if name in _SECRET:
        return "invalid"
    return cut(repr(str(value)) if isinstance(value, str) else str(value), 80)


def _number(value: object) -> int | None:
    """A number, which variables may contain as a string."""
    try:
        return None if isinstance(value, bool) else int(str(value))
    except ValueError:
        return None


def _board_name_problems(names: t.Iterable[object]) -> t.Iterator[tuple[int, str]]:
    for place, name in enumerate(names, 1):
        if not isinstance(name, str):
            yield place, "unknown board %s" % _shown(name)
            continue
        try:
            layout_boards.data(name)
        except layout_boards.BoardError as error:
            yield place, str(error)


def _is_host_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 253 and _HOST_NAME.fullmatch(value) is not None


def _hosts_entry_problems(entry: object) -> list[str]:
    if not isinstance(entry, dict):
        return []  # reported by the argument validation
    problems = []
    address = str(entry.get("address"))
    try:
        ipaddress.ip_address(address)
    except ValueError:
        problems.append("invalid IP address %r" % address)
    else:
        if not address.isprintable() or " " in address:  # ipaddress accepts anything after a %
            problems.append("invalid IP address %r" % address)
    if "names" not in entry:
        return problems  # reported by the argument validation
    names = entry["names"]
    if not names:
        problems.append("no names")
    elif not isinstance(names, (list, tuple)):
        problems.append("names is %s: give a list" % _shown(names))
    else:
        problems.extend("invalid host name %r" % str(each) for each in names if not _is_host_name(each))
    return problems
