# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The engine at boot, without Ansible: restores the layout that the role nvidia_mig configured.

    restore.py    the command: settings, lock, and the wait for the driver
    gpus.py       reads, plans and converges the GPUs
    limit.py      its time limit
    settings.py   its file of settings
    access.py     access of a group to the driver's MIG devices
    report.py     its log lines

Imports _backend, _mig and _common.

Tested under another name (folders are those of tests/unit/plugins):
    gpus, limit, report, settings: test_restore.py
"""
