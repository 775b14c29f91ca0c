# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubeconfig of a server: its data is taken, and nothing that runs a program or reads a file on the controller."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import kubeconfig
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._cluster.kubeconfig_support import (
    CLUSTER,
    USER,
    config,
)


def parts(text: str) -> tuple[t.Any, t.Any]:
    found = json.loads(text)
    assert sorted(found) == ["apiVersion", "clusters", "contexts", "current-context", "kind", "users"]
    return found["clusters"][0]["cluster"], found["users"][0]["user"]


@pytest.mark.parametrize(
    ("server", "address", "expected"),
    [
        ("gpu-1", "127.0.0.1:6443", "gpu-1:6443"),
        ("192.0.2.1", "localhost:6443", "192.0.2.1:6443"),
        ("2001:db8::1", "[::1]:6443", "[2001:db8::1]:6443"),
        ("gpu-1", "10.0.0.1:6443", "10.0.0.1:6443"),
        ("gpu-1", "localhost.example:6443", "localhost.example:6443"),
    ],
)
def test_loopback_addresses_become_those_of_the_server(server: str, address: str, expected: str) -> None:
    cluster, _user = parts(kubeconfig.rebuild(config({**CLUSTER, "server": "https://" + address}), server))
    assert cluster == {**CLUSTER, "server": "https://" + expected}


@pytest.mark.parametrize("user", [USER, {"token": "abc.def"}])
def test_credentials_are_taken(user: t.Mapping[str, str]) -> None:
    assert parts(kubeconfig.rebuild(config(user=user, name="kubernetes"), "gpu-1"))[1] == user


@pytest.mark.parametrize(
    ("cluster", "user", "named"),
    [
        ({}, {"exec": {"command": "/tmp/evil", "apiVersion": "client.authentication.k8s.io/v1"}}, "user has exec"),
        ({}, {"auth-provider": {"name": "gcp", "config": {"cmd-path": "/tmp/evil"}}}, "user has auth-provider"),
        ({}, {"tokenFile": "/root/.ssh/id_ed25519"}, "user has tokenFile"),
        ({}, {"client-key": "/root/.ssh/id_ed25519"}, "user has client-key"),
        ({}, {"as": "system:admin", "exec": {}}, "user has as, exec"),
        ({}, {"a" * 100000: ""}, "user has %s, which" % ("a" * 70)),
        ({}, dict.fromkeys("abcdefgh", ""), "user has a, b, c, d, e, which"),
        ({"certificate-authority": "/etc/shadow"}, {}, "cluster has certificate-authority"),
        ({"proxy-url": "http://192.0.2.9"}, {}, "cluster has proxy-url"),
        ({"insecure-skip-tls-verify": True}, {}, "cluster has insecure-skip-tls-verify"),
        ({"server": "http://192.0.2.9:80"}, {}, "is not https://HOST:PORT"),
        ({"server": "https://gpu-1:6443/{{ lookup('pipe', 'id') }}"}, {}, "not a single word"),
        ({"server": "https://gpu-1@192.0.2.9:6443"}, {}, "is not https://HOST:PORT"),
        ({"certificate-authority-data": "Q0E=\nserver: x"}, {}, "not a single word"),
        ({}, {"client-key-data": "$HOME"}, "not in base64"),
    ],
)
def test_anything_else_is_refused(cluster: t.Mapping[str, t.Any], user: t.Mapping[str, t.Any], named: str) -> None:
    with pytest.raises(Refusal) as refused:
        kubeconfig.rebuild(config({**CLUSTER, **cluster}, {**USER, **user}), "gpu-1")
    assert named in str(refused.value)
    assert "S0VZ" not in str(refused.value)


def test_a_cluster_without_an_address_is_refused() -> None:
    with pytest.raises(Refusal, match="is not https://HOST:PORT"):
        kubeconfig.rebuild(config({"certificate-authority-data": "Q0E="}), "gpu-1")


@pytest.mark.parametrize(
    "text",
    [
        *("a: [", "[]", "{}", "current-context: x\ncontexts: []", "[" * 100000, "x" * (kubeconfig._MAX_KUBECONFIG + 1)),
        config() + "\n---\n" + config(),
        "!!python/object/apply:os.system [id]",
    ],
    ids=range(8),
)
def test_what_is_not_a_kubeconfig_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match="it is not a kubeconfig"):
        kubeconfig.rebuild(text, "gpu-1")
