# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Profile names: parsing, equivalence, and Kubernetes resource names."""

from __future__ import annotations

import re
import typing as t

from .._common.text import short
from .errors import LayoutError
from .model import Profile

_MAX_LENGTH = 60  # characters of a name
_WORDS = r"[a-z0-9]+(?:\.[a-z0-9]+)*"
_NAME = re.compile(
    r"(?:MIG )?(?:(?P<compute>[1-9][0-9]?)c\.)?(?P<slices>[1-9][0-9]?)g\.(?P<memory>0|[1-9][0-9]{0,5})gb"
    r"(?:\+(?P<with>%s(?:,%s)*)|-(?P<without>%s(?:,%s)*))?" % ((_WORDS,) * 4)
)
# Kubernetes resource names and labels cannot contain a plus sign and use a dot instead.
_KUBERNETES = re.compile(r"((?:[0-9]+c\.)?[0-9]+g\.[0-9]+gb)\.(%s)" % _WORDS)

# Drivers round the memory of one profile differently (3g.40gb has been 3g.39gb, 1g.23gb has been 1g.24gb).
_DRIFT_PERCENT = 5


class Name(t.NamedTuple):
    """A parsed profile name. Compare user-written names by ``canonical``."""

    slices: int
    memory_gb: int
    attributes: t.Tuple[str, ...] = ()  # after "+", sorted
    without: t.Tuple[str, ...] = ()  # after "-", sorted
    compute: t.Optional[int] = None  # compute slices if the name denotes a compute instance

    @property
    def gpu_instance(self) -> Name:
        """The name of the GPU instance that this name denotes or belongs to."""
        return self._replace(compute=None)

    @property
    def canonical(self) -> str:
        prefix = "" if self.compute is None else "%dc." % self.compute
        suffix = ""
        if self.attributes:
            suffix = "+" + ",".join(self.attributes)
        elif self.without:
            suffix = "-" + ",".join(self.without)
        return "%s%dg.%dgb%s" % (prefix, self.slices, self.memory_gb, suffix)


def parse(text: object) -> Name:
    """Parse a name: ``[Xc.]Yg.Zgb[+attributes|-attributes]``, with or without a leading ``MIG``.

    ``7c.7g.80gb`` is ``7g.80gb``, because it has all slices. With one slice there may be two kinds, so
    ``1c.1g.20gb`` is kept; which kind it denotes depends on the GPU (``board.offers_reduced``).
    Raises LayoutError with a remedy.
    """
    if not isinstance(text, str):
        raise LayoutError(
            "%s is not a profile name: write it as a string, as nvidia-smi does, for example '3g.40gb'" % short(text)
        )
    match = _NAME.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise LayoutError("%.60r is not a profile name: %s" % (text, _hint(text[:_MAX_LENGTH])))
    slices = int(match.group("slices"))
    compute = int(match.group("compute")) if match.group("compute") else None
    if compute is not None and compute > slices:
        raise LayoutError(
            "%r needs %d compute slices of a GPU instance that has %d: write at most %dc"
            % (text, compute, slices, slices)
        )
    return Name(
        slices=slices,
        memory_gb=int(match.group("memory")),
        attributes=_words(match.group("with")),
        without=_words(match.group("without")),
        compute=None if compute == slices > 1 else compute,
    )


def canonical(text: str) -> str:
    """The canonical spelling of a name. Other text is returned unchanged, except for a leading ``MIG``."""
    try:
        return parse(text).canonical
    except LayoutError:
        return text[4:] if text.startswith("MIG ") else text


def is_near(one: Name, other: Name) -> bool:
    """Whether two names may be those of different drivers for one profile."""
    difference = abs(one.memory_gb - other.memory_gb)
    same_kind = one._replace(memory_gb=0) == other._replace(memory_gb=0)
    return same_kind and difference * 100 <= max(one.memory_gb, other.memory_gb) * _DRIFT_PERCENT


def find(name: Name, profiles: t.Iterable[Profile]) -> t.Optional[Profile]:
    """The profile that a name denotes on a GPU, or None.

    An equal name takes precedence. Otherwise the name may be another driver's name for a
    profile: same slices, same attributes, memory within five percent, and only one such
    profile. There is no nearest match.
    """
    gi_name = name.gpu_instance
    drifted: t.List[Profile] = []
    for profile in profiles:
        offered = _parse_or_none(profile.name)
        if offered is None:
            continue
        if offered == gi_name:
            return profile
        if is_near(offered, gi_name):
            drifted.append(profile)
    return drifted[0] if len(drifted) == 1 else None


def compute_name(profile: Profile, slices: int, reduced: bool = False) -> str:
    """The name of a compute instance with ``slices`` slices in a GPU instance of the profile, and of its MIG device."""
    return profile.name if slices == profile.slices and not reduced else "%dc.%s" % (slices, profile.name)


def resource_name(name: str) -> str:
    """The Kubernetes resource under which the device plugin offers MIG devices of this name."""
    return "nvidia.com/mig-" + canonical(name).replace("+", ".")


def _parse_or_none(text: str) -> t.Optional[Name]:
    try:
        return parse(text)
    except LayoutError:
        return None


def _words(text: t.Optional[str]) -> t.Tuple[str, ...]:
    return tuple(sorted(set(text.split(",")))) if text else ()


def _hint(text: str) -> str:
    """The remedy for an invalid name."""
    squeezed = "".join(text.split()).lower()
    if squeezed.startswith("mig"):
        squeezed = squeezed[3:].lstrip("-")
    label = _KUBERNETES.fullmatch(squeezed)
    if label:
        return "this is the Kubernetes spelling, in a layout write '%s+%s'" % label.groups()
    if squeezed != text and _NAME.fullmatch(squeezed):
        return "write %r" % squeezed
    return "write it as nvidia-smi does, for example '3g.40gb', '1g.10gb+me' or '1c.3g.40gb'"
