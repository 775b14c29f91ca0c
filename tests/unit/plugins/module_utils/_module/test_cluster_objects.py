# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module import cluster_objects

exceptions = pytest.importorskip("kubernetes.client.exceptions", reason="only where Ansible reads a cluster")
from ansible_collections.kubernetes.core.plugins.module_utils.k8s import client, service


class Service:
    def __init__(self, *_arguments: t.Any) -> None:
        pass

    def find(self, kind: str) -> t.Dict[str, t.Any]:
        if kind == "Secret":
            raise exceptions.ApiException(403, "Forbidden")
        if kind == "Gone":
            raise ConnectionError("refused")
        return {"resources": [kind], "api_found": True}


@pytest.fixture(name="read")
def fixture_read(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., t.Any]:
    monkeypatch.setattr(client, "get_api_client", lambda module: None)
    monkeypatch.setattr(service, "K8sService", Service)
    return lambda *kinds: cluster_objects.read(SimpleNamespace(params={"objects": [{"kind": kind} for kind in kinds]}))


def test_a_rejected_request_does_not_affect_the_others(read: t.Callable[..., t.Any]) -> None:
    node, secret, pod = read("Node", "Secret", "Pod")
    assert (node["resources"], pod["resources"]) == (["Node"], ["Pod"])
    assert "resources" not in secret and "Forbidden" in secret["msg"]


def test_an_api_that_does_not_respond_is_an_error(read: t.Callable[..., t.Any]) -> None:
    with pytest.raises(ConnectionError, match="refused"):
        read("Gone", "Node")
