# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons why RKE2 does not start, from lines of its log."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import log as rke2_log

# Lines of real logs, from issues of rancher/rke2 and k3s-io/k3s.
LINES = [
    (
        'level=error msg="Failed to validate connection to cluster at https://192.0.2.1:9345: token CA hash does not match '
        'the Cluster CA certificate hash: 1f52 != f3af"',
        "the token belongs to another cluster",
        True,
    ),
    (
        'level=fatal msg="starting kubernetes: preparing server: bootstrap data already found and encrypted with different '
        'token"',
        "the token differs from the one that the cluster has",
        True,
    ),
    (
        'level=fatal msg="starting kubernetes: preparing server: failed to validate server configuration: '
        'https://192.0.2.1:9345/v1-rke2/config: 401 Unauthorized"',
        "the server rejects the token",
        True,
    ),
    (
        'level=info msg="Waiting to retrieve agent configuration; server is not ready: failed to retrieve configuration '
        'from server: not authorized"',
        "the server rejects the token",
        True,
    ),
    (
        "level=info msg=\"Waiting to retrieve agent configuration; server is not ready: Node password rejected, duplicate "
        "hostname or contents of '/etc/rancher/node/password' may not match server node-passwd entry\"",
        "the cluster has a node of this name with another password",
        True,
    ),
    (
        'level=error msg="Failed to validate connection to cluster at https://192.0.2.1:9345: failed to get CA certs: Get '
        '\\"https://192.0.2.1:9345/cacerts\\": dial tcp 192.0.2.1:9345: connect: connection refused"',
        "192.0.2.1:9345 does not respond (connection refused). If it is the server to join",
        False,
    ),
    (
        'level=fatal msg="Error: preparing server: failed to bootstrap cluster data: failed to check if bootstrap data has '
        'been initialized: failed to validate token: failed to get CA certs: Get "https://192.0.2.1:9345/cacerts": dial '
        'tcp 192.0.2.1:9345: i/o timeout"',
        "192.0.2.1:9345 does not respond (i/o timeout)",
        False,
    ),
    ('level=error msg="containerd exited: exit status 1"', "containerd exits", True),
    (
        'level=error msg="failed to get CA certs: Get \\"https://127.0.0.1:6444/cacerts\\": read tcp 127.0.0.1:34892->'
        '127.0.0.1:6444: read: connection reset by peer"',
        "the server to join does not respond",
        False,
    ),
    (
        'level=fatal msg="Error: failed to validate server configuration: critical configuration value mismatch between '
        'servers: ClusterDNS"',
        "keys that must be equal on all servers differ",
        True,
    ),
    (
        'level=fatal msg="Error: failed to get runtime image index.docker.io/rancher/rke2-runtime:v1.35.7-rke2r1: Get '
        '\\"https://index.docker.io/v2/\\": dial tcp: lookup index.docker.io: no such host"',
        "the name index.docker.io cannot be resolved. Images come from a registry unless rke2_airgap_mode",
        False,
    ),
    (
        'level=fatal msg="Error: failed to setup containerd config: default runtime nvidia was not found"',
        "containerd has no runtime nvidia, which default-runtime",
        True,
    ),
    (
        "containerd: failed to load TOML: /var/lib/rancher/rke2/agent/etc/containerd/config.toml: toml: table nvidia already "
        "exists",
        "the containerd configuration has duplicate tables. Remove those that RKE2 defines too from the template or drop-in",
        True,
    ),
    (
        "containerd: failed to load TOML: /var/lib/rancher/rke2/agent/etc/containerd/config.toml: toml: expected = after a key",
        "the containerd configuration is not valid. Correct the template or drop-in in agent/etc/containerd",
        True,
    ),
    (
        'level=fatal msg="Error: template: compiled_template:3: unexpected EOF"',
        "the containerd configuration is not valid",
        True,
    ),
    (
        "kubelet: \"command failed\" err=\"failed to validate kubelet flags: unknown 'kubernetes.io' or 'k8s.io' labels "
        'specified with --node-labels: [node-role.kubernetes.io/gpu]"',
        "the kubelet must not set this reserved Kubernetes label",
        True,
    ),
    (
        'level=fatal msg="Invalid value weave for --cni flag: must be one of calico,canal,cilium"',
        "the value of cni is invalid",
        True,
    ),
    ('level=fatal msg="flag provided but not defined: -foo"', "RKE2 has no option foo", True),
    ('level=fatal msg="missing required: user: unknown user etcd"', "the node does not meet the CIS profile", True),
]  # fmt: skip


@pytest.mark.parametrize(("line", "meaning", "lasting"), LINES, ids=range(len(LINES)))
def test_known_causes(line: str, meaning: str, lasting: bool) -> None:
    found = rke2_log.explain(["level=info msg=before", line, "level=info msg=after"])
    assert found is not None
    assert found.meaning.startswith(meaning), found
    assert found.lasting is lasting


def test_the_last_cause_is_explained() -> None:
    found = rke2_log.explain([LINES[5][0], LINES[0][0]])
    assert found is not None and found.meaning.startswith("the token belongs to another cluster")


def test_what_is_normal_is_no_cause() -> None:
    """RKE2 logs these while it starts."""
    lines = [
        'level=info msg="Waiting for API server to become available"',
        'level=error msg="Get \\"https://127.0.0.1:6443/readyz\\": dial tcp 127.0.0.1:6443: connect: connection refused"',
        'level=info msg="Waiting to retrieve kube-proxy configuration; server is not ready: '
        'https://127.0.0.1:9345/v1-rke2/readyz: 500 Internal Server Error"',
    ]
    assert rke2_log.explain(lines) is None
    assert rke2_log.tail(lines) == [lines[1]]
    assert rke2_log.tail(lines[:1]) == [lines[0]]
    assert rke2_log.tail([]) == []


def test_ignored_keys() -> None:
    lines = ['level=warning msg="Unknown flag --%s found in config.yaml, skipping\\n"' % key for key in ("b", "a", "b")]
    assert rke2_log.ignored_keys([*lines, "something else"]) == ["a", "b"]


def test_tokens_are_not_shown() -> None:
    secret = "K10" + "a" * 64 + "::server:0123456789abcdef"
    assert rke2_log.shown("joining with %s now" % secret) == "joining with TOKEN now"
    assert rke2_log.shown('msg="x" token=swordfish') == 'msg="x" token=TOKEN'
    assert len(rke2_log.shown("x" * 1000)) == 300
