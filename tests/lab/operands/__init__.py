# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-ins for programs that NVIDIA's charts run in pods: gpulab/operands.py builds their image.

Each implements only the documented interfaces of its original (device plugin API, labels, custom resource, environment
variables), so that the original can replace it.
"""
