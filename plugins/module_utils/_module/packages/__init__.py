# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages at one version, with apt or dnf, their holds and DKMS builds.

node_packages.py is the module: choice.py decides, installation.py has the steps, manager.py describes what apt.py and
dnf.py do.
Imports common.
"""
