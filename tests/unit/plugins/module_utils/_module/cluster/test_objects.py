# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import objects as cluster_objects

exceptions = pytest.importorskip("kubernetes.client.exceptions", reason="only where Ansible reads a cluster")
from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
from kubernetes.dynamic.resource import ResourceInstance


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


def read(*kinds: str) -> t.List[t.Dict[str, t.Any]]:
    return cluster_objects.read_objects(Client(), [{"kind": kind, "name": "a"} for kind in kinds])


def test_a_rejected_request_does_not_affect_the_others() -> None:
    node, secret, pod = read("Node", "Secret", "Pod")
    assert (node["resources"], pod["resources"]) == ([{"kind": "Node"}], [{"kind": "Pod"}])
    assert "resources" not in secret and "Forbidden" in secret["msg"]


def test_an_api_that_does_not_respond_is_an_error() -> None:
    with pytest.raises(CoreException, match="refused"):
        read("Gone", "Node")
