# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which driver a node gets: generations of GPUs, packages of each distribution.

    node.py         plan and problems of a node, from its facts
    plan.py         the plan, from these:
    sources.py      the distribution, NVIDIA's repository, or a mirror
    branch.py       branch and version
    modules.py      kernel modules, prebuilt or built on the node
    names.py        placeholders in the names of packages
    nvlink.py       fabric manager and its like
    generations.py  generations of GPUs, by PCI device id
    tables.py       the tables in distributions/

Imports _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    generations: test_modules.py
    names: test_plan.py
"""
