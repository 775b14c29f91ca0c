# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""nvsim: create simulated GPU nodes, run programs on them, and inject faults. See README.md."""

import pathlib
import sys

if not __package__:  # python3 PATH/nvsim
    sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from nvsim.cli import command

command()
