# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of RKE2 and the plan of an installation.

    plan.py        what the role does on a node, from these:
    membership.py  the node's type and name, and the server that it joins
    release.py     archives, images and packages, and their sources
    drop_in.py     the file with which the role configures RKE2
    config.py      keys of the configuration: config_keys.yml
    version.py     versions, and upgrades that Kubernetes supports

Imports _inventory.

Tested under another name (folders are those of tests/unit/plugins):
    version: test_config.py
"""
