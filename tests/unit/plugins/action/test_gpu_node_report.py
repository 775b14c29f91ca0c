# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_node_report: which cluster it reads, and what it does with a cluster that it cannot read."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.gpufleet.node.plugins.action import gpu_node_report
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._report.report_support import LAYOUT, state
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

Data = t.Dict[str, t.Any]
OFFERED = {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "2"}


def run(folder: Path, *results: Data, **arguments: t.Any) -> Data:
    """The data of the report of gpu1, and the requests to the cluster."""
    found = action(gpu_node_report, "gpu_node_report", {"path": str(folder), "state": "read", **arguments})
    answers, requests = list(results), []

    def execute(module_args: Data, **_others: t.Any) -> Data:
        requests.append([each["kind"] for each in module_args["requests"]])
        return answers.pop(0)

    found._execute_module = execute
    host = {"inventory_hostname": "gpu1", "nvidia_mig_layout": LAYOUT, "read": state()}
    variables = {"hostvars": {"gpu1": host}, "ansible_play_hosts_all": ["gpu1"]}
    assert found.run(task_vars=variables)["changed"]
    return {**json.loads((folder / "report.json").read_text()), "requests": requests}


def objects(*nodes: Data) -> Data:
    return {"results": [{"resources": list(nodes)}, {"resources": []}]}


def test_without_a_cluster_none_is_read(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert (found["cluster"], found["requests"]) == (None, [])


def test_nodes_and_pods_are_read_once(tmp_path: Path) -> None:
    found = run(tmp_path, objects(node("gpu1", OFFERED)), cluster=True)
    assert found["requests"] == [["Node", "Pod"]]
    assert found["hosts"]["gpu1"]["node"] == "gpu1"
    assert found["hosts"]["gpu1"]["problems"] == []


@pytest.mark.parametrize(
    ("result", "problem", "requests"),
    [
        ({"failed": True, "msg": "Connection refused"}, "Connection refused. Check ", 1),
        ({"results": [{"msg": "Reason: Forbidden"}, {"resources": []}]}, "Forbidden", 1),
        ({"failed": True, "msg": "Failed to import the required Python library (kubernetes)"}, "pip install", 1),
        (None, "the kubeconfig is refused", 0),
    ],
)
def test_a_cluster_that_cannot_be_read_is_an_error_in_the_report(
    tmp_path: Path, result: t.Optional[Data], problem: str, requests: int
) -> None:
    given = {} if result else {"cluster_problem": "the kubeconfig is refused"}
    found = run(tmp_path, *filter(None, [result]), cluster=True, **given)
    assert problem in found["cluster"]["error"] and "cannot be read" not in found["cluster"]["error"]
    assert (found["cluster"]["nodes"], len(found["requests"])) == ({}, requests)


def test_a_former_report_that_cannot_be_read_fails_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(AnsibleActionFail, match="missing.json cannot be read"):
        run(tmp_path / "out", previous=str(tmp_path / "missing.json"))
    assert not (tmp_path / "out").exists()
