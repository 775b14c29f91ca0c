# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Data types of the engine: capabilities, current state and desired state of a GPU.

Every type is immutable and comparable. Memory is in MiB, placements are in the
units of the board's placement grid, ids are NVML's. Nothing here does I/O.
"""

from __future__ import annotations

import typing as t

# How a profile uses the GPU's media and graphics engines, as the suffix of its name.
PLAIN = ""
ME = "+me"  # has the media extensions, of which there is one set
ME_ALL = "+me.all"  # has every media engine of the GPU
NO_ME = "-me"  # has none
GFX = "+gfx"  # can run graphics

# The NVML_GPU_INSTANCE_PROFILE_* numbers with an attribute.
ATTRIBUTES: t.Dict[int, str] = {
    7: ME,
    8: ME,
    10: GFX,
    11: GFX,
    12: GFX,
    13: NO_ME,
    14: NO_ME,
    15: ME_ALL,
    16: ME_ALL,
    17: GFX,
}

WHOLE: t.Tuple[int, ...] = ()  # one compute instance over the whole GPU instance


class Placement(t.NamedTuple):
    """The position of a GPU instance on its board's grid: units ``start`` to ``start + size - 1``."""

    start: int
    size: int

    @property
    def end(self) -> int:
        """First unit after the placement."""
        return self.start + self.size

    def overlaps(self, other: Placement) -> bool:
        return self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return "%d:%d" % (self.start, self.size)


class Profile(t.NamedTuple):
    """A GPU instance profile as one GPU offers it (source: NVML at run time, or a board file).

    ``constant`` is the NVML_GPU_INSTANCE_PROFILE_* number, which is only used to query
    the profile's information; all other calls use ``id``.
    """

    name: str  # canonical: "3g.40gb", "1g.10gb+me"; without a leading "MIG "
    id: int
    constant: int
    slices: int  # compute slices
    memory_mib: int
    multiprocessors: int
    max_instances: int  # how many of this profile an empty GPU holds
    placements: t.Tuple[Placement, ...]


class Board(t.NamedTuple):
    """The profiles of a GPU and the grid that they share."""

    model: str  # product or board name, for messages only
    profiles: t.Tuple[Profile, ...]
    compute_slices: int  # the slices of all GPU instances together may not exceed this
    memory_units: int  # width of the placement grid
    max_gpu_instances: int


class Process(t.NamedTuple):
    """A process that uses a GPU. Instance ids are None if it uses the whole GPU."""

    pid: int
    name: str
    gi_id: t.Optional[int] = None
    ci_id: t.Optional[int] = None


class ComputeInstance(t.NamedTuple):
    """An existing compute instance. ``uuid`` is that of its MIG device ("MIG-..."), None if it could not be read."""

    id: int
    profile_id: int
    slices: int
    placement: t.Optional[Placement]  # in compute slices inside the GPU instance; None if the driver does not report it
    uuid: t.Optional[str] = None
    multiprocessors: t.Optional[int] = None
    reduced: bool = False  # has all slices, but not all multiprocessors, of its GPU instance: 1c.1g.20gb


class GpuInstance(t.NamedTuple):
    """An existing GPU instance, with its compute instances in order of id."""

    id: int
    profile_id: int
    placement: Placement
    compute_instances: t.Tuple[ComputeInstance, ...] = ()


class Gpu(t.NamedTuple):
    """One GPU as read from the driver at one moment.

    ``mode_current`` and ``mode_pending`` are None on a GPU without MIG support, and in an identity whose mode the
    driver does not report.
    ``profiles_known`` is False if the driver lists no profiles while MIG mode is off
    (for example driver 535). Then ``board.profiles`` is empty until the mode is on.
    """

    index: int  # type: ignore[assignment]  # it hides tuple.index
    uuid: str  # "GPU-..."
    pci_bus_id: str  # as NVML prints it: "00000000:47:00.0"
    name: str  # product name
    pci_device_id: int  # 0x<device><vendor>, NVML pciDeviceId
    pci_subsystem_id: int  # 0x<device><vendor> of the subsystem, NVML pciSubSystemId
    mig_capable: bool
    mode_current: t.Optional[bool]
    mode_pending: t.Optional[bool]
    resetless: t.Optional[bool]  # True: mode changes need no reset; None: unknown
    board: Board
    profiles_known: bool
    instances: t.Tuple[GpuInstance, ...] = ()
    processes: t.Tuple[Process, ...] = ()
    # for facts and messages; None if the driver does not report them
    memory_mib: t.Optional[int] = None
    architecture: t.Optional[str] = None  # "ampere", "hopper", "blackwell", ...
    compute_capability: t.Optional[str] = None  # "8.0"
    serial: t.Optional[str] = None
    minor: t.Optional[int] = None

    @classmethod
    def missing(cls, index: int, uuid: str) -> Gpu:
        """A GPU that the driver does not list, and of which nothing else is known."""
        return cls(index, uuid, "", "", 0, 0, True, None, None, None, Board("", (), 0, 0, 0), False)

    def users(
        self, gi_id: t.Optional[int], ci_ids: t.Optional[t.Container[t.Optional[int]]] = None
    ) -> t.Tuple[Process, ...]:
        """The processes that use a GPU instance, or these compute instances in it.

        A process uses all of them if the driver reports only its GPU instance.
        """
        return tuple(
            process
            for process in self.processes
            if process.gi_id == gi_id and (ci_ids is None or process.ci_id is None or process.ci_id in ci_ids)
        )

    def profile(self, profile_id: int) -> Profile:
        found = self.listed_profile(profile_id)
        if found is None:
            raise KeyError(profile_id)
        return found

    def listed_profile(self, profile_id: int) -> t.Optional[Profile]:
        """None if the driver does not list the profile: it can list instances without."""
        return next((profile for profile in self.board.profiles if profile.id == profile_id), None)

    def profile_name(self, profile_id: int) -> str:
        """The name, also of a profile that the driver does not list."""
        found = self.listed_profile(profile_id)
        return found.name if found else "profile %d" % profile_id

    @property
    def label(self) -> str:
        """The GPU in messages: index, UUID, bus id and product."""
        # A GPU that is given by its board has only a name.
        return "GPU %d (%s)" % (self.index, ", ".join(filter(None, (self.uuid, self.pci_bus_id, self.name))))

    @property
    def kind(self) -> str:
        """The product in messages about several GPUs."""
        return self.name


class LostGpu(t.NamedTuple):
    """A GPU that the driver cannot read. ``gpu`` is its identity and mode, if they are known."""

    index: int  # type: ignore[assignment]  # it hides tuple.index
    error: Exception
    gpu: t.Optional[Gpu] = None

    @property
    def label(self) -> str:
        return "GPU %d" % self.index if self.gpu is None else self.gpu.label


class DesiredInstance(t.NamedTuple):
    """A desired GPU instance of a layout, resolved to a profile of the GPU.

    ``start`` pins the placement. ``compute_instances`` are compute slice counts in
    descending order; the default, ``WHOLE``, is one compute instance over the whole
    GPU instance. With ``reduced`` that one is of the kind with fewer multiprocessors.
    """

    profile: Profile
    start: t.Optional[int] = None
    compute_instances: t.Tuple[int, ...] = WHOLE
    reduced: bool = False

    @property
    def slices(self) -> t.Tuple[int, ...]:
        """Compute instances as slice counts, with the default expanded."""
        return self.compute_instances or (self.profile.slices,)

    def order(self) -> t.Tuple[t.Any, ...]:
        """Sort key: largest first, pinned before unpinned. A total order, so that equal layouts are equal values."""
        profile = self.profile
        return (
            -profile.slices,
            -max((place.size for place in profile.placements), default=0),
            profile.id,
            self.start is None,
            self.start or 0,
            self.slices,
            self.reduced,
        )


class Target(t.NamedTuple):
    """The desired state of one GPU. With ``enabled`` False, ``instances`` is empty."""

    enabled: bool
    instances: t.Tuple[DesiredInstance, ...] = ()
