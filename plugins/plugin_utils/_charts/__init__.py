# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The charts of the GPU operator and the device plugin: values, configurations, owner of MIG, verification.

The charts:
    chart.py                 the charts, and what differs between them
    releases.py              keys of each release in values/, validation, merging
    mapping.py               which variables set which values
    operator_values.py       values of the GPU operator
    device_plugin_values.py  values of the device plugin

The plan of an installation:
    plan.py                  the plan, or why there is none, from these:
    inputs.py                variables of a role, and objects of the cluster
    agreement.py             whether the hosts of a play agree on the variables
    preconditions.py         reasons why a chart cannot be installed
    owner.py                 other owners of MIG, and other device plugins
    notices.py               warnings
    operator_mig.py          ConfigMap and labels of the MIG manager
    plugin_sharing.py        ConfigMap and labels with which GPUs are shared
    build.py                 what is written to the cluster
    objects.py               the objects that are written first, and whether the cluster has them
    helm_chart.py            the HelmChart that installs the chart

The change and its verification:
    node_labels.py           changes labels, and restarts MIG managers
    wait.py                  waits until nodes advertise their GPUs
    compare.py               compares the cluster with a plan
    device_check.py          checks GPUs and MIG devices with pods
    device_jobs.py           the jobs of these pods, and what they print
    gfd_labels.py            labels that GPU feature discovery writes
    removal.py               objects and labels that an uninstallation removes

Imports _drain, _cluster, _layout and _common.

Tested under another name (folders are those of tests/unit/plugins):
    build, chart, inputs, notices, objects, operator_mig, plugin_sharing, preconditions: test_plan.py
    device_plugin_values, mapping, operator_values: test_releases.py
    agreement, wait: action/test_gpu_chart.py
    compare: action/test_gpu_chart_compare.py
"""
