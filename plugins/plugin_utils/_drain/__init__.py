# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking nodes out of service and returning them.

The steps:
    drain_node.py     cordons, evicts and pauses
    return_node.py    restarts, waits and uncordons
    node_guard.py     changes a node, unless another run has taken it

Decisions, without access to the cluster:
    record.py         the annotation that says what to restore
    evictions.py      which pods are evicted
    workloads.py      controllers of evicted pods, and whether their pods are ready
    operands.py       components of the operator: paused, restarted, ready

NVIDIA's DRA driver (gpu_cluster_allocator: dra):
    dra_devices.py    devices that it publishes, pods that use them, and its kubelet plugin
    dra_check.py      problems of the driver in a cluster, and of the devices on the hosts' nodes
    dra_variables.py  variables that contradict its use

Imports _cluster, _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    dra_check: action/test_gpu_cluster_dra.py
    drain_node, return_node: action/test_gpu_cluster_drain.py
"""
