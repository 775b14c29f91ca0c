# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Run nvidia-smi and parse its output. A failure or unexpected output raises BackendError."""

from __future__ import annotations

import re
import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .command import CommandResult, Runner
from .smi_errors import code_of, failure, output_of
from .smi_tables import ParseError

_NONE_FOUND = "instances found: Not Found"
_CREATED = re.compile(r"Successfully created (?:GPU|compute) instance ID +(\d+) ")
_PENDING = re.compile(r"MIG mode is in pending \w+ state for GPU [0-9A-Fa-f:.]+: *(.*)$", re.MULTILINE)

_T = t.TypeVar("_T")


class NvidiaSmi:
    """The command. ``address`` is the argument of ``-i`` for a GPU."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def result(self, argv: t.List[str]) -> CommandResult:
        """The result, also of a failure."""
        return self._run(["nvidia-smi"] + argv)

    def query(self, argv: t.List[str], parse: t.Callable[[str], _T]) -> _T:
        return parsed(argv, self._checked(argv).out, parse)

    def mig(self, address: str, argv: t.List[str], parse: t.Callable[[str], _T], tolerated: int = 0) -> _T:
        """The parsed output of a ``mig`` command for one GPU; ``tolerated`` is an exit status that is valid as well."""
        argv = _on(address, argv)
        result = self.result(argv)
        # With the mode off, some versions print this and exit with status 0.
        refused = result.rc not in (0, tolerated) or result.out.startswith("No MIG-enabled devices found")
        if refused or (result.rc != 0 and _NONE_FOUND not in result.out):
            raise failure(command_line(argv), result)
        return parsed(argv, result.out, parse)

    def instances(self, address: str, argv: t.List[str], parse: t.Callable[[str], t.List[_T]]) -> t.List[_T]:
        """Instances of one GPU, possibly none."""

        def parse_or_none(text: str) -> t.List[_T]:
            return [] if _NONE_FOUND in text else parse(text)

        return self.mig(address, argv, parse_or_none, codes.NOT_FOUND)

    def create(self, address: str, argv: t.List[str]) -> int:
        """The id of the instance."""
        argv = _on(address, argv)
        result = self._checked(argv)
        created = _CREATED.search(result.out)
        if created is None:
            raise not_understood(argv, result)
        return int(created.group(1))

    def destroy(self, address: str, argv: t.List[str]) -> None:
        argv = _on(address, argv)
        result = self._checked(argv)
        if "Successfully destroyed" not in result.out:
            raise not_understood(argv, result)

    def set_mode(self, address: str, enabled: bool) -> int:
        """The activation status, as an NVML return code."""
        argv = ["-i", address, "-mig", str(int(enabled))]
        result = self.result(argv)
        pending = _PENDING.search(result.out)
        if pending is not None:
            return code_of(CommandResult(0, pending.group(1), ""))
        # A refused change also exits with status 0, "treated as a warning".
        if result.rc != 0 or ("Enabled" if enabled else "Disabled") + " MIG Mode" not in result.out:
            raise failure(command_line(argv), result)
        return codes.SUCCESS

    def _checked(self, argv: t.List[str]) -> CommandResult:
        result = self.result(argv)
        if result.rc != 0:
            raise failure(command_line(argv), result)
        return result


def command_line(argv: t.Sequence[str]) -> str:
    return " ".join(["nvidia-smi"] + list(argv))


def parsed(argv: t.List[str], text: str, parse: t.Callable[[str], _T]) -> _T:
    try:
        return parse(text)
    except ParseError as error:
        raise BackendError(codes.UNKNOWN, command_line(argv), str(error)) from error


def not_understood(argv: t.Sequence[str], result: CommandResult) -> BackendError:
    return BackendError(codes.UNKNOWN, command_line(argv), "unexpected output: %s" % output_of(result))


def _on(address: str, argv: t.List[str]) -> t.List[str]:
    return ["mig"] + argv + ["-i", address]
