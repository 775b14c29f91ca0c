# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The import path of the lab's packages: gpulab, operands and rke2_standin."""

from __future__ import annotations

import sys
from pathlib import Path

LAB = Path(__file__).resolve().parents[3] / "tests" / "lab"
sys.path[:0] = [str(LAB), str(LAB / "rke2")]
