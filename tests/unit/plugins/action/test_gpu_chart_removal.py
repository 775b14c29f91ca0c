# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin gpu_chart_removal."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_chart_removal
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action

Data = t.Dict[str, t.Any]
OURS = {"app.kubernetes.io/managed-by": "gpufleet.node"}


def removal(results: t.Optional[Data] = None, **variables: t.Any) -> Data:
    """``results`` are by kind. By default, each object exists and is ours."""
    found = action(gpu_chart_removal, "gpu_chart_removal", {"role": "device_plugin"})

    def execute(module_args: Data, **_others: t.Any) -> Data:
        if "msg" in (results or {}):
            return {"failed": True, **(results or {})}
        return {
            "results": [
                (results or {}).get(each["kind"])
                or {"resources": [{"kind": each["kind"], "metadata": {"name": each["name"], "labels": OURS}}]}
                for each in module_args["requests"]
            ]
        }

    found._execute_module = execute
    result: Data = found.run(task_vars=variables)
    return result


def test_objects_are_removed_from_the_chart_to_the_namespace() -> None:
    """Without the version, which the role needs to install the chart."""
    result = removal(device_plugin_runtime_class="", device_plugin_namespace="ns")
    assert [(each["kind"], each["metadata"]["name"]) for each in result["objects"]] == [
        ("HelmChart", "nvidia-device-plugin"),
        ("ConfigMap", "gpufleet-mig-configs"),
        ("ConfigMap", "gpufleet-device-plugin-configs"),
        ("RuntimeClass", "nvidia"),
        ("Namespace", "ns"),
    ]
    assert (result["settings"]["namespace"], result["settings"]["release"]) == ("ns", "nvidia-device-plugin")
    assert not result["changed"] and "failed" not in result


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ({"Namespace": {"msg": "denied"}}, "the cluster's objects of the kind Namespace cannot be read: denied"),
        ({"msg": "Connection refused"}, "Connection refused"),
    ],
)
def test_objects_that_cannot_be_read_are_an_error(results: Data, message: str) -> None:
    result = removal(results)
    assert result["failed"] and result["msg"] == message
