# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests to a cluster's API, with the client of kubernetes.core.

    client.py      the client
    requests.py    sends a list of requests, which read, patch, evict or delete objects
    background.py  functions that run beside the caller

Imports nothing of the others.

Tested under another name (folders are those of tests/unit/plugins):
    background: test_client.py
"""
