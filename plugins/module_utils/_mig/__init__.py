# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The engine: what users write, what a GPU has, and the least change from one to the other. No I/O, no Ansible.

The input:
    layout.py           the entries of a layout, and which GPUs they select
    selector.py         ``devices`` and ``device_filter`` of an entry
    instances.py        ``mig_devices`` of an entry
    mig_parted.py       the files of nvidia-mig-parted
    keys.py             keys of these mappings
    profile.py          names of profiles

A GPU:
    model.py            its types: board, profiles, instances, processes, and the target
    backend.py          the protocol through which it is read and written, and its error
    codes.py            NVML's return codes
    board.py            limits of a board other than placements

The plan:
    plan_node.py        reads and plans all GPUs of a node, and detects those that need no change
    plan.py             plans one GPU
    operations.py       the types of a plan
    mode.py             the change of MIG mode
    solve.py            placements of GPU instances
    compute.py          placements of compute instances, and which of them are kept
    explain.py          why instances do not fit, and which would

The change:
    converge_node.py    modes first, then instances, on all GPUs of a node
    converge.py         applies plans, GPUs in parallel
    journal.py          makes and records the writes to one GPU
    ci_choice.py        profiles of new compute instances
    verify.py           compares a GPU with its plan
    rollback.py         restores a GPU after a failure
    retry.py            repeats calls that failed for a moment
    parallel.py         calls for several GPUs at once

The output:
    messages.py         instances, processes and operations in messages
    errors.py           the errors that the engine raises
    render.py           slice maps and diffs
    describe.py         results and facts as plain data

Imports _common only.

Tested under another name (folders are those of tests/unit/plugins):
    compute, explain, model, operations, solve: test_plan.py
    plan_node: test_plan_properties.py
    instances, keys, selector: test_layout.py
    journal, verify: test_rollback.py
    parallel: test_converge_node.py
    errors: test_messages.py
    describe: modules/test_nvidia_mig.py
    backend, codes: module_utils/_backend/test_nvml.py
"""
