# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The output of the demo."""

from __future__ import annotations

import itertools
import sys
import textwrap
import time
from contextlib import contextmanager
from typing import Iterator

WIDTH = 100
TICK = 15  # seconds between progress lines, if the output is not a terminal


class DemoError(Exception):
    """A step of the demo did not have the expected result."""


_chapter_numbers = itertools.count(1)


def chapter(title: str) -> None:
    """Print the heading of the next chapter."""
    print()
    print(("-- %d. %s " % (next(_chapter_numbers), title)).ljust(WIDTH, "-"), flush=True)


def paragraph(text: str) -> None:
    print()
    print(textwrap.fill(" ".join(text.split()), WIDTH))
    print(flush=True)


def command(line: str) -> None:
    """Print a command line."""
    print("  $ " + line, flush=True)


def output(text: str) -> None:
    """Print the output of a command."""
    if text.strip():
        print(textwrap.indent(text.rstrip(), "  "), flush=True)


def wrapped(text: str) -> str:
    """Wrap a long message."""
    return "\n".join(textwrap.fill(line, WIDTH - 4, subsequent_indent="  ") for line in text.splitlines())


class Waiting:
    """Shows the progress of a long step: elapsed time and, on a terminal, the current activity."""

    def __init__(self) -> None:
        self._began = self._printed = time.monotonic()
        self._terminal = sys.stdout.isatty()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def show(self, what: str) -> None:
        """Show the current activity. Called often."""
        if self._terminal:
            print("\r\033[K  %4.0f s  %s ..." % (self.seconds, what[: WIDTH - 16]), end="", flush=True)
        elif time.monotonic() - self._printed >= TICK:
            self.done(what[: WIDTH - 16] + " ...")

    def done(self, what: str) -> None:
        """Print a completed part."""
        self.clear()
        print("  %4.0f s  %s" % (self.seconds, what), flush=True)
        self._printed = time.monotonic()

    def clear(self) -> None:
        if self._terminal:
            print("\r\033[K", end="", flush=True)


@contextmanager
def waiting() -> Iterator[Waiting]:
    wait = Waiting()
    try:
        yield wait
    finally:
        wait.clear()
