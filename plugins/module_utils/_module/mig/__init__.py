# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MIG layout of a node: requirements, change, boot restore, clients of the GPUs, CDI specification.

nvidia_mig.py, boot.py, cdi.py, idle.py, requirements.py and services.py are a module each; units.py is systemd's.
Imports common, and the engine.
"""
