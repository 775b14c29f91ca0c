# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packages at one version, with apt or dnf, their holds and DKMS builds.

    node_packages.py  the module
    installation.py   its steps
    results.py        what it returns, and check mode says
    node.py           packages of a node, and what a run does with them
    choice.py         which versions, and which packages to install
    transaction.py    what an installation would change, and whether it may
    holds.py          holds and locks of others that block it
    manager.py        what apt and dnf have in common
    apt.py            apt-get, dpkg, preferences and selections
    dnf.py            dnf, rpm and the plugin versionlock
    dkms.py           kernel modules that DKMS builds
    causes.py         why a package manager failed

Imports common.

Tested under another name (folders are those of tests/unit/plugins):
    apt, causes, dkms, dnf, manager: test_managers.py
    installation, node, node_packages, results, transaction: modules/test_node_packages.py
"""
