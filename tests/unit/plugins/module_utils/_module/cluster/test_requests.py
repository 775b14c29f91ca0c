# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import requests as cluster_requests

exceptions = pytest.importorskip("kubernetes.client.exceptions", reason="only where Ansible reads a cluster")
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
from kubernetes.dynamic.resource import ResourceInstance

BUDGET = {
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "details": {"causes": [{"message": "The disruption budget train needs 2 healthy pods and has 2 currently"}]},
}
Data = t.Dict[str, t.Any]


class Client:
    """Below the service of kubernetes.core, which converts the client's exceptions."""

    def resource(self, kind: str, _api_version: str) -> t.Any:
        return SimpleNamespace(kind=kind, group="", api_version="v1")

    def get(self, resource: t.Any, **_arguments: t.Any) -> t.Any:
        if resource.kind == "Secret":
            raise exceptions.ApiException(403, "Forbidden")
        if resource.kind == "Gone":
            raise ConnectionError("refused")
        return ResourceInstance(None, {"kind": resource.kind})


def read(*kinds: str) -> t.List[Data]:
    return cluster_requests.send(Client(), [{"verb": "read", "kind": kind, "name": "a"} for kind in kinds], False)


def test_a_rejected_request_does_not_affect_the_others() -> None:
    node, secret, pod = read("Node", "Secret", "Pod")
    assert (node["resources"], pod["resources"]) == ([{"kind": "Node"}], [{"kind": "Pod"}])
    assert "resources" not in secret and "Forbidden" in secret["msg"]


def test_an_api_that_does_not_respond_is_an_error() -> None:
    with pytest.raises(CoreException, match="refused"):
        read("Gone", "Node")


def test_patches_that_the_api_rejects() -> None:
    """It rejects one with another version of the object, which someone else has changed."""

    def patch(name: str, **_arguments: t.Any) -> t.Any:
        if name != "201":
            raise exceptions.ApiException(int(name))
        return SimpleNamespace(to_dict=lambda: {"kind": "Node"})

    client = SimpleNamespace(resource=lambda *_: SimpleNamespace(patch=patch))
    requests = [{"verb": "patch", "kind": "Node", "name": name, "patch": {}} for name in ("409", "201", "403")]
    assert cluster_requests.send(client, requests[:2], False) == [
        {"object": None},
        {"object": {"kind": "Node"}, "changed": True},
    ]
    with pytest.raises(exceptions.ApiException, match="403"):
        cluster_requests.send(client, requests, False)


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


def remove(*names: str, verb: str = "evict", check_mode: bool = False, **options: t.Any) -> t.Any:
    """The results, and what was sent."""
    pods = Pods()
    client = SimpleNamespace(resource=lambda *_: pods)
    given = [
        {"verb": verb, "kind": "Pod", "namespace": "ns", "name": name, "uid": "uid-" + name, **options}
        for name in names
    ]
    return cluster_requests.send(client, given, check_mode), pods.requests


def test_all_evictions_are_requested_and_budgets_are_named() -> None:
    """Also if one is rejected for another reason, for example by a webhook."""
    results, requests = remove("a-429", "b-201", "c-404", "d-409", "e-403")
    assert len(requests) == 5
    reason = (
        "Cannot evict pod as it would violate the pod's disruption budget. "
        "The disruption budget train needs 2 healthy pods and has 2 currently"
    )
    assert results == [{"msg": reason}, {"changed": True}, {}, {}, {"msg": reason}]


def test_only_the_known_pod_is_removed() -> None:
    (eviction,) = remove("a-201")[1]
    assert eviction["kind"] == "Eviction" and eviction["metadata"] == {"namespace": "ns", "name": "a-201"}
    assert eviction["deleteOptions"] == {"preconditions": {"uid": "uid-a-201"}}
    (deletion,) = remove("a-201", verb="delete", grace_period=0)[1]
    assert deletion["kind"] == "DeleteOptions" and deletion["gracePeriodSeconds"] == 0
    assert deletion["preconditions"] == {"uid": "uid-a-201"}
    (preview,) = remove("a-201", check_mode=True, grace_period=-1)[1]
    assert preview["deleteOptions"] == {"preconditions": {"uid": "uid-a-201"}, "dryRun": ["All"]}


@pytest.mark.parametrize("body", [None, b"", "no json", "[]"])
def test_a_response_without_a_status(body: t.Any) -> None:
    assert cluster_requests._reason(body) == str(body)
