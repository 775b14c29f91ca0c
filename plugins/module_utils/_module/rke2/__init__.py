# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""RKE2 on a node.

The modules, without their prefix rke2_:
    artifacts.py    verifies the files of a release
    server.py       whether a server responds and accepts a token
    service.py      starts RKE2, and checks its containerd
    state.py        state of a node that the role needs
    node.py         labels and taints of the node

What they use:
    containerd.py   configuration of RKE2's containerd, and its templates
    log.py          why RKE2 does not start

Imports toolkit and common, and the engine.

Tested under another name (folders are those of tests/unit/plugins):
"""
