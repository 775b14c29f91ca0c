# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Parse the text output of nvidia-smi: tables of the ``mig`` commands and the list of devices.

Strict: an unknown line is an error and never skipped, because a missed instance would be
treated as free space.
"""

from __future__ import annotations

import re
import typing as t


class ParseError(ValueError):
    """Unknown output of nvidia-smi."""


class ProfileRow(t.NamedTuple):
    name: str
    id: int
    total: int
    memory_mib: int
    multiprocessors: int


class InstanceRow(t.NamedTuple):
    gpu: int
    profile_id: int
    id: int
    start: int
    size: int


class ComputeRow(t.NamedTuple):
    gpu: int
    gi_id: int
    name: str
    profile_id: int
    id: int
    start: int
    size: int


class ComputeProfileRow(t.NamedTuple):
    gi_id: int
    name: str
    id: int
    total: int
    multiprocessors: int


class DeviceRow(t.NamedTuple):
    slices: t.Tuple[int, int]
    uuid: str


_FRAME = re.compile(r"^\+[-+]*\+$|^\|=+\|$")
_PROFILE = re.compile(r"^\| +\d+ +(?:MIG )?(\S+) +(\d+) +\d+/(\d+) +(\d+\.\d+) +(?:Yes|No) +(\d+) +\d+ +\d+ +\|$")
_PROFILE_MORE = re.compile(r"^\| +\d+ +\d+ +\d+ +\|$")
_INSTANCE = re.compile(r"^\| +(\d+) +(?:MIG )?\S+ +(\d+) +(\d+) +(\d+):(\d+) +\|$")
_COMPUTE = re.compile(r"^\| +(\d+) +(\d+) +(?:MIG )?(\S+) +(\d+) +(\d+) +(\d+):(\d+) +\|$")
_COMPUTE_PROFILE = re.compile(r"^\| +\d+ +(\d+) +(?:MIG )?(\S+) +(\d+)\*? +\d+/(\d+) +(\d+) +\d+ +\d+ +\d+ +\|$")
_COMPUTE_PROFILE_MORE = re.compile(r"^\| +\d+ +\d+ +\|$")
_PLACEMENTS = re.compile(r"^GPU +\d+ +Profile ID +(\d+) +Placements? *: +\{([\d,]*)\}:(\d+)$")
_COMPUTE_PLACEMENTS = re.compile(r"^GPU +\d+ +GI +\d+ +Profile ID +(\d+) +Placements? *: +\{([\d,]*)\}:(\d+)$")
# What -L prints in place of an unreachable GPU.
_NO_HANDLE = "Unable to determine the device handle"
_LISTED_GPU = re.compile(r"^GPU (\d+): (.*) \(UUID: (GPU-[0-9A-Za-z-]+)\)$")
_LISTED_DEVICE = re.compile(r"^ +MIG (\S+) +Device +\d+: \(UUID: (MIG-[0-9A-Za-z/-]+)\)$")


def profiles(text: str) -> t.List[ProfileRow]:
    """``mig -lgip``"""
    return [
        ProfileRow(
            name=first.group(1),
            id=int(first.group(2)),
            total=int(first.group(3)),
            memory_mib=mebibytes(first.group(4)),
            multiprocessors=int(first.group(5)),
        )
        for first, _more in _pairs(_rows(text), _PROFILE, _PROFILE_MORE)
    ]


def instances(text: str) -> t.List[InstanceRow]:
    """``mig -lgi``"""
    return [InstanceRow(*(int(part) for part in row.groups())) for row in _matches(_rows(text), _INSTANCE)]


def compute_instances(text: str) -> t.List[ComputeRow]:
    """``mig -lci``"""
    found = []
    for row in _matches(_rows(text), _COMPUTE):
        gpu, gi_id, name, profile_id, ci_id, start, size = row.groups()
        found.append(ComputeRow(int(gpu), int(gi_id), name, int(profile_id), int(ci_id), int(start), int(size)))
    return found


def compute_profiles(text: str) -> t.List[ComputeProfileRow]:
    """``mig -lcip``"""
    found = []
    for row, _more in _pairs(_rows(text), _COMPUTE_PROFILE, _COMPUTE_PROFILE_MORE):
        gi_id, name, profile_id, total, multiprocessors = row.groups()
        found.append(ComputeProfileRow(int(gi_id), name, int(profile_id), int(total), int(multiprocessors)))
    return found


def placements(text: str) -> t.Dict[int, t.List[t.Tuple[int, int]]]:
    """``mig -lgipp``: profile id -> (start, size)"""
    return _placements(text, _PLACEMENTS)


def compute_placements(text: str) -> t.Dict[int, t.List[t.Tuple[int, int]]]:
    """``mig -lcipp`` of one GPU instance: profile id -> (start, size)"""
    return _placements(text, _COMPUTE_PLACEMENTS)


def mig_devices(text: str, gpu_uuid: str) -> t.List[DeviceRow]:
    """``-L``: the MIG devices of one GPU in NVML's order. Their numbers have no gaps and may differ from NVML's."""
    found: t.List[DeviceRow] = []
    current = ""
    for line in _lines(text):
        gpu, device = _LISTED_GPU.match(line), _LISTED_DEVICE.match(line)
        if gpu is not None:
            current = gpu.group(3)
        elif _is_lost(line):
            current = ""
        elif device is None:
            raise ParseError("unexpected line: %r" % line)
        elif current == gpu_uuid:
            found.append(DeviceRow(slices(device.group(1)), device.group(2)))
    return found


def gpu_slots(text: str) -> t.List[t.Optional[str]]:
    """``-L``: the GPUs' UUIDs in order of index, None for one that has fallen off the bus or has no UUID."""
    found = listed_gpus(text)
    lost = sum(map(_is_lost, _lines(text)))
    return [found.get(index) for index in range(max([len(found) + lost, *(index + 1 for index in found)]))]


def _is_lost(line: str) -> bool:
    """Whether this line of ``-L`` stands for a GPU that is unreachable or has no UUID."""
    return line.startswith(_NO_HANDLE) or (line.startswith("GPU ") and _LISTED_GPU.match(line) is None)


def listed_gpus(text: str) -> t.Dict[int, str]:
    """``-L``: index of the GPU -> its UUID"""
    return {int(gpu.group(1)): gpu.group(3) for gpu in map(_LISTED_GPU.match, _lines(text)) if gpu}


def mebibytes(gibibytes: str) -> int:
    """Memory as reported by NVML. The table rounds to hundredths of a GiB; sizes are multiples of 64 MiB."""
    exact = float(gibibytes) * 1024
    stepped = int(round(exact / 64)) * 64
    return stepped if abs(stepped - exact) <= 0.0051 * 1024 else int(round(exact))


def compute_slices(name: str) -> int:
    """Compute slices of a compute instance by its name: ``1c.3g.40gb`` or, for all of it, ``3g.40gb``."""
    return slices(name)[0]


def slices(name: str) -> t.Tuple[int, int]:
    """Compute slices of a compute instance and of its GPU instance. Other parts of the name vary with the version."""
    found = re.match(r"(?:(\d+)c\.)?(\d+)g\.", name)
    if found is None:
        raise ParseError("unexpected name: %r" % name)
    part, whole = found.groups()
    return int(part or whole), int(whole)


def _lines(text: str) -> t.List[str]:
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def _rows(text: str) -> t.Iterator[str]:
    """The rows of a table without its frame and headings."""
    inside = False
    for line in _lines(text):
        if _FRAME.match(line):
            inside = inside or line.startswith("|=")
        elif inside:
            yield line
        elif not (line.startswith("|") and line.endswith("|")):
            raise ParseError("unexpected line: %r" % line)
    if not inside:
        raise ParseError("no table in %r" % text[:200])


def _matches(rows: t.Iterable[str], pattern: t.Pattern[str]) -> t.Iterator[t.Match[str]]:
    for row in rows:
        match = pattern.match(row)
        if match is None:
            raise ParseError("unexpected line: %r" % row)
        yield match


def _pairs(
    rows: t.Iterable[str], first: t.Pattern[str], second: t.Pattern[str]
) -> t.Iterator[t.Tuple[t.Match[str], t.Match[str]]]:
    """Rows of two lines each."""
    lines = list(rows)
    if len(lines) % 2:
        raise ParseError("unexpected line: %r" % lines[-1])
    return zip(_matches(lines[0::2], first), _matches(lines[1::2], second))


def _placements(text: str, pattern: t.Pattern[str]) -> t.Dict[int, t.List[t.Tuple[int, int]]]:
    found: t.Dict[int, t.List[t.Tuple[int, int]]] = {}
    for match in _matches(_lines(text), pattern):
        starts = [int(start) for start in match.group(2).split(",") if start]
        found[int(match.group(1))] = sorted((start, int(match.group(3))) for start in starts)
    return found
