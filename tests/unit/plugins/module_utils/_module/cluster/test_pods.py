# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import pods as cluster_pods

exceptions = pytest.importorskip("kubernetes.client.exceptions", reason="only where Ansible reads a cluster")

BUDGET = {
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "details": {"causes": [{"message": "The disruption budget train needs 2 healthy pods and has 2 currently"}]},
}
Data = t.Dict[str, t.Any]


class Pods:
    """Pods that are named after the status with which the API responds."""

    def __init__(self) -> None:
        self.requests: t.List[Data] = []
        self.subresources = {"eviction": SimpleNamespace(create=self.respond)}
        self.delete = self.respond

    def respond(self, body: Data, name: str, namespace: str) -> None:
        self.requests.append(body)
        status = int(name.partition("-")[2])
        if status != 201:
            error = exceptions.ApiException(status)
            error.body = json.dumps(BUDGET)
            raise error


def remove(*names: str, state: str = "evicted", grace_period: int = -1, check_mode: bool = False) -> t.Any:
    pods = Pods()
    client = SimpleNamespace(resource=lambda *_: pods)
    given = [{"namespace": "ns", "name": name, "uid": "uid-" + name} for name in names]
    return (*cluster_pods.remove_pods(client, state, given, grace_period, check_mode), pods.requests)


def test_all_evictions_are_requested_and_budgets_are_named() -> None:
    accepted, rejected, requests = remove("a-429", "b-201", "c-404", "d-409", "e-500")
    assert accepted == 1 and len(requests) == 5
    assert [each["name"] for each in rejected] == ["a-429", "e-500"]
    assert rejected[0]["reason"] == (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget train needs 2 healthy pods and has 2 currently"
    )


def test_only_the_known_pod_is_removed() -> None:
    (eviction,) = remove("a-201")[2]
    assert eviction["kind"] == "Eviction" and eviction["metadata"] == {"namespace": "ns", "name": "a-201"}
    assert eviction["deleteOptions"] == {"preconditions": {"uid": "uid-a-201"}}
    (deletion,) = remove("a-201", state="deleted", grace_period=0)[2]
    assert deletion["kind"] == "DeleteOptions" and deletion["gracePeriodSeconds"] == 0
    assert deletion["preconditions"] == {"uid": "uid-a-201"}
    (preview,) = remove("a-201", check_mode=True)[2]
    assert preview["deleteOptions"] == {"preconditions": {"uid": "uid-a-201"}, "dryRun": ["All"]}


def test_a_pod_that_is_rejected_for_another_reason_does_not_stop_the_others() -> None:
    """For example by a webhook."""
    accepted, rejected, _requests = remove("a-403", "b-201")
    assert (accepted, [each["name"] for each in rejected]) == (1, ["a-403"])


@pytest.mark.parametrize("body", [None, b"", "no json", "[]"])
def test_a_response_without_a_status(body: t.Any) -> None:
    assert cluster_pods.reason(body) == str(body)
