# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Names of objects, which the client copies to the path of a request as they are."""

from __future__ import annotations

import re

# As the API server requires of names of any kind, such as system:node, and without what has a meaning in an address.
_NAME = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,252}")


def require_names(*names: str) -> None:
    """Raises ValueError for a name that could become another path, or the arguments of a request."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError("%.300r is not the name of an object" % name)
