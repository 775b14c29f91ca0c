# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file with which the role configures RKE2."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._rke2.rke2_support import (
    Data,
    planned,
    refused,
)


def test_an_even_number_of_servers() -> None:
    groups = {"masters": ["s1", "s2"]}
    assert "the group masters has 2 servers: etcd needs an odd number" in refused("s1", groups=groups)
    assert planned("s1", groups=groups, config={"datastore-endpoint": "x"})["secret_keys"] == ["datastore-endpoint"]


def test_the_configuration() -> None:
    settings: Data = {
        "api_ip": "192.0.2.100", "additional_sans": ["k8s.example.com"], "node_labels": ["gpu=a100"],
        "server_node_taints": ["a=b:NoExecute"], "agent_node_taints": ["nvidia.com/gpu:NoSchedule"], "node_name": "n",
        "data_path": "/data", "config": {"cni": "cilium", "agent-token": "secret", "kubelet-arg": ["max-pods=200"]},
    }  # fmt: skip
    assert planned("s1", **settings)["config"] == {
        "data-dir": "/data", "node-name": "n", "node-label": ["gpu=a100"], "node-taint": ["a=b:NoExecute"],
        "tls-san": ["192.0.2.100", "k8s.example.com"], "cni": "cilium", "kubelet-arg": ["max-pods=200"],
    }  # fmt: skip
    assert planned("a1", **settings)["config"] == {
        "data-dir": "/data", "node-name": "n", "server": "https://192.0.2.100:9345", "node-label": ["gpu=a100"],
        "node-taint": ["nvidia.com/gpu:NoSchedule"], "kubelet-arg": ["max-pods=200"],
    }  # fmt: skip
    assert planned("s1", **settings)["secret_keys"] == ["agent-token"]
    assert planned("a1", **settings)["labels"] == ["gpu=a100"]
    assert planned("a1", config={"node-taint+": ["a:NoExecute"]})["taints"] == ["a:NoExecute"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"config": {"kublet-arg": []}}, "did you mean kubelet-arg?"),
        ({"config": {"node-taint": ["x"]}}, "rke2_config, key node-taint has 'x'"),
        ({"config": {"node-taint+": ["x"]}}, "rke2_config, key node-taint has 'x'"),
        ({"config": {"node-label": "x"}}, "rke2_config, key node-label has 'x'"),
        ({"agent_node_taints": ["x"]}, "rke2_agent_node_taints has 'x'"),
        ({"node_labels": ["a=b"], "config": {"node-label": ["c=d"]}}, "rke2_config sets node-label, and so does"),
        (
            {"environment_options": ["A=b", "http://user:secret@proxy"]},
            "rke2_environment_options, entry 2: give NAME=value",
        ),
        ({"api_ip": "https://192.0.2.1:9345"}, "rke2_api_ip is https://192.0.2.1:9345: give an address or a name"),
    ],
)
def test_settings_that_are_refused(settings: Data, words: str) -> None:
    assert words in refused("a1", **settings)
