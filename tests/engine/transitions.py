# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transitions between layouts that the fault and kill tests run.

They cover creation, destruction and reuse of instances, changes of MIG mode with and without
known profiles, resets, and several compute instances in one GPU instance.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

from .support import EMPTY, OFF, Layout, Simulated, gi, on, template

A100, H100 = "A100-SXM4-40GB", "H100-SXM5-80GB"


class Transition(t.NamedTuple):
    name: str
    products: t.Tuple[str, ...]
    before: t.Tuple[Layout, ...]
    desired: t.Tuple[Layout, ...]
    driver: str = "550.163.01"
    activation: str = "auto"
    quirks: t.Tuple[str, ...] = ()
    reset: bool = False

    def node(self, directory: Path) -> Simulated:
        return template(directory, self.products, self.before, self.driver, self.activation, self.quirks)

    def __str__(self) -> str:
        return self.name


def _one(name: str, product: str, before: Layout, desired: Layout, **more: t.Any) -> Transition:
    return Transition(name, (product,), (before,), (desired,), **more)


TRANSITIONS = (
    _one("create", A100, EMPTY, on(gi("3g.20gb"), gi("2g.10gb"), gi("1g.5gb+me"))),
    _one("destroy", A100, on(gi("3g.20gb", 4), gi("1g.5gb", 0), gi("1g.5gb", 1)), EMPTY),
    _one(
        "keep",
        A100,
        on(gi("3g.20gb", 4), gi("1g.5gb", 0), gi("1g.5gb", 1)),
        on(gi("3g.20gb"), gi("2g.10gb"), gi("1g.5gb")),
    ),
    _one(
        "repack",
        H100,
        on(gi("3g.40gb", 0), gi("1g.10gb", 4), gi("1g.20gb", 6)),
        on(gi("4g.40gb"), gi("2g.20gb"), gi("1g.20gb")),
    ),
    _one(
        "compute instances",
        A100,
        on(gi("4g.20gb", 0, (1, 1, 2)), gi("3g.20gb", 4, (3,))),
        on(gi("4g.20gb", 0, (2, 2)), gi("3g.20gb", 4, (2, 1))),
    ),
    _one("repair", H100, on(gi("7g.80gb", 0, ())), on(gi("7g.80gb", 0))),
    _one("mode on", A100, OFF, on(gi("7g.40gb"))),
    _one("mode on, Hopper", H100, OFF, on(gi("3g.40gb", 4, (1, 1, 1)), gi("1g.10gb"))),
    _one("mode on, late profiles", A100, OFF, on(gi("3g.20gb")), driver="535.261.03", quirks=("profiles-need-mig",)),
    _one("mode on by reset", A100, OFF, on(gi("7g.40gb")), activation="reset", reset=True),
    _one("mode off", A100, on(gi("3g.20gb", 4), gi("2g.10gb", 0, (1, 1))), OFF, reset=True),
    _one("mode off, Hopper", H100, on(gi("3g.40gb", 4), gi("2g.20gb", 0)), OFF),
)

# Two GPUs in parallel, for kills while both change.
PAIR = Transition(
    "two GPUs",
    (A100, A100),
    (on(gi("3g.20gb", 4), gi("1g.5gb", 0)), on(gi("7g.40gb", 0))),
    (on(gi("7g.40gb")), on(gi("3g.20gb"), gi("3g.20gb"))),
)

BY_NAME = {transition.name: transition for transition in TRANSITIONS + (PAIR,)}
