# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import removal
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.chart import CHARTS
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.inputs import Cluster, Installation
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.removal import Removal
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import PLUGIN
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
OURS = {"app.kubernetes.io/managed-by": "gpufleet.node"}
OTHERS = {"app.kubernetes.io/managed-by": "Helm"}
DEPLOY = "nvidia.com/gpu.deploy."


def plan(role: str = "device_plugin", method: str = "auto", api_found: bool = True, **objects: Data) -> Removal:
    """``objects`` are metadata, by field of Cluster. Others exist and are ours."""
    installation = Installation(CHARTS[role], {**PLUGIN, "method": method})
    found = {
        field: {
            "resources": [{"kind": each["kind"], "metadata": objects.get(field, {"labels": OURS})}],
            "api_found": field != "helm_charts" or api_found,
        }
        for field, each in removal.objects_to_read(installation).items()
    }
    return removal.plan_removal(installation, Cluster(nodes={}, **found))


@pytest.mark.parametrize("metadata", [{"labels": OTHERS}, {"labels": None}, {}])
def test_objects_of_other_owners_are_kept(metadata: Data) -> None:
    removed = [each["kind"] for each in plan(namespace=metadata).objects]
    assert removed == ["HelmChart", "ConfigMap", "ConfigMap", "RuntimeClass"]


@pytest.mark.parametrize(
    ("method", "api_found", "uses_helm"),
    [("auto", True, False), ("auto", False, True), ("helm", True, True), ("helm_chart", True, False)],
)
def test_helm_removes_what_it_has_installed(method: str, api_found: bool, uses_helm: bool) -> None:
    assert plan(method=method, api_found=api_found).uses_helm is uses_helm


def test_only_the_operator_leaves_labels() -> None:
    assert plan("gpu_operator").leaves_labels and not plan("device_plugin").leaves_labels


def test_labels_of_this_collection() -> None:
    ours = {
        "nvidia.com/mig.config": "gpufleet-1",
        "nvidia.com/mig.config.state": "success",
        "nvidia.com/device-plugin.config": "gpufleet-2",
    }
    users = {"nvidia.com/mig.config": "all-balanced", "nvidia.com/mig.config.state": "success"}
    assert removal.own_labels([node("a", **ours), node("b", **users)]) == {"a": dict.fromkeys(ours)}


def test_labels_that_only_the_operator_writes() -> None:
    written = {"nvidia.com/gpu.present": "true", DEPLOY + "dcgm": "true", DEPLOY + "nvsm": "paused-for-mig-change"}
    users = {DEPLOY + "operands": "false", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
    found = removal.operator_labels([node("a", **written, **users), node("b", **users)])
    assert found == {"a": dict.fromkeys(written)}
