# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Markdown tables with aligned columns."""

from __future__ import annotations

from typing import Sequence


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]], note: str = "") -> str:
    texts = [[str(cell) for cell in line] for line in [header, *rows]]
    widths = [max(len(line[column]) for line in texts) for column in range(len(header))]

    def draw(line: Sequence[str]) -> str:
        cells = [cell.rjust(width) for cell, width in zip(line, widths)]
        return "| " + " | ".join([line[0].ljust(widths[0]), *cells[1:]]) + " |"

    rule = "|" + "|".join("-" * (width + 1) + ("-" if n == 0 else ":") for n, width in enumerate(widths)) + "|"
    parts = ["## " + title, "", draw(texts[0]), rule, *map(draw, texts[1:])]
    if note:
        parts += ["", note]
    return "\n".join(parts)
