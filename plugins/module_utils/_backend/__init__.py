# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Access to the GPUs of a node, behind the protocol of ``_mig/backend.py``.

    select.py               NVML, or else nvidia-smi
    lock.py                 one run at a time on a node
    signals.py              signals wait for the end of a change

NVML:
    nvml.py                 the backend
    nvml_library.py         calls through pynvml, of any version
    readers_writer_lock.py  a reset waits for the calls of other GPUs

nvidia-smi:
    smi.py                  the backend
    smi_command.py          runs nvidia-smi
    smi_list.py             the GPUs, and how they are addressed
    smi_prefetch.py         queries all GPUs at once
    smi_log.py              parses ``-q -x``
    smi_tables.py           parses the tables of ``mig``, and ``-L``
    smi_model.py            parsed output as the types of the engine
    smi_errors.py           its errors as NVML's return codes

Both:
    command.py              runs commands of the driver
    reset.py                resets one GPU
    remedies.py             remedies for the driver's errors
    boards.py               properties that follow from all profiles of a GPU
    names.py                names of profiles and processes
    architecture.py         architectures, and what follows from them
    capable.py              GPUs that are known to support MIG

Imports model, backend and codes of _mig, and _common.

Tested under another name (folders are those of tests/unit/plugins):
    architecture, capable, names, nvml_library, remedies, reset: test_nvml.py
    command, smi_command, smi_errors, smi_list, smi_log, smi_model: test_smi.py
    boards: module_utils/_mig/test_reduced.py
"""
