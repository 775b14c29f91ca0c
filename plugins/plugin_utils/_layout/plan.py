# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan the change of a GPU's instances and describe it."""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import short
from ...module_utils._mig import describe, messages
from ...module_utils._mig.errors import LayoutError
from ...module_utils._mig.model import Gpu
from ...module_utils._mig.plan import plan_gpu
from ...module_utils._mig.render import plan_diff
from . import boards, gpus


def of(current: object, desired: object, board: str | None = None) -> dict[str, t.Any]:
    gpu = _gpu(current, board)
    found = plan_gpu(gpu, gpus.target(desired, gpu.board))
    return {
        "changed": found.changes,
        "kept": [describe.kept(gpu, kept) for kept in found.kept],
        "destroyed": [describe.existing(gpu, gone) for gone in found.destroyed],
        "created": [describe.created(created) for created in found.created],
        "operations": [messages.operation(operation) for operation in found.operations],
        "map": plan_diff([found]),
    }


def _gpu(current: object, board: str | None) -> Gpu:
    if gpus.is_fact(current):
        fact = t.cast(gpus.Fact, current)
        gpus.require_known(fact)
        return gpus.from_fact(fact, gpus.board_of(fact, board))
    if not isinstance(current, (list, tuple)):
        raise LayoutError(
            "the input is %s: give a list, as in the facts' mig.instances, or a GPU of the facts" % short(current)
        )
    if board is None:
        raise LayoutError("a list of instances does not identify the board: set board, for example 'A100-80GB'")
    return gpus.from_board(board, current=gpus.from_instances(current, boards.load(board)))
