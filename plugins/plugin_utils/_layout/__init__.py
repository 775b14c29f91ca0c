# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boards, layouts, and what they come to.

    boards.py           boards with MIG in models/, and those without
    products.py         the product of a board that fits a layout best
    gpus.py             facts or names of boards as types of the engine
    layouts_on_gpus.py  instances of GPUs, from facts or a layout
    named.py            layouts with names
    problems.py         all problems of a layout
    plan.py             the change of a GPU's instances
    map.py              slice maps
    resources.py        resources that a node advertises, by MIG strategy
    sharing.py          GPU sharing, and its effect on resources
    parted.py           documents of nvidia-mig-parted
    errors.py           errors of the engine as errors of Ansible

Imports the engine (module_utils/_mig) and _common.

Tested under another name (folders are those of tests/unit/plugins):
    gpus: test_boards.py
    errors: filter/test_wrong_types.py
    layouts_on_gpus: filter/test_mig_resources.py
    map: filter/test_mig_map.py
    named: filter/test_mig_layout.py
    parted: filter/test_mig_parted.py
    plan: filter/test_mig_plan.py
    problems, products: filter/test_mig_problems.py
"""
