# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The page of a report."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .data import Report
from .slices import Map


def render(report: Report, gpus: t.Mapping[str, t.Sequence[Map]], totals: Data, previous: Report | None) -> str:
    return "<!DOCTYPE html><title>%d</title>" % totals["hosts"]
