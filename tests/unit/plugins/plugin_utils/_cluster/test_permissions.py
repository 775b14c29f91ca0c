# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The permissions of the ClusterRoles."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import permissions


def test_the_permissions_of_both_methods() -> None:
    found = permissions.chart_permissions("gpus", "helm_chart", changes=True, drain=False, check_pods=False)
    assert {"namespace": "kube-system", "verb": "create", "group": "helm.cattle.io", "resource": "helmcharts"} in found
    name = {"namespace": "gpus", "name": "gpufleet-mig-configs"}
    assert {**name, "verb": "patch", "group": "", "resource": "configmaps"} in found
    assert not {"jobs", "clusterroles", "replicasets"}.intersection(each["resource"] for each in found)
    only = permissions.chart_permissions("gpus", "helm_chart", changes=False, drain=False, check_pods=False)
    assert {each["verb"] for each in only} == {"get", "list"}
    more = permissions.chart_permissions("gpus", "helm", changes=True, drain=True, check_pods=True)
    assert {each["resource"] for each in more} >= {"jobs", "clusterroles", "replicasets"}
    assert {"verb": "create", "group": "", "resource": "pods", "subresource": "eviction"} in more
    assert len(permissions.access_reviews(more)) == len(more)
