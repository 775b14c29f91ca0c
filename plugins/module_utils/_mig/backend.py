# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The protocol between the engine and the GPUs of a node, and its only exception.

Implementations are NVML (``nvml.py``), nvidia-smi (``smi.py``) and the fakes of the
unit tests. They only raise ``BackendError``. Objects are addressed by GPU index and
NVML ids, not by handles, because nvidia-smi has none and handles go stale. Calls for
different GPUs may come from different threads.
"""

from __future__ import annotations

import typing as t

from . import codes

if t.TYPE_CHECKING:
    from .model import Gpu, Placement


class BackendError(Exception):
    """A call to the driver failed.

    ``code`` is an NVML return code, ``call`` the function or command ("nvmlGpuInstanceDestroy", "nvidia-smi mig -dgi"),
    ``detail`` the driver's message, if any. ``waited`` is set if this collection's time limit expired: a retry would
    take as long again.
    """

    def __init__(self, code: int, call: str, detail: str = "", remedy: str = "", waited: bool = False) -> None:
        self.code = code
        self.call = call
        self.detail = detail
        self.remedy = remedy
        self.waited = waited
        text = "%s: %s" % (call, self.code_name)
        if detail:
            text += " (%s)" % detail
        if remedy:
            text += ". " + remedy
        super().__init__(text)

    @property
    def code_name(self) -> str:
        return codes.NAMES.get(self.code, "NVML error %d" % self.code)


class CiProfile(t.NamedTuple):
    """A compute instance profile that a live GPU instance offers."""

    id: int
    slices: int
    multiprocessors: int
    max_instances: int
    placements: t.Tuple[t.Tuple[int, int], ...]  # (start, size) in compute slices; empty if the driver lists none
    reduced: bool = False  # has all slices, but there is another such profile with more multiprocessors


class Versions(t.NamedTuple):
    """Versions as reported by the driver; None if not reported."""

    driver: t.Optional[str] = None  # "550.163.01"
    cuda: t.Optional[str] = None  # highest CUDA version that this driver supports, "12.4"
    nvml: t.Optional[str] = None  # "12.550.163.01"


class Backend(t.Protocol):
    """Access to the GPUs of a node."""

    name: str  # "nvml" or "nvidia_smi"

    def open(self) -> None:
        """Load and initialise. Raises BackendError with a remedy."""

    def close(self) -> None:
        """Release all resources. Never raises; may be called twice."""

    def count(self) -> int:
        """Number of GPUs."""

    def versions(self) -> Versions:
        """Driver, CUDA and NVML versions."""

    def prefetch(self) -> None:
        """Query all GPUs at once if that is faster. The next ``read`` of each may use the result once. Never raises."""

    def identify(self, index: int) -> Gpu:
        """The GPU's identity and mode, which any user may read, without profiles, instances and processes."""

    def read(self, index: int) -> Gpu:
        """The current identity, mode, profiles, instances and processes of the GPU."""

    def set_mode(self, index: int, enabled: bool) -> int:
        """Request MIG mode on or off; returns the activation status, an NVML return code (0: active now)."""

    def create_gpu_instance(self, index: int, profile_id: int, placement: Placement) -> int:
        """Create a GPU instance at this placement; returns its id."""

    def destroy_gpu_instance(self, index: int, gi_id: int) -> None:
        """Destroy a GPU instance that has no compute instances left."""

    def compute_profiles(self, index: int, gi_id: int) -> t.Tuple[CiProfile, ...]:
        """The compute instance profiles of a live GPU instance."""

    def create_compute_instance(self, index: int, gi_id: int, profile_id: int, start: t.Optional[int]) -> int:
        """Create at compute slice ``start`` (None: the driver chooses); returns the new compute instance's id."""

    def destroy_compute_instance(self, index: int, gi_id: int, ci_id: int) -> None: ...

    def reset(self, index: int) -> None:
        """Reset only this GPU (nvidia-smi --gpu-reset, with either backend)."""
