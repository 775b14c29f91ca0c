# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rehearsal of a change on simulated nodes.

    start.py      what each host starts from: a report or empty GPUs; and the work on it
    former.py     the layouts of a former inventory
    job.py        what a host's simulated node does, from the host's variables
    simulator.py  runs a job with the simulator's NVML, in a process of its own
    child.py      that process
    outcome.py    what a job has shown of a host: numbers, needs, problems
    cluster.py    resources that nodes would advertise
    table.py      the table and the maps of all hosts
    pods.py       pods of manifests that no node could run

Imports _cluster, _inventory, _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    child, simulator: tests/playbooks/test_rehearse.py
"""
