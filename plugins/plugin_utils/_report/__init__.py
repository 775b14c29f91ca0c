# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report of a fleet: its data, and the page that shows them.

    data.py          types, and the JSON file
    build.py         a report from hosts and cluster
    hosts.py         hosts, from variables and what was read on the node
    drift.py         differences between inventory and node, and what cannot be read
    cluster_view.py  the cluster's nodes, pods, and who has taken a node out of service
    slices.py        instances of each GPU with their use and users
    totals.py        totals of the fleet
    compare.py       what has changed since another report
    page.py          the page, from page.html.j2, page.css and page.js
    colours.py       its colours
    files.py         writes page and data

Imports _drain, _inventory, _cluster, _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    build, hosts: test_drift.py
    slices, totals, colours, files: test_page.py
"""
