# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Wrapper of pynvml: late import, uniform errors, and compatibility with all its versions.

Nothing is imported from pynvml before ``load``, because a node may not have it. Supports
nvidia-ml-py 11 to 13 with any driver since 515, and uses older calls if newer ones are missing.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .remedies import remedy

_UPDATE = "Update nvidia-ml-py for %s" % sys.executable
# Functions that the collection requires; the oldest nvidia-ml-py lacks some of them.
_NEEDED = ("nvmlInit", "nvmlDeviceGetMigMode", "nvmlDeviceCreateGpuInstanceWithPlacement", "nvmlComputeInstanceDestroy")


class Library:
    """Calls functions by name. Every failure is a BackendError that names the location."""

    def __init__(self) -> None:
        self._nvml: t.Any = None
        self._profile_calls: t.Dict[str, bool] = {}

    def load(self) -> None:
        try:
            nvml = importlib.import_module("pynvml")
        except Exception as error:  # not only ImportError: nvidia-ml-py for Python 2 raises SyntaxError
            raise BackendError(
                codes.LIBRARY_NOT_FOUND, "import pynvml", str(error), "Install nvidia-ml-py for %s" % sys.executable
            ) from error
        for name in _NEEDED:
            if not hasattr(nvml, name):
                raise BackendError(codes.FUNCTION_NOT_FOUND, name, "this pynvml does not have it", _UPDATE)
        self._nvml = nvml

    def call(self, function: str, *args: t.Any, where: str = "") -> t.Any:
        wrapper = getattr(self._nvml, function, None)
        if wrapper is None:
            raise BackendError(
                codes.FUNCTION_NOT_FOUND, function, _joined(where, "this pynvml does not have it"), _UPDATE
            )
        try:
            return wrapper(*args)
        except self._nvml.NVMLError as error:
            code = int(error.value)
            raise BackendError(code, function, _joined(where, str(error)), remedy(code)) from error
        except Exception as error:  # text that is not UTF-8, or pynvml's own NVMLLibraryMismatchError
            raise BackendError(codes.UNKNOWN, function, _joined(where, repr(error))) from error

    def gpu_instance_profile(self, device: t.Any, constant: int, where: str) -> t.Any:
        """Profile information; with a ``name`` if driver and pynvml support the second version of the call."""
        return self._profile("nvmlDeviceGetGpuInstanceProfileInfo", (device, constant), where)

    def compute_instance_profile(self, gpu_instance: t.Any, constant: int, where: str) -> t.Any:
        engine = 0  # NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only one
        return self._profile("nvmlGpuInstanceGetComputeInstanceProfileInfo", (gpu_instance, constant, engine), where)

    def gpu_instances(self, device: t.Any, profile_id: int, array_size: int, where: str) -> t.List[t.Any]:
        return self._handles("nvmlDeviceGetGpuInstances", "c_nvmlGpuInstance_t", device, profile_id, array_size, where)

    def compute_instances(self, gpu_instance: t.Any, profile_id: int, array_size: int, where: str) -> t.List[t.Any]:
        return self._handles(
            "nvmlGpuInstanceGetComputeInstances", "c_nvmlComputeInstance_t", gpu_instance, profile_id, array_size, where
        )

    def gpu_instance_placements(self, device: t.Any, profile_id: int, where: str) -> t.List[t.Tuple[int, int]]:
        return self._placements(
            "nvmlDeviceGetGpuInstancePossiblePlacements", "c_nvmlGpuInstancePlacement_t", device, profile_id, where
        )

    def compute_instance_placements(
        self, gpu_instance: t.Any, profile_id: int, where: str
    ) -> t.List[t.Tuple[int, int]]:
        return self._placements(
            "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
            "c_nvmlComputeInstancePlacement_t",
            gpu_instance,
            profile_id,
            where,
        )

    def create_gpu_instance(self, device: t.Any, profile_id: int, start: int, size: int, where: str) -> t.Any:
        placement = self._nvml.c_nvmlGpuInstancePlacement_t(start, size)
        # By reference: pynvml declares no argument types, and ctypes would pass the structure by value.
        return self.call(
            "nvmlDeviceCreateGpuInstanceWithPlacement", device, profile_id, ctypes.byref(placement), where=where
        )

    def create_compute_instance(self, gpu_instance: t.Any, profile_id: int, start: int, size: int, where: str) -> t.Any:
        placement = self._nvml.c_nvmlComputeInstancePlacement_t(start, size)
        return self.call(
            "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
            gpu_instance,
            profile_id,
            ctypes.byref(placement),
            where=where,
        )

    def _profile(self, function: str, args: t.Tuple[t.Any, ...], where: str) -> t.Any:
        """The second version of the call, or else the first.

        An old driver lacks the second version or rejects its structure as an invalid argument.
        All drivers also return that error at the end of the list of profiles, so the first
        version is called then.
        """
        if not self._versioned(function):
            return self.call(function, *args, where=where)
        try:
            return self.call(function, *args, 2, where=where)
        except BackendError as error:
            if error.code not in (codes.FUNCTION_NOT_FOUND, codes.INVALID_ARGUMENT):
                raise
        return self.call(function, *args, 1, where=where)

    def _versioned(self, function: str) -> bool:
        """Whether this pynvml allows the caller to choose the version."""
        if function not in self._profile_calls:
            wrapper = getattr(self._nvml, function, None)
            # Not through the module inspect, which takes longer to load than pynvml.
            code = getattr(getattr(wrapper, "__wrapped__", wrapper), "__code__", None)
            named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()
            self._profile_calls[function] = "version" in named
        return self._profile_calls[function]

    def _handles(
        self, function: str, kind: str, parent: t.Any, profile_id: int, array_size: int, where: str
    ) -> t.List[t.Any]:
        array = (getattr(self._nvml, kind) * array_size)()
        count = ctypes.c_uint(array_size)
        self.call(function, parent, profile_id, array, ctypes.byref(count), where=where)
        return [array[position] for position in range(count.value)]

    def _placements(
        self, function: str, kind: str, parent: t.Any, profile_id: int, where: str
    ) -> t.List[t.Tuple[int, int]]:
        count = ctypes.c_uint(0)
        self.call(function, parent, profile_id, None, ctypes.byref(count), where=where)
        if not count.value:
            return []
        array = (getattr(self._nvml, kind) * count.value)()
        self.call(function, parent, profile_id, array, ctypes.byref(count), where=where)
        return sorted((array[position].start, array[position].size) for position in range(count.value))


def _joined(where: str, words: str) -> str:
    return "%s: %s" % (where, words) if where else words
