# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How a driver that must not be installed is refused."""

from __future__ import annotations

from ._refusal import Refusal


class DriverRefusal(Refusal):
    """The driver wanted does not fit the node; the message says why and what to do."""
