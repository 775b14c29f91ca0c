# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Access to a Kubernetes cluster, its nodes and their readiness, and runs at the same time.

Access:
    action.py          base of the actions that use the API
    api.py             reads, changes and restarts through the API
    requests.py        sent from the controller, or by a module on another host
    responses.py       errors of requests, and their messages
    kubeconfig.py      a kubeconfig for the controller, from that of a server
    permissions.py     the ClusterRoles of cluster_roles.yml, and whether the user has their permissions
    progress.py        waits for a limited time, and shows why
    runs.py            which run holds a node, and whether it has ended
    run_folder.py      the folder on the controller for kubeconfigs of a run
    run_cleaner.py     the process that removes this folder when the run has ended

Nodes:
    nodes.py           nodes of hosts, and resources that they should advertise
    labels.py          labels of the GPU operator and GPU feature discovery
    pods.py            pods as the API returns them
    readiness.py       whether nodes advertise what is expected of them
    mig_configs.py     configurations for the MIG manager
    plugin_configs.py  configurations for the device plugin

Imports _layout and _common, and the requests of module_utils/_module/cluster.

Tested under another name (folders are those of tests/unit/plugins):
    action, api, progress: action/test_gpu_cluster_drain.py
    labels: plugin_utils/_drain/test_record.py
    plugin_configs: plugin_utils/_layout/test_sharing.py
    responses: test_requests.py
"""
