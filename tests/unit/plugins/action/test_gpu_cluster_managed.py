# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_cluster_managed."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_managed
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
TYPE, GROUP = "node.kubernetes.io/instance-type", "eks.amazonaws.com/nodegroup"
NODES = [
    node("known", **{TYPE: "p4d.24xlarge", GROUP: "gpu"}),
    node("other", {"nvidia.com/gpu": "8"}, **{TYPE: "g99.48xlarge", GROUP: "new"}),
    node("unlabelled", {"nvidia.com/gpu": "8"}),
    node("cpu", **{TYPE: "m5.large", GROUP: "cpu"}),
]


def run(nodes: t.Sequence[Data] = NODES, **arguments: t.Any) -> Data:
    found = action(gpu_cluster_managed, "gpu_cluster_managed", {"strategy": "mixed", **arguments})

    def execute(module_args: Data, **_others: t.Any) -> Data:
        results = []
        for each in module_args["requests"]:
            selectors = [selector.split("=") for selector in each.get("label_selectors", ())]
            matching = [
                item for item in nodes if all(item["metadata"]["labels"].get(key) == value for key, value in selectors)
            ]
            results.append({"resources": matching, "api_found": True})
        return {"results": results}

    found._execute_module = execute
    result: Data = found.run(task_vars={})
    return result


def test_unrecognized_gpu_nodes_are_an_error_without_a_selector() -> None:
    result = run()
    assert result["failed"]
    assert "node other has GPUs (the resources nvidia.com/gpu: 8) and the unknown instance type g99" in result["msg"]
    assert re.search(r"node unlabelled has GPUs \(.*\) and no instance type", result["msg"])
    assert "warnings" not in result


def test_gpu_nodes_that_the_selector_leaves_out_are_named() -> None:
    result = run(selector=[GROUP + "=gpu"])
    assert [each["name"] for each in result["nodes"]] == ["known"] and not result.get("failed")
    assert result["warnings"] == [
        "gpu_cluster_selector does not select 2 nodes with GPUs: other (g99.48xlarge), unlabelled (no instance type)"
    ]
    many = [*NODES, *(node("node%d" % number, {"nvidia.com/gpu": "1"}) for number in range(5))]
    assert run(many, selector=[GROUP + "=gpu"])["warnings"][0].endswith("node4 (no instance type) and 2 more")


def test_no_warning_if_all_gpu_nodes_are_selected() -> None:
    assert "warnings" not in run([NODES[0], NODES[3]], selector=[GROUP + "=gpu"])
