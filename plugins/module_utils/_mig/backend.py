# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The protocol through which the engine reaches the GPUs of a node, and its one exception.

Three things implement it: NVML (``nvml.py``), nvidia-smi (``smi.py``) and the fakes
of the unit tests. All of them raise ``BackendError`` and nothing else. Objects are
addressed by GPU index and NVML ids, never by handles, because nvidia-smi has none and
because handles go stale. Calls for different GPUs may come from different threads.
"""

from __future__ import annotations

import typing as t

from . import codes

if t.TYPE_CHECKING:
    from .model import Gpu, Placement


class BackendError(Exception):
    """A call to the driver failed.

    ``code`` is an NVML return code, ``call`` what was called ("nvmlGpuInstanceDestroy",
    "nvidia-smi mig -dgi"), ``detail`` the driver's own words if it had any. ``waited``
    marks a time limit of ours: to call again would be to wait as long again.
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
    placements: t.Tuple[t.Tuple[int, int], ...]  # (start, size) in compute slices; empty where the driver does not tell
    name: str = ""
    reduced: bool = False  # over the whole GPU instance, which also offers one with more multiprocessors


class Versions(t.NamedTuple):
    """Versions as the driver reports them; None where it does not."""

    driver: t.Optional[str] = None  # "550.163.01"
    cuda: t.Optional[str] = None  # highest CUDA that this driver supports, "12.4"
    nvml: t.Optional[str] = None  # "12.550.163.01"


class Backend(t.Protocol):
    """What the engine needs to reach the GPUs of a node."""

    name: str  # "nvml" or "nvidia_smi"

    def open(self) -> None:
        """Load and initialise. Raises BackendError with a remedy if that is impossible."""

    def close(self) -> None:
        """Release. Never raises; may be called twice."""

    def count(self) -> int:
        """Number of GPUs."""

    def versions(self) -> Versions:
        """Driver, CUDA and NVML versions."""

    def prefetch(self) -> None:
        """Ask about all GPUs at once where that costs less; the next ``read`` of each may use it, once. Never raises."""

    def identify(self, index: int) -> Gpu:
        """The GPU's identity and mode alone, which any user may read: no profiles, instances or processes."""

    def read(self, index: int) -> Gpu:
        """The GPU's identity, mode, profiles, instances and processes, all fresh."""

    def set_mode(self, index: int, enabled: bool) -> int:
        """Ask for MIG mode on or off; returns the activation status, an NVML return code (0: active now)."""

    def create_gpu_instance(self, index: int, profile_id: int, placement: Placement) -> int:
        """Create exactly there; returns the new GPU instance's id."""

    def destroy_gpu_instance(self, index: int, gi_id: int) -> None:
        """Destroy an instance that has no compute instances left."""

    def compute_profiles(self, index: int, gi_id: int) -> t.Tuple[CiProfile, ...]:
        """The compute instance profiles of a live GPU instance."""

    def create_compute_instance(self, index: int, gi_id: int, profile_id: int, start: t.Optional[int]) -> int:
        """Create at compute slice ``start`` (None: the driver chooses); returns the new compute instance's id."""

    def destroy_compute_instance(self, index: int, gi_id: int, ci_id: int) -> None: ...

    def reset(self, index: int) -> None:
        """Reset this one GPU (nvidia-smi --gpu-reset, with either backend)."""
