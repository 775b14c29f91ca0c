# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Log lines for the journal or for a terminal."""

from __future__ import annotations

import os
import typing as t

from .._common.printable import printable

RETRY_REMEDY = "Then run gpufleet-mig-restore, or restart gpufleet-mig-restore.service"

ERROR, WARNING, INFO = 3, 4, 6  # syslog levels
_STANDARD_OUTPUT = 1


class Report:
    """Writes whole lines, so that output of threads does not mix, and unbuffered, so that nothing is lost."""

    def __init__(self, journal: t.Optional[bool] = None) -> None:
        self._journal = bool(os.environ.get("JOURNAL_STREAM")) if journal is None else journal

    def info(self, text: str) -> None:
        self._write(INFO, text)

    def warning(self, text: str) -> None:
        self._write(WARNING, text)

    def error(self, text: str) -> None:
        self._write(ERROR, text)

    def _write(self, level: int, text: str) -> None:
        line = printable(" / ".join(text.strip().splitlines()))
        os.write(
            _STANDARD_OUTPUT, ("%s%s\n" % ("<%d>" % level if self._journal else "", line)).encode("utf-8", "replace")
        )
