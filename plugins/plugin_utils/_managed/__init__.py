# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPU nodes of managed clusters, which are known only through the API.

    gpu_nodes.py       which nodes are configured, and how they differ from their layout
    platforms.py       who changes the MIG layout of a node, and how to create nodes with another one
    node_sharing.py    how many pods share each GPU or MIG device of a node
    instance_types.py  the GPUs of a cloud instance: instance_types.yml, and signs of GPUs

Imports _charts, _drain, _cluster, _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    instance_types, node_sharing, platforms: test_gpu_nodes.py
"""
