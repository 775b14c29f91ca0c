# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The MIG layout of a node.

The modules:
    nvidia_mig.py    changes the layout
    requirements.py  what prevents the role from managing MIG
    boot.py          installs the restore at boot
    cdi.py           keeps the CDI specification in line with the devices
    idle.py          processes that use the GPUs
    services.py      stops services that block a change, and starts them again

What they use:
    results.py       return values of nvidia_mig
    engine.py        copies the engine to the node
    cdi_devices.py   compares a CDI specification with the devices
    processes.py     processes of the node, and their units

Imports common, and the engine.

Tested under another name (folders are those of tests/unit/plugins):
    nvidia_mig, results: modules/test_nvidia_mig.py
    requirements: modules/test_nvidia_mig_requirements.py
    cdi, cdi_devices: modules/test_nvidia_cdi.py
    idle, processes: modules/test_node_idle.py
    services: modules/test_nvidia_mig_services.py
"""
