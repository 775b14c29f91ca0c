# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Which GPUs an entry of a layout is about: ``devices`` and ``device_filter``."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from .errors import LayoutError
from .keys import short
from .model import Gpu

# Kinds of selector
ALL = "all"
INDEX = "index"
UUID = "UUID"
BUS_ID = "PCI bus id"
PRODUCT = "product name"

_FORMS = (
    "'all', an index (0), a UUID ('GPU-...'), a PCI bus id ('00000000:47:00.0'), a product name ('A100*'), "
    "or a list of these"
)
_LAST_INDEX = 9999  # more than any node has
_HEX = r"[0-9a-fA-F]"
_UUID = re.compile(r"GPU-%s{8}(?:-%s{4}){3}-%s{12}" % (_HEX, _HEX, _HEX), re.IGNORECASE)
_BUS_ID = re.compile(r"(?:(%s{4}|%s{8}):)?(%s{2}):(%s{2})\.([0-7])" % (_HEX, _HEX, _HEX, _HEX))
_FILTER = re.compile(r"0[xX](%s{8})(?::0[xX](%s{8}))?" % (_HEX, _HEX))


class Selector(t.NamedTuple):
    """One thing that ``devices`` names, in one spelling."""

    kind: str
    value: t.Union[int, str]

    def matches(self, gpu: Gpu) -> bool:
        if self.kind == ALL:
            return True
        if self.kind == INDEX:
            return gpu.index == self.value
        if self.kind == UUID:
            return gpu.uuid.lower() == self.value
        if self.kind == BUS_ID:
            return normal_bus_id(gpu.pci_bus_id) == self.value
        return _product_matches(gpu.name, str(self.value))

    def __str__(self) -> str:
        return "%s %s" % (self.kind, self.value) if self.kind != ALL else "all"


class DeviceFilter(t.NamedTuple):
    """A PCI device id, and a subsystem id where the filter has one, as NVML gives them."""

    device: int
    subsystem: t.Optional[int] = None

    def matches(self, gpu: Gpu) -> bool:
        return gpu.pci_device_id == self.device and self.subsystem in (None, gpu.pci_subsystem_id)

    def __str__(self) -> str:
        return ":".join("0x%08X" % number for number in self if number is not None)


def normal_bus_id(text: str) -> str:
    """One spelling of a PCI bus id, as NVML has it but in lower case; anything else comes back as it is."""
    match = _BUS_ID.fullmatch(text)
    if match is None:
        return text
    domain, bus, device, function = match.groups()
    return ("%08x:%s:%s.%s" % (int(domain or "0", 16), bus, device, function)).lower()


def parse_devices(value: object) -> t.Tuple[Selector, ...]:
    """The value of ``devices``. Raises LayoutError with a remedy, without naming the entry."""
    if value == ALL:
        return (Selector(ALL, ALL),)
    if not isinstance(value, (list, tuple)):
        return (_selector(value),)
    if not value:
        raise LayoutError("devices is an empty list: name at least one GPU, or take the entry out")
    selectors: t.Dict[Selector, None] = {}  # in order
    for selector in map(_selector, value):
        if selector in selectors:
            raise LayoutError("devices names %s twice: name each GPU once" % (selector,))
        selectors[selector] = None
    return tuple(selectors)


def parse_filter(value: object) -> t.Tuple[DeviceFilter, ...]:
    """The value of ``device_filter``; nothing, an empty string and an empty list mean every GPU."""
    if value is None or value == "" or value == []:
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(_device_filter(item) for item in value)
    return (_device_filter(value),)


def select(selectors: t.Iterable[Selector], gpus: t.Sequence[Gpu]) -> t.List[Gpu]:
    """The GPUs named, in order of index. Each selector must match, and only product names may overlap with others."""
    found: t.Dict[int, t.Tuple[Selector, Gpu]] = {}
    for selector in selectors:
        matched = [gpu for gpu in gpus if selector.matches(gpu)]
        if not matched:
            raise LayoutError("%s matches no GPU: %s" % (selector, inventory(gpus)))
        for gpu in matched:
            other = found.get(gpu.index)
            if other is not None and PRODUCT not in (selector.kind, other[0].kind):
                raise LayoutError(
                    "%s and %s are the same GPU (%s): name each GPU once" % (other[0], selector, gpu.label)
                )
            found[gpu.index] = (selector, gpu)
    return [found[index][1] for index in sorted(found)]


def inventory(gpus: t.Sequence[Gpu]) -> str:
    """The GPUs there are, as the remedy of a selector that matches none."""
    if not gpus:
        return "this node has no GPU that the driver shows; check the driver with nvidia-smi -L"
    return "use one of the GPUs that this node has: %s" % "; ".join(gpu.label for gpu in gpus)


def _product_matches(name: str, pattern: str) -> bool:
    """Product names compare without regard to case, with and without the vendor in front."""
    lowered = name.lower()
    candidates = [lowered]
    if lowered.startswith("nvidia "):
        candidates.append(lowered[len("nvidia ") :])
    return any(fnmatch.fnmatchcase(candidate, pattern) for candidate in candidates)


def _selector(value: object) -> Selector:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise LayoutError("devices cannot be %s: write %s" % (short(value), _FORMS))
    if isinstance(value, float):
        raise LayoutError(
            "devices cannot be the number %r: write a PCI bus id in quotes, YAML reads 47:00.0 as a number" % value
        )
    if isinstance(value, int):
        if not 0 <= value <= _LAST_INDEX:
            raise LayoutError(
                "devices cannot be %s: GPU indices start at 0, and end with %d" % (short(value), _LAST_INDEX)
            )
        return Selector(INDEX, value)
    return _named(value)


def _named(text: str) -> Selector:
    """A GPU named by a string. What is nearly an index, UUID or bus id is refused, so that it is no product name."""
    if _UUID.fullmatch(text):
        return Selector(UUID, text.lower())
    if _BUS_ID.fullmatch(text):
        return Selector(BUS_ID, normal_bus_id(text))
    upper = text.strip().upper()
    if not upper:
        raise LayoutError("devices is an empty string: write %s" % _FORMS)
    if upper == "ALL":
        raise LayoutError("devices cannot be or hold %r here: write devices: all, alone and in lower case" % text)
    if re.fullmatch(r"[0-9]+", upper):
        raise LayoutError("devices cannot be the string %r: write the index without quotes" % text)
    if re.fullmatch(r"[0-9]+(?:\s*[-,]\s*[0-9]+)+", upper):
        raise LayoutError("devices cannot be the string %r: write a list of indices, for example [0, 1]" % text)
    if upper.startswith("MIG-"):
        raise LayoutError("devices cannot be the MIG device %r: name its GPU, with nvidia-smi -L beside it" % text)
    if upper.startswith("GPU-"):
        raise LayoutError("%r is not the UUID of a GPU: write it in full, as nvidia-smi -L shows it" % text)
    if re.fullmatch(r"[0-9A-F]*(?::[0-9A-F]*)+(?:\.[0-9A-F]*)?", upper):
        raise LayoutError("%r is not a PCI bus id: write domain:bus:device.function, as in '00000000:47:00.0'" % text)
    if text != text.strip():
        raise LayoutError("the product name %r has spaces around it: write %r" % (text, text.strip()))
    return Selector(PRODUCT, text.lower())


def _device_filter(value: object) -> DeviceFilter:
    if isinstance(value, int) and not isinstance(value, bool):
        raise LayoutError(
            "device_filter cannot be the number %s: write it in quotes, '0x%08X', YAML reads it as a number otherwise"
            % (short(value), value & 0xFFFFFFFF)
        )
    match = _FILTER.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise LayoutError(
            "device_filter cannot be %s: write '0x<device><vendor>' or '0x<device><vendor>:0x<subsystem>', "
            "for example '0x20B210DE', or a list of these" % short(value)
        )
    device, subsystem = match.groups()
    return DeviceFilter(int(device, 16), int(subsystem, 16) if subsystem else None)
