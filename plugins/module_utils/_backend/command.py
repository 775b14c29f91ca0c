# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Run the driver's commands. The runner is injected, so that tests need no GPU."""

from __future__ import annotations

import os
import subprocess
import typing as t

from .._mig import codes
from .._mig.backend import BackendError
from .remedies import remedy

# A faulty GPU blocks nvidia-smi. On a healthy GPU no query takes this long, even without nvidia-persistenced.
_TIMEOUT_SECONDS = 120
# Commands that change a GPU may wait for it, and must not be interrupted.
_LONG_TIMEOUT_SECONDS = 300
# Queries of several GPUs are repeated for each GPU after a timeout, and the time limit at boot must allow for that.
_SHORT_TIMEOUT_SECONDS = 60
_CHANGING = {"-mig", "-cgi", "-dgi", "-cci", "-dci", "--gpu-reset"}


class CommandResult(t.NamedTuple):
    """The exit status and output of a command."""

    rc: int
    out: str
    err: str


Runner = t.Callable[[t.Sequence[str]], CommandResult]


def run(argv: t.Sequence[str]) -> CommandResult:
    """Run without a shell and in the C locale. Raises BackendError if the command cannot be run or times out."""
    command = " ".join(argv)
    limit = _limit(argv)
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function  # there is no module at boot
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ, LC_ALL="C"),
            timeout=limit,
            check=False,
        )
    except FileNotFoundError as error:
        raise missing(argv[0]) from error
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            codes.TIMEOUT, command, "no response after %g seconds" % limit, remedy(codes.TIMEOUT), waited=True
        ) from error
    except OSError as error:
        raise BackendError(codes.UNKNOWN, command, str(error)) from error
    return CommandResult(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def _limit(argv: t.Sequence[str]) -> int:
    if not _CHANGING.isdisjoint(argv):
        return _LONG_TIMEOUT_SECONDS
    several = "-i" not in argv or any(word.startswith("GPU-") and "," in word for word in argv)
    return _SHORT_TIMEOUT_SECONDS if several else _TIMEOUT_SECONDS


def missing(command: str) -> BackendError:
    return BackendError(
        codes.FUNCTION_NOT_FOUND, command, "command not found", "Install the driver's utilities, or correct PATH"
    )
