# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Convert layouts and GPUs to nvidia-mig-parted documents."""

from __future__ import annotations

import typing as t

from ...module_utils._common.text import short
from ...module_utils._mig import layout as layouts
from ...module_utils._mig import mig_parted as documents
from ...module_utils._mig.errors import LayoutError
from . import gpus as layout_gpus
from .layouts_on_gpus import contents


def of(value: object, name: object = "current", gpus: object = None, board: str | None = None) -> dict[str, t.Any]:
    if not isinstance(name, str) or not name:
        raise LayoutError("the name of a configuration cannot be %s: give a string" % short(name))
    facts = isinstance(value, (list, tuple)) and len(value) > 0 and all(layout_gpus.is_fact(item) for item in value)
    if gpus is None and not facts:
        return documents.document(name, documents.from_layout(layouts.parse(value)))
    instances = {index: content.instances for index, content in contents(value, gpus, board).items()}
    return documents.document(name, documents.from_gpus(instances))
