# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""One message for a problem that several GPUs share."""

from __future__ import annotations

import typing as t

from .keys import listed
from .model import Gpu


def merged(problems: t.Iterable[t.Tuple[Gpu, str]]) -> t.List[str]:
    """The problems of GPUs, with their labels, as one message for each problem that names all its GPUs."""
    by_text: t.Dict[str, t.List[Gpu]] = {}
    for gpu, text in problems:
        by_text.setdefault(text.replace(gpu.label, "\0"), []).append(gpu)
    return [text.replace("\0", labels(gpus)) for text, gpus in by_text.items()]


def labels(gpus: t.Sequence[Gpu]) -> str:
    """``GPU 0 (...)`` in full; of several GPUs the indices and products."""
    if len(gpus) == 1:
        return gpus[0].label
    return "GPUs %s (%s)" % (
        listed_indices([gpu.index for gpu in gpus]),
        listed(sorted({gpu.kind for gpu in gpus}), ", "),
    )


def listed_indices(indices: t.Sequence[int]) -> str:
    """The indices of GPUs; of many, the first ones."""
    return listed([str(index) for index in indices], ", ", 16)
