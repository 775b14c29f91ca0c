# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_cluster_permissions."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_permissions
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action

Data = t.Dict[str, t.Any]
AWAY = {"failed": True, "msg": "Connection refused"}


def run(answer: t.Callable[[Data], Data], **arguments: t.Any) -> Data:
    found = action(gpu_cluster_permissions, "gpu_cluster_permissions", arguments)
    found._execute_module = lambda module_name, module_args, task_vars: answer(module_args)
    result: Data = found.run(task_vars={})
    assert not result["changed"]
    return result


def problems(answer: t.Callable[[Data], Data], **arguments: t.Any) -> t.List[str]:
    return t.cast("t.List[str]", run(answer, **arguments)["problems"])


def reviewed(*denied: str) -> t.Callable[[Data], Data]:
    """The answers of an API that allows everything but some verbs on nodes."""

    def answer(arguments: Data) -> Data:
        results = []
        for each in arguments["resource_definition"]:
            asked = each["spec"]["resourceAttributes"]
            allowed = asked["resource"] != "nodes" or asked["verb"] not in denied
            results.append({"result": {**each, "status": {"allowed": allowed}}})
        return {"result": {"results": results}}

    return answer


def test_the_permissions_to_drain() -> None:
    assert problems(reviewed()) == []
    (problem,) = problems(reviewed("patch", "create"))  # nodes are not created
    assert problem.startswith("the user of the kubeconfig is not allowed to patch nodes: bind the ClusterRoles")


def test_permissions_that_the_api_does_not_evaluate() -> None:
    result = run(
        lambda arguments: {"result": {"results": [{"result": each} for each in arguments["resource_definition"]]}}
    )
    assert result["problems"] == [] and "the API did not evaluate get nodes" in result["warnings"][0]
    assert "warnings" not in run(reviewed())


@pytest.mark.parametrize(("may_be_missing", "count"), [(False, 1), (True, 0)])
def test_a_cluster_that_cannot_be_reached(may_be_missing: bool, count: int) -> None:
    found = problems(lambda _arguments: AWAY, may_be_missing=may_be_missing)
    assert len(found) == count and all("cannot be read: Connection refused" in each for each in found)
