# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The charts of the GPU operator and the device plugin: values, configurations, owner of MIG, checks with pods.

chart.py describes the charts. plan.py plans an installation: from inputs.py, with checks.py, notices.py and build.py.
written.py and helm_chart.py define the objects that it writes. compare.py compares the cluster with a plan, and
removal.py lists what is removed. node_labels.py, wait.py and pod_check_run.py act on the cluster.
Imports _drain, _cluster, _layout and _common.
"""
