# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boards, layouts, and what they come to: plans, maps, resources, sharing, files of nvidia-mig-parted.

Imports the engine (module_utils/_mig) and _common.
"""
