# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_chart_helm. tests/cluster/test_helm.py has a hook that helm waits for."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_helm
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import waiting

Data = t.Dict[str, t.Any]


def run(helm: t.Callable[[Data], Data], *pods: Data) -> Data:
    """The result of the action. ``helm`` stands in for the module kubernetes.core.helm."""
    options = {"name": "x", "release_namespace": "y"}
    found = action(gpu_chart_helm, "gpu_chart_helm", {"options": options})

    def execute(module_name: str, module_args: Data, task_vars: object) -> Data:
        if module_name == "kubernetes.core.helm":
            return helm(module_args)
        return {
            "results": [{"resources": list(pods) if each["kind"] == "Pod" else []} for each in module_args["requests"]]
        }

    found._execute_module = execute
    result: Data = found.run(task_vars={})
    return result


def test_the_result_of_helm() -> None:
    assert run(lambda options: {"changed": True, "options": options}) == {
        "changed": True,
        "options": {"name": "x", "release_namespace": "y"},
    }


def test_an_error_of_helm_has_the_reasons_of_pods() -> None:
    hook = waiting("hook", "ErrImagePull", "not found")
    result = run(lambda _options: {"failed": True, "msg": "timed out"}, hook)
    assert result["failed"] and result["msg"] == "timed out; container main of pod hook: ErrImagePull: not found"


def test_a_host_that_is_gone() -> None:
    def gone(_options: Data) -> t.NoReturn:
        raise AnsibleConnectionFailure("no route to host")

    assert run(gone) == {"changed": False, "failed": True, "msg": "no route to host"}
