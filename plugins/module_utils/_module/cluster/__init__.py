# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to a cluster's API, with the client of kubernetes.core.

    client.py      the client
    objects.py     reads objects of several kinds
    patch.py       changes nodes
    pods.py        evicts or deletes pods
    names.py       names of objects in the paths of requests
    background.py  functions that run beside the caller

Imports nothing of the others.

Tested under another name (folders are those of tests/unit/plugins):
    background, names: test_client.py
    patch: tests/cluster/test_drain.py
"""
