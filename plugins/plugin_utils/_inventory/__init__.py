# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of a run: which roles it selects, whether their values are valid, batches, and reports of problems.

    registry.py           roles of a run: registry, gpu_node_roles and tags
    variables.py          variables against the argument specifications and more rules; of other roles: equivalents.yml
    values.py             values of variables
    board_differences.py  boards of the inventory against GPUs of a node
    host_check.py         problems that block a run on a host, and roles that can check
    kubernetes_values.py  names, labels, taints and tolerations
    batches.py            which hosts are done, and whether the next batch may start
    report.py             messages of preflight and verify

Imports _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    batches: action/test_gpu_node_batch.py
"""
