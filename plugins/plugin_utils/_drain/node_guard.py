# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How a run reads and changes nodes, unless another run has taken them out of service."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster.api import Api, Reading
from .._cluster.nodes import name_of
from .._cluster.progress import Progress
from .._cluster.runs import Run
from . import record
from .record import Record


class NodeGuard(t.NamedTuple):
    """The access of one run to the nodes of a cluster."""

    api: Api
    progress: Progress
    run: Run
    takeover: int  # seconds after the last change of a run on another controller, which has ended then

    def require_available(self, node: Data) -> Record | None:
        """The record of a node. Raises ValueError, and OtherRun if another run may still be changing the node."""
        return record.require_available(node, self.run, self.takeover)

    def change(self, node: Data, make: t.Callable[[Data], Data]) -> Data:
        """Change a node with the patch that ``make`` returns for it, and return it as it is then. Raises as change_all."""
        name = name_of(node)
        return self.change_all({name: node}, make)[name]

    def change_all(self, nodes: t.Mapping[str, Data], make: t.Callable[[Data], Data]) -> dict[str, Data]:
        """The same for several nodes, by name. Raises Unreadable and OtherRun, and the errors of ``make``."""

        def guarded(node: Data) -> Data:
            self.require_available(node)
            return make(node)

        return self.api.change_all(nodes, guarded, self.progress)

    def until_empty(
        self,
        title: str,
        first: Reading | None,
        read: t.Callable[[], Reading],
        reasons: t.Callable[[Reading], list[str]],
    ) -> Reading:
        """Read a node until there are no reasons to wait, and return the last reading. Raises Waiting, and Final.

        ``first`` is the first reading, if it is known.
        """
        known = iter([first] if first else [])

        def step() -> tuple[Reading, list[str]]:
            reading = next(known, None) or read()
            return reading, reasons(reading)

        return self.progress.until_empty(title, step)
