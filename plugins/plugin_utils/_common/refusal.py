# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The error for invalid input, in addition to those of the engine."""

from __future__ import annotations

import contextlib
import typing as t


class Refusal(Exception):
    """Invalid input. Each argument states a problem and its remedy."""

    def __str__(self) -> str:
        return "; ".join(self.args)


class Problems(t.List[str]):
    """The problems of steps of which each is checked, whether or not the others are refused."""

    @contextlib.contextmanager
    def collected(self) -> t.Iterator[None]:
        """The block ends at its first Refusal, whose problems are added."""
        try:
            yield
        except Refusal as error:
            self.extend(error.args)

    def refuse(self) -> None:
        """Raise a Refusal with all problems, if there are any."""
        if self:
            raise Refusal(*self)
