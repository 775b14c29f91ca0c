# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_chart_k8s, and the access of all action plugins that use the API."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_k8s
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action

Data = t.Dict[str, t.Any]


def test_the_recorded_access_is_used() -> None:
    found = action(gpu_chart_k8s, "gpu_chart_k8s", {"options": {"kind": "Secret"}})
    found._task.diff = True
    found._task.environment = [{"HTTPS_PROXY": "proxy", "K8S_AUTH_CONTEXT": "play"}]
    called: t.List[t.Any] = []

    def execute(module_name: str, module_args: Data, task_vars: Data) -> Data:
        environment: Data = {}
        found._compute_environment_string(environment)
        variables = [task_vars, *task_vars["ansible_delegated_vars"].values()]
        pythons = {each["ansible_python_interpreter"] for each in variables}
        called.append(
            (module_name, module_args, environment, pythons, task_vars["ansible_delegated_vars"]["server"]["a"])
        )
        return {"changed": True}

    found._execute_module = execute
    access = {"python": "/venv/python", "on_controller": False, "environment": {"K8S_AUTH_CONTEXT": "a"}}
    delegated = {"server": {"a": 1, "ansible_python_interpreter": "/usr/bin/python3"}}
    assert found.run(task_vars={"gpu_cluster_access": access, "ansible_delegated_vars": delegated}) == {"changed": True}
    environment = {"HTTPS_PROXY": "proxy", "K8S_AUTH_CONTEXT": "a"}
    options = {"kind": "Secret", "hidden_fields": gpu_chart_k8s._HIDDEN}
    assert called == [("kubernetes.core.k8s", options, environment, {"/venv/python"}, 1)]


@pytest.mark.parametrize(
    ("method", "diff", "shown"), [("create", True, True), ("create", False, False), ("apply", True, False)]
)
def test_the_diff_of_an_object_that_is_created(method: str, diff: bool, shown: bool) -> None:
    definition = {"kind": "ConfigMap", "data": {"config.yaml": "version: v1"}}
    found = action(gpu_chart_k8s, "gpu_chart_k8s", {"options": {"definition": definition}})
    found._task.diff = diff
    found._execute_module = lambda *_arguments, **_others: {"changed": True, "method": method}
    expected = {"diff": {"before": {}, "after": definition}} if shown else {}
    access = {"python": "/venv/python", "on_controller": False, "environment": {}}
    result = found.run(task_vars={"gpu_cluster_access": access})
    assert result == {"changed": True, "method": method, **expected}
