# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Layouts with names: nvidia_mig_layout may name one of nvidia_mig_layouts."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.text import cut, did_you_mean, listed, nearest, short

# Ansible passes a layout that -e gives as name=value, not as JSON, as a string. So does AWX with a survey's answer.
_JSON = """-e '{"nvidia_mig_layout": [{"devices": "all", "mig_enabled": true, "mig_devices": {"3g.40gb": 2}}]}'"""
_NAME = re.compile(r"[\w.-]+")
_MAX_NAMES = 20  # in a message


def resolve(layout: object, layouts: object) -> object:
    """The layout that a name stands for; anything else, and a name that is unknown, as it is."""
    known = isinstance(layouts, t.Mapping) and isinstance(layout, str) and layout in layouts
    return t.cast("t.Mapping[object, object]", layouts)[layout] if known else layout


def unknown(layout: str, layouts: object = None) -> str:
    """Why a string cannot be a layout."""
    names = [cut(str(name)) for name in layouts] if isinstance(layouts, t.Mapping) else []
    problem = "nvidia_mig_layout is the string %s, not a list of entries or a name in nvidia_mig_layouts%s" % (
        short(layout),
        " (%s)" % listed(names, ", ", _MAX_NAMES) if names else "",
    )
    if _NAME.fullmatch(layout):
        return problem + did_you_mean(nearest(layout, names))
    return (
        "%s: on the command line, give a list as JSON, for example %s; if it was read from a file, pass it through "
        "from_yaml" % (problem, _JSON)
    )
