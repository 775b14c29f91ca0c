# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Validate the values of variables and report all problems, not only the first."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...module_utils._common.text import cut
from .._common.truth import is_valid
from .._layout import boards as layout_boards
from . import kubernetes_values

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
        else:
            checks = (check for ends, check in _CHECKS.items() if name.endswith(ends))
            problems.extend(next(checks, kubernetes_values.kubernetes_value_problems)(name, value))
    return problems


def type_problems(values: t.Mapping[str, t.Any], types: t.Mapping[str, str]) -> dict[str, str]:
    """What is wrong with the type of a value, by name."""
    found = {
        name: _type_problem(value, types.get(name, "raw"))
        for name, value in values.items()
        if not (value == "auto" and name in _LIST_OR_AUTO)
    }
    return {name: why for name, why in found.items() if why}


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


def _path_problems(name: str, value: object) -> t.Iterator[str]:
    if value and not str(value).startswith(("/", "~")):
        yield "%s is %r: give an absolute path" % (name, str(value))


def _seconds_problems(name: str, value: object) -> t.Iterator[str]:
    least, number = 0 if name.endswith("_wait") else 1, _number(value)
    if number is not None and not least <= number <= _MAX_SECONDS:
        yield "%s is %s: give seconds, from %d to %d" % (name, value, least, _MAX_SECONDS)


def _batch_problems(name: str, value: object) -> t.Iterator[str]:
    sizes = _listed(value)
    if not sizes or not all(_BATCH.fullmatch(str(size)) for size in sizes):
        yield "%s is %s: give numbers of hosts or percentages, from 1 or 1%% to 100%%" % (name, _shown(value))


def _environment_problems(name: str, value: object) -> t.Iterator[str]:
    if not all(isinstance(each, dict) for each in _listed(value)):  # Ansible would ignore it, with a warning
        yield "%s is %s: give a dictionary" % (name, _shown(value, name))


def _percentage_problems(name: str, value: object) -> t.Iterator[str]:
    number = _number(value)
    if number is None or not 0 <= number <= 100:
        yield "%s is %s: give a number from 0 to 100" % (name, _shown(value))


def _unit_problems(name: str, value: t.Iterable[object]) -> t.Iterator[str]:
    wrong = [each for each in value if not (isinstance(each, str) and _UNIT.fullmatch(each))]
    if wrong:  # systemd would ignore it and only log a warning
        yield "%s names %s: give full unit names, such as kubelet.service" % (name, _shown(wrong[0]))


def _checksum_problems(name: str, value: object) -> t.Iterator[str]:
    of_file = not name.endswith(("_key_checksum", "_chart_checksum")) and _CHECKSUM_FILE.fullmatch(str(value))
    if value and not of_file and not _CHECKSUM.fullmatch(str(value)):
        yield "%s is %s: give sha256:, sha384: or sha512: followed by the hexadecimal digest" % (name, _shown(value))


def _fingerprint_problems(name: str, value: object) -> t.Iterator[str]:
    if value and not _FINGERPRINT.fullmatch(re.sub("[ :]", "", str(value))):
        yield "%s is %s: give 40 hexadecimal digits" % (name, _shown(value))


def _host_name_problems(name: str, value: object) -> t.Iterator[str]:
    if value and not _is_host_name(value):
        yield "%s is %r, which is not a valid host name" % (name, str(value))


def _board_problems(name: str, value: t.Iterable[object]) -> t.Iterator[str]:
    for place, board in enumerate(value, 1):
        if not isinstance(board, str):
            yield "%s, entry %d: unknown board %s" % (name, place, _shown(board))
            continue
        try:
            layout_boards.data(board)
        except layout_boards.BoardError as error:
            yield "%s, entry %d: %s" % (name, place, error)


def _hosts_problems(name: str, value: t.Iterable[object]) -> t.Iterator[str]:
    for place, entry in enumerate(value, 1):
        for reason in _hosts_entry_problems(entry):
            yield "%s, entry %d: %s" % (name, place, reason)


def _listed(value: object) -> t.Sequence[object]:
    return value if isinstance(value, (list, tuple)) else [value]


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


# By names of variables, or their ends.
_CHECKS: t.Mapping[tuple[str, ...], t.Callable[[str, t.Any], t.Iterable[str]]] = {
    ("_path", "_output"): _path_problems,
    ("_timeout", "_time_limit", "_wait"): _seconds_problems,
    ("gpu_node_batches",): _batch_problems,
    ("gpu_node_environment",): _environment_problems,
    ("gpu_node_max_fail_percentage",): _percentage_problems,
    ("nvidia_mig_boot_after", "nvidia_mig_boot_before"): _unit_problems,
    ("_checksum",): _checksum_problems,
    ("_fingerprint",): _fingerprint_problems,
    ("gpu_node_hostname",): _host_name_problems,
    ("gpu_node_boards", "nvidia_driver_boards"): _board_problems,
    ("gpu_node_hosts_entries",): _hosts_problems,
}
