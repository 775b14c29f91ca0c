# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The batches of a play with serial: which hosts are done, and whether the next batch may start."""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import cut

_MAX_LENGTH = 300  # characters of a list of hosts in the progress


class Batch(t.NamedTuple):
    """The hosts of a play."""

    every: t.Sequence[str]  # in the order of the batches
    current: t.Sequence[str]
    failed: t.Sequence[str]
    done_before: t.Sequence[str] = ()  # hosts that were done before the play

    @property
    def done(self) -> list[str]:
        before = [host for host in self._before() if host not in self.failed]
        return [*(host for host in self.done_before if host not in self.every), *before]

    @property
    def left(self) -> list[str]:
        """The hosts that are not done, including those of the current batch."""
        return [host for host in self.every[len(self._before()) :] if host not in self.failed]

    @property
    def later(self) -> list[str]:
        return [host for host in self.left if host not in self.current]

    def _before(self) -> t.Sequence[str]:
        return self.every[: self.every.index(self.current[0])]


def refusal(batch: Batch, most: int, after_batches: bool) -> str:
    """Why the batch may not start; empty if at most so many percent of all hosts have failed.

    Plays after the batches start only if none has failed.
    """
    if len(batch.failed) * 100 <= (0 if after_batches else most) * len(batch.every):
        return ""
    what = "Nothing else was changed" if after_batches else "Not changed: " + ", ".join(batch.left)
    return (
        "%s, because of %s. See the errors above, fix them and run this again. It continues with the nodes that are not "
        "done, and returns nodes that are out of service." % (what, ", ".join(batch.failed))
    )


def progress(batch: Batch, done: str) -> str:
    """Where the play is. ``done`` says what has happened to the hosts of earlier batches."""
    lists = {done: batch.done, "Failed": batch.failed, "Now": batch.current, "Left": batch.later}
    return ". ".join("%s: %s" % (name, cut(", ".join(hosts) or "none", _MAX_LENGTH)) for name, hosts in lists.items())
