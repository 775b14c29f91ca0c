# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all folders use.

    action.py   base of the collection's actions
    result.py   result of a task, also of one that failed after changes
    refusal.py  base of errors that refuse a request, and their collection
    truth.py    truth values of variables
    output.py   messages to the terminal, without control characters

Imports nothing of the others.

Tested under another name (folders are those of tests/unit/plugins):
    action, refusal: action/test_nvidia_driver_plan.py
    result: action/test_gpu_cluster_drain.py
"""
