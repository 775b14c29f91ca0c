# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_on_a_node(monkeypatch):
    """The filters' tests load controller code into this process, and a module's warnings would go to its display."""
    try:
        from ansible.module_utils import _internal
    except ImportError:  # before ansible-core 2.19 there is no such display
        return
    monkeypatch.setattr(_internal, "is_controller", False, raising=False)
