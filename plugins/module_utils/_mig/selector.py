# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""GPU selection of a layout entry: ``devices`` and ``device_filter``."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from .._common.text import listed, short
from .errors import LayoutError
from .model import Gpu, LostGpu

# Kinds of selector
ALL = "all"
INDEX = "index"
UUID = "UUID"
BUS_ID = "PCI bus id"
PRODUCT = "product name"

OnError = t.Callable[[LayoutError], None]  # called with every error; raises it, or collects it and continues
Warn = t.Callable[[str], None]  # called with everything that is valid, and probably a mistake

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
    """One normalised item of ``devices``."""

    kind: str
    value: t.Union[int, str]
    uuid: t.Optional[str] = None  # for an index: the GPU that had it when the layout was applied

    def matches(self, gpu: Gpu) -> bool:
        if self.kind == ALL:
            return True
        if self.uuid is not None:
            return gpu.uuid.lower() == self.uuid.lower()
        if self.kind == INDEX:
            return gpu.index == self.value
        if self.kind == UUID:
            return normal_uuid(gpu.uuid) == self.value
        if self.kind == BUS_ID:
            return normal_bus_id(gpu.pci_bus_id) == self.value
        return _product_matches(gpu.name, str(self.value))

    def means(self, lost: LostGpu) -> bool:
        """Whether the selector definitely names a GPU that cannot be read."""
        if lost.gpu is not None:
            return self.matches(lost.gpu)
        return self.kind == ALL or (self.kind == INDEX and self.uuid is None and self.value == lost.index)

    def may_mean(self, lost: LostGpu, gpus: t.Sequence[Gpu]) -> bool:
        """Whether it may name a GPU whose identity cannot be read, given the readable ``gpus``."""
        if lost.gpu is not None or (self.kind == INDEX and self.uuid is None):
            return self.means(lost)
        return self.kind in (ALL, PRODUCT) or not any(self.matches(gpu) for gpu in gpus)

    def pinned(self, uuids: t.Mapping[int, str]) -> Selector:
        """An index bound to the UUID of its GPU; any other selector unchanged."""
        return self._replace(uuid=uuids.get(int(self.value))) if self.kind == INDEX else self

    def __str__(self) -> str:
        if self.uuid is not None:
            return "%s %s (%s)" % (self.kind, self.value, self.uuid)
        return "%s %.80s" % (self.kind, self.value) if self.kind != ALL else "all"


class DeviceFilter(t.NamedTuple):
    """A PCI device id, and an optional subsystem id, in NVML's format."""

    device: int
    subsystem: t.Optional[int] = None

    def matches(self, gpu: Gpu) -> bool:
        return gpu.pci_device_id == self.device and self.subsystem in (None, gpu.pci_subsystem_id)

    def __str__(self) -> str:
        return ":".join("0x%08X" % number for number in self if number is not None)


def normal_uuid(text: str) -> str:
    """The normalised UUID, in the driver's spelling."""
    return "GPU-" + text[4:].lower()


def normal_bus_id(text: str) -> str:
    """The normalised PCI bus id, in NVML's spelling but in lower case; other text is returned unchanged."""
    match = _BUS_ID.fullmatch(text)
    if match is None:
        return text
    domain, bus, device, function = match.groups()
    return ("%08x:%s:%s.%s" % (int(domain or "0", 16), bus, device, function)).lower()


def parse_devices(value: object, warn: Warn) -> t.Tuple[Selector, ...]:
    """Parse ``devices``. Errors and warnings do not name the entry. Raises LayoutError with a remedy.

    Like nvidia-mig-parted, accepts an empty list, which selects no GPU, and a GPU that is named twice.
    """
    if value == ALL:
        return (Selector(ALL, ALL),)
    if not isinstance(value, (list, tuple)):
        return (_selector(value),)
    if not value:
        warn("devices is an empty list, which selects no GPU: name at least one GPU, or remove the entry")
    selectors: t.Dict[t.Tuple[str, str], Selector] = {}  # in order; upper and lower case are the same GPU
    twice: t.List[str] = []
    for selector in map(_selector, value):
        key = (selector.kind, str(selector.value).lower())
        if key in selectors:
            twice.append(str(selector))
        selectors[key] = selector
    if twice:
        warn("devices names %s twice: name each GPU once" % listed(sorted(set(twice)), ", "))
    return tuple(selectors.values())


def parse_filter(value: object) -> t.Tuple[DeviceFilter, ...]:
    """Parse ``device_filter``; no value, an empty string and an empty list match every GPU."""
    if value is None or value == "" or value == []:
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(_device_filter(item) for item in value)
    return (_device_filter(value),)


def raise_error(error: LayoutError) -> None:
    """Raise the first error."""
    raise error


def select(
    selectors: t.Iterable[Selector],
    gpus: t.Sequence[Gpu],
    lost: t.Sequence[LostGpu] = (),
    on_error: OnError = raise_error,
) -> t.List[Gpu]:
    """The selected GPUs, in order of index. Each selector must match, and only product names may overlap with others.

    A selector that matches only a ``lost`` GPU is not an error.
    """
    found: t.Dict[int, t.Tuple[Selector, Gpu]] = {}
    for selector in selectors:
        matched = [gpu for gpu in gpus if selector.matches(gpu)]
        if not matched and not any(selector.means(one) for one in lost):
            on_error(LayoutError("%s matches no GPU: %s" % (selector, inventory(gpus))))
        for gpu in matched:
            other = found.get(gpu.index)
            if other is not None and PRODUCT not in (selector.kind, other[0].kind):
                on_error(
                    LayoutError("%s and %s are the same GPU (%s): name each GPU once" % (other[0], selector, gpu.label))
                )
            found[gpu.index] = (selector, gpu)
    return [found[index][1] for index in sorted(found)]


def inventory(gpus: t.Sequence[Gpu]) -> str:
    """The list of GPUs, as the remedy for a selector that matches none."""
    if not gpus:
        return "the driver lists no GPU on this node; check it with nvidia-smi -L"
    return "use one of the GPUs that this node has: %s" % listed([gpu.label for gpu in gpus])


def _product_matches(name: str, pattern: str) -> bool:
    """Product names match case-insensitively, with and without the vendor."""
    lowered = name.lower()
    candidates = [lowered]
    if lowered.startswith("nvidia "):
        candidates.append(lowered[len("nvidia ") :])
    return any(fnmatch.fnmatchcase(candidate, pattern.lower()) for candidate in candidates)


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
    """The selector for a string. Malformed indices, UUIDs and bus ids are errors, not product names."""
    if _UUID.fullmatch(text):
        return Selector(UUID, normal_uuid(text))
    if _BUS_ID.fullmatch(text):
        return Selector(BUS_ID, normal_bus_id(text))
    upper = text.strip().upper()
    if not upper:
        raise LayoutError("devices is an empty string: write %s" % _FORMS)
    if upper == "ALL":
        raise LayoutError("devices cannot be or contain %.60r here: write devices: all, alone and in lower case" % text)
    if re.fullmatch(r"[0-9]+", upper):
        raise LayoutError("devices cannot be the string %.60r: write the index without quotes" % text)
    if re.fullmatch(r"[0-9]+(?:\s*[-,]\s*[0-9]+)+", upper):
        raise LayoutError("devices cannot be the string %.60r: write a list of indices, for example [0, 1]" % text)
    if upper.startswith("MIG-"):
        raise LayoutError(
            "devices cannot be the MIG device %.60r: name its GPU, under which nvidia-smi -L lists it" % text
        )
    if upper.startswith("GPU-"):
        raise LayoutError("%.60r is not the UUID of a GPU: write it in full, as nvidia-smi -L shows it" % text)
    if re.fullmatch(r"[0-9A-F]*(?::[0-9A-F]*)+(?:\.[0-9A-F]*)?", upper):
        raise LayoutError(
            "%.60r is not a PCI bus id: write domain:bus:device.function, as in '00000000:47:00.0'" % text
        )
    if text != text.strip():
        raise LayoutError("the product name %.60r has spaces around it: write %.60r" % (text, text.strip()))
    return Selector(PRODUCT, text)


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
