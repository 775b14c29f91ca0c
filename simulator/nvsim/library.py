# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A simulated node in a directory: the library's control functions through ctypes."""

from __future__ import annotations

import ctypes
import json
import os
import pathlib
import typing as t

PACKAGE = pathlib.Path(__file__).resolve().parent
CACHE = PACKAGE.parents[1] / ".cache"  # in a checkout
NAME = "libnvidia-ml.so.1"
NONE = 0xFFFFFFFF  # "no instance", and "all GPUs"
# Names of the numbers in src/sim.h, in their order.
KINDS = ("compute", "graphics", "mps", "client")
ACTIONS = ("", "return", "return-after", "kill-before", "kill-during", "kill-after")
ACTIVATIONS = ("auto", "reset", "reboot")
QUIRKS = ("profiles-need-mig", "old-names")

CODES = {
    "uninitialized": 1,
    "invalid_argument": 2,
    "not_supported": 3,
    "no_permission": 4,
    "not_found": 6,
    "insufficient_size": 7,
    "driver_not_loaded": 9,
    "timeout": 10,
    "function_not_found": 13,
    "gpu_is_lost": 15,
    "reset_required": 16,
    "in_use": 19,
    "memory": 20,
    "insufficient_resources": 23,
    "invalid_state": 29,
    "unknown": 999,
}
IN_USE, NOT_SUPPORTED, NO_PERMISSION = (CODES[name] for name in ("in_use", "not_supported", "no_permission"))


class NodeError(Exception):
    """An error message of nvsim; ``code`` is the NVML return code."""

    def __init__(self, message: str, code: int = 999) -> None:
        super().__init__(message)
        self.code = code


def library_path() -> pathlib.Path:
    """Return the path of libnvidia-ml.so.1. NVSIM_LIBRARY selects another build, such as the sanitized one."""
    given = os.environ.get("NVSIM_LIBRARY")
    installed = PACKAGE / "lib" / NAME
    path = pathlib.Path(given) if given else installed if installed.exists() else CACHE / "simulator" / NAME
    if not path.is_file():
        folder = os.path.relpath(PACKAGE.parent)
        raise NodeError("the simulator is not built (%s is missing): run make -C %s" % (path, folder))
    return path.resolve()


_library: t.Optional[ctypes.CDLL] = None


def library() -> ctypes.CDLL:
    global _library  # one handle per process
    if _library is None:
        loaded = ctypes.CDLL(str(library_path()))
        text, number, wide = ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64
        for name, arguments in {
            "nvsim_create": [text, text],
            "nvsim_show": [text],
            "nvsim_free": [ctypes.c_void_p],
            "nvsim_problem": [],
            "nvsim_attach": [text, number, number, number, number, number, wide, text],
            "nvsim_detach": [text, number, number],
            "nvsim_reset": [text, number],
            "nvsim_reboot": [text],
            "nvsim_fault": [text, text, number, number, number, ctypes.c_int32],
            "nvsim_clear_faults": [text],
            "nvsim_latency": [text, text, number],
            "nvsim_trace": [text, number],
        }.items():
            getattr(loaded, name).argtypes = arguments
            getattr(loaded, name).restype = ctypes.c_int
        loaded.nvsim_show.restype = ctypes.c_void_p
        loaded.nvsim_free.restype = None
        loaded.nvsim_problem.restype = ctypes.c_char_p
        loaded.nvmlErrorString.argtypes = [ctypes.c_int]
        loaded.nvmlErrorString.restype = ctypes.c_char_p
        _library = loaded
    return _library


class Node:
    """An existing or new node in ``directory``."""

    def __init__(self, directory: t.Union[str, "os.PathLike[str]"]) -> None:
        self.directory = pathlib.Path(directory).absolute()
        self.state = self.directory / "state"
        self.trace_file = self.directory / "state.trace"

    def _do(self, function: str, *arguments: t.Any) -> None:
        code = getattr(library(), function)(os.fsencode(self.state), *arguments)
        if code:
            said = library().nvsim_problem().decode() or library().nvmlErrorString(code).decode()
            raise NodeError(said, code)

    def create(self, description: str) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._do("nvsim_create", description.encode())
        self.clear_trace()

    def show(self) -> t.Dict[str, t.Any]:
        text = library().nvsim_show(os.fsencode(self.state))
        if not text:
            raise NodeError(library().nvsim_problem().decode())
        try:
            node = t.cast("t.Dict[str, t.Any]", json.loads(ctypes.string_at(text)))
        finally:
            library().nvsim_free(text)
        for process in (process for gpu in node["gpus"] for process in gpu["processes"]):
            process["kind"] = KINDS[process["kind"]]
        for fault in node["faults"]:
            fault["action"] = ACTIONS[fault["action"]]
        return node

    def attach(
        self,
        pid: int,
        gpu: int,
        gi: t.Optional[int] = None,
        ci: t.Optional[int] = None,
        kind: str = "compute",
        memory_mib: int = 0,
        name: t.Optional[str] = None,
    ) -> None:
        """Attach a process to a GPU or a MIG device until it ends. A client only opens the device."""
        if name is None:
            try:
                name = os.readlink("/proc/%d/exe" % pid)
            except OSError:
                name = "pid %d" % pid
        self._do(
            "nvsim_attach",
            gpu,
            NONE if gi is None else gi,
            NONE if ci is None else ci,
            pid,
            KINDS.index(kind),
            memory_mib,
            name.encode(),
        )

    def detach(self, pid: int, gpu: t.Optional[int] = None) -> None:
        self._do("nvsim_detach", NONE if gpu is None else gpu, pid)

    def reset(self, gpu: int) -> None:
        self._do("nvsim_reset", gpu)

    def reboot(self) -> None:
        self._do("nvsim_reboot")

    def fault(self, function: str, nth: int = 1, code: int = 999, always: bool = False, action: str = "return") -> None:
        """Make call ``nth`` of ``function`` fail or kill ("*": any function, "write": any that changes the node)."""
        self._do("nvsim_fault", function.encode(), nth, int(always), ACTIONS.index(action), code)

    def clear_faults(self) -> None:
        self._do("nvsim_clear_faults")

    def latency(self, function: str, milliseconds: float) -> None:
        """Delay a function ("*" and "write" as above). 0 removes the delay, with "" all delays."""
        self._do("nvsim_latency", function.encode(), round(milliseconds * 1000))

    def trace(self, on: bool = True) -> None:
        self._do("nvsim_trace", int(on))

    def clear_trace(self) -> None:
        if self.trace_file.exists():
            os.truncate(self.trace_file, 0)

    def calls(self) -> t.List[t.Dict[str, t.Any]]:
        """Return the trace, oldest call first."""
        try:
            with open(self.trace_file, encoding="ascii") as lines:
                return [json.loads(line) for line in lines]
        except FileNotFoundError:
            return []

    def environment(self, uid: t.Optional[int] = 0) -> t.Dict[str, str]:
        """Return this process's environment, changed so that a child process uses this node."""
        environment = dict(os.environ)
        for variable, first in (("LD_LIBRARY_PATH", library_path().parent), ("PATH", PACKAGE / "bin")):
            rest = environment.get(variable)
            environment[variable] = "%s%s" % (first, os.pathsep + rest if rest else "")
        environment["NVSIM_STATE"] = str(self.state)
        if uid is None:
            environment.pop("NVSIM_UID", None)
        else:
            environment["NVSIM_UID"] = str(uid)
        return environment
