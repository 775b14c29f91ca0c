# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""All that is wrong with what somebody wrote, and not only the first of it."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..module_utils._mig.keys import short
from . import _boards, _gpus
from ._refusal import Refusal


def of_boards(gpus: object, boards: object) -> list[str]:
    """Where the GPUs are other ones than the boards named: those that the driver knows, else those on the PCI bus."""
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
    for number, (gpu, name) in enumerate(zip(seen, boards, strict=True)):
        try:
            wanted = _boards.data(name)["model"]
        except _boards.BoardError as error:
            problems.append(str(error))
            continue
        found = _model_of(gpu)
        if found not in (None, wanted):
            called = gpu.get("uuid") or gpu.get("pci_bus_id")
            problems.append("GPU %d %s is %s, and %s is named" % (number, called, found, name))
    return list(dict.fromkeys(problems))


def _is_listed(gpu: object) -> bool:
    return isinstance(gpu, dict) and isinstance(gpu.get("index"), (int, type(None)))


def _model_of(gpu: _gpus.Fact) -> str | None:
    """The model; None where the board is not one of those known, which may go by any name."""
    try:
        return str(_boards.data(str(gpu.get("pci_device_id")))["model"])
    except _boards.BoardError:
        return None


_HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*\.?")

# As Ansible's serial takes it. To that, 0 is all hosts at once.
_BATCH = re.compile("0*([1-9][0-9]*|([1-9][0-9]?|100)%)")

_UNIT = re.compile(
    r"[A-Za-z0-9:_.\\@-]+\.(automount|device|mount|path|scope|service|slice|socket|swap|target|timer)"
)

_CHECKSUM = re.compile(r"sha256:[0-9A-Fa-f]{64}|sha384:[0-9A-Fa-f]{96}|sha512:[0-9A-Fa-f]{128}")
# get_url also takes the address of a file with the digits.
_CHECKSUM_FILE = re.compile(r"sha(256|384|512):(file|ftp|https?)://\S+")

_FINGERPRINT = re.compile("[0-9A-Fa-f]{40}")

_LONGEST = 10**9  # seconds; what has to wait longer is a mistake, and systemd takes no more than 64 bits of microseconds


def of_values(values: t.Mapping[str, t.Any], types: t.Mapping[str, str]) -> list[str]:
    """What an argument specification lets pass, of names to values, and no node could use.

    Ansible takes a text for a list, and anything for a text, but gives roles what was written. ``types`` are those of
    the argument specifications, by name.
    """
    problems = []
    for name, value in sorted(values.items()):
        why = _of_type(value, types.get(name, "raw"))
        if why:
            problems.append("%s is %s: %s" % (name, _shown(value), why))
        elif name.endswith(("_path", "_record", "_output")) and value:
            if not str(value).startswith(("/", "~")):
                problems.append("%s is %r: give an absolute path" % (name, str(value)))
        elif name.endswith(("_timeout", "_time_limit", "_wait")):
            least, number = 0 if name.endswith("_wait") else 1, _number(value)
            if number is not None and not least <= number <= _LONGEST:
                problems.append("%s is %s: give seconds, from %d to %d" % (name, value, least, _LONGEST))
        elif name == "gpu_node_batches":
            sizes = value if isinstance(value, (list, tuple)) else [value]
            if not sizes or not all(_BATCH.fullmatch(str(size)) for size in sizes):
                problems.append(
                    "%s is %s: give numbers of hosts or percentages, from 1 or 1%% to 100%%" % (name, _shown(value))
                )
        elif name in ("nvidia_mig_boot_after", "nvidia_mig_boot_before"):
            wrong = [each for each in value if not (isinstance(each, str) and _UNIT.fullmatch(each))]
            if wrong:  # systemd would leave it out, and say so in the journal alone
                problems.append("%s names %s: give units by their whole names, as kubelet.service" % (name, _shown(wrong[0])))
        elif name.endswith("_checksum") and value and not _is_checksum(name, str(value)):
            problems.append("%s is %s: give sha256: and 64 hexadecimal digits, or sha384: or sha512: and theirs" % (name, _shown(value)))
        elif name.endswith("_fingerprint") and value and not _FINGERPRINT.fullmatch(re.sub("[ :]", "", str(value))):
            problems.append("%s is %s: give 40 hexadecimal digits" % (name, _shown(value)))
        elif name == "gpu_node_hostname" and value and not _is_host_name(value):
            problems.append("%s is %r, which cannot be the name of a host" % (name, str(value)))
        elif name in ("gpu_node_boards", "nvidia_driver_boards"):
            problems.extend("%s, entry %d: %s" % (name, place, why) for place, why in _of_board_names(value))
        elif name == "gpu_node_hosts_entries":
            for place, entry in enumerate(value, 1):
                problems.extend("%s, entry %d: %s" % (name, place, reason) for reason in _of_hosts_entry(entry))
    return problems


def _is_checksum(name: str, value: str) -> bool:
    if _CHECKSUM.fullmatch(value):
        return True
    return not name.endswith("_key_checksum") and _CHECKSUM_FILE.fullmatch(value) is not None


def _of_type(value: object, kind: str) -> str:
    if value is None:
        return "give a value, or leave it out"
    if kind == "list":
        if not isinstance(value, (list, tuple)):
            return "give a list"
        if not all(each.isprintable() for each in value if isinstance(each, str)):
            return "no control characters"
    if kind in ("str", "path"):
        if isinstance(value, (dict, list, tuple)):
            return "give a text"
        if not str(value).isprintable():
            return "no control characters"
    return ""


def _shown(value: object) -> str:
    """Without the types that Ansible gives to values, and shortened."""
    text = "null" if value is None else repr(str(value)) if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _number(value: object) -> int | None:
    """A number as variables have them, which may come as text."""
    try:
        return None if isinstance(value, bool) else int(str(value))
    except ValueError:
        return None


def _of_board_names(names: t.Iterable[object]) -> t.Iterator[tuple[int, str]]:
    for place, name in enumerate(names, 1):
        if not isinstance(name, str):
            yield place, "%s is no name of a board" % _shown(name)
            continue
        try:
            _boards.data(name)
        except _boards.BoardError as error:
            yield place, str(error)


def _is_host_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 253 and _HOST_NAME.fullmatch(value) is not None


def _of_hosts_entry(entry: object) -> list[str]:
    if not isinstance(entry, dict):
        return []  # the argument specification says so
    problems = []
    address = str(entry.get("address"))
    try:
        ipaddress.ip_address(address)
    except ValueError:
        problems.append("%r is no address" % address)
    else:
        if not address.isprintable() or " " in address:  # behind a %, ipaddress lets anything pass
            problems.append("%r is no address" % address)
    names = entry.get("names")
    if not names:
        problems.append("no names")
    elif not isinstance(names, (list, tuple)):
        problems.append("names is %s: give a list" % _shown(names))
    else:
        problems.extend("%r cannot be the name of a host" % str(each) for each in names if not _is_host_name(each))
    return problems
