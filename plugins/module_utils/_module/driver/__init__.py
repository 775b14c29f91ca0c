# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver of a node.

    facts.py         facts of GPUs and driver
    node.py          the same from kernel, PCI bus and packages, without the driver
    installation.py  how the driver was installed
    load.py          loads the kernel module, or says that a reboot is required

Imports common, and the engine.

Tested under another name (folders are those of tests/unit/plugins):
    load: modules/test_nvidia_driver_load.py
"""
