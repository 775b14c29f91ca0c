# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Versions, configuration keys, taints and labels of RKE2."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import config as rke2_config
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import version

VERSION = "v1.35.7+rke2r1"


def test_versions_sort_by_their_release() -> None:
    ordered = ["v1.34.10+rke2r2", "v1.35.7-rc1+rke2r1", "v1.35.7-rc2+rke2r1", "v1.35.7+rke2r1", "v1.35.7+rke2r2"]
    assert sorted(reversed(ordered), key=version.parse) == ordered  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["stable", "1.35.7", "v1.35", "v1.35.7", "v1.35.7+k3s1", "v1.35.7+rke2r1 ", "v\uff11.35.7+rke2r1", ""]
)
def test_what_is_no_version(text: str) -> None:
    (problem,) = version.version_problems(text, None)
    assert problem == "rke2_version is %r: give an exact version, such as v1.35.7+rke2r1" % text


@pytest.mark.parametrize(
    ("desired", "installed", "words"),
    [
        (VERSION, None, ""),
        (VERSION, VERSION, ""),
        (VERSION, "v1.35.3+rke2r1", ""),
        (VERSION, "v1.34.10+rke2r1", ""),
        (VERSION, "v1.33.13+rke2r1", "must not skip a minor version: upgrade to v1.34 first"),
        (VERSION, "v1.35.7+rke2r2", "RKE2 cannot be downgraded: set rke2_version to v1.35.7+rke2r2 or later"),
        (VERSION, "v1.36.1+rke2r1", "RKE2 cannot be downgraded"),
        (VERSION, "v2.0.0+rke2r1", "RKE2 cannot be downgraded"),
        ("v2.0.0+rke2r1", VERSION, "must not skip a minor version"),
        ("v1.30.1+rke2r1", None, "but the oldest supported version is v1.31"),
        (VERSION, "dev", "reports the version 'dev', which cannot be compared"),
    ],
)
def test_upgrades(desired: str, installed: str | None, words: str) -> None:
    found = version.version_problems(desired, installed)
    assert bool(found) == bool(words)
    assert not words or words in found[0]


def test_known_keys() -> None:
    config = {"cni": "multus,cilium", "kubelet-arg+": ["max-pods=9"], "write-kubeconfig-mode": "0640", "selinux": True}
    assert rke2_config.key_problems(config, VERSION) + rke2_config.value_problems(config) == []


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("kublet-arg", "unknown key kublet-arg (did you mean kubelet-arg?)"),
        ("kubelet_arg", "did you mean kubelet-arg?"),
        ("quantum-plane+", "rke2_config has the unknown key quantum-plane. Remove it"),
        ("cluster-init", "rke2_config has the key cluster-init, which k3s has, and RKE2 does not"),
        ("no-deploy", "rke2_config has the key no-deploy, which k3s has, and RKE2 does not"),
        ("cluster-name", "rke2_config sets cluster-name: RKE2 and k3s ignore it, because clusters have no name"),
        ("token", "rke2_config sets token: use rke2_token"),
        ("cluster-reset", "it is not a permanent setting"),
    ],
)
def test_keys_that_are_refused(key: str, words: str) -> None:
    (problem,) = rke2_config.key_problems({key: "x"}, VERSION)
    assert words in problem


def test_keys_of_a_version_that_is_newer_than_the_list() -> None:
    """Misspelled keys are rejected there too; other unknown keys cause a notice."""
    config = {"quantum-plane": True, "kublet-arg": []}
    assert len(rke2_config.key_problems(config, "v1.36.4+rke2r1")) == 2
    assert rke2_config.key_notices(config, "v1.36.4+rke2r1") == []
    assert len(rke2_config.key_problems(config, "v1.37.0+rke2r1")) == 1
    assert rke2_config.key_notices(config, "v1.37.0+rke2r1") == [
        "rke2_config has the key quantum-plane, which RKE2 v1.36 does not support"
    ]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"write-kubeconfig-mode": 416}, 'to a number: quote it, as in "0640"'),
        ({"cni": {"name": "canal"}}, "key cni: give a string, a number"),
        ({"cni": None}, "key cni: give a string, a number"),
        ({"tls-san": ["a", ["b"]]}, "key tls-san: give a string, a number"),
        ({"cni": "canal\ntoken: x"}, "key cni: remove the control characters"),
        ({"profile": "cis-1.23"}, "key profile: RKE2 does not start with cis-1.23. Use cis or etcd"),
        ({"cni": ["multus", "calicoo"]}, "key cni: unknown plugin calicoo. Use canal, calico"),
    ],
)
def test_values_that_are_refused(config: dict[str, t.Any], words: str) -> None:
    (problem,) = rke2_config.value_problems(config)
    assert words in problem


def test_agents_get_no_keys_of_servers() -> None:
    config = {"cni": "cilium", "tls-san+": ["a"], "kubelet-arg": ["max-pods=200"]}
    assert rke2_config.config_for_type(config, "server") == config
    assert rke2_config.config_for_type(config, "agent") == {"kubelet-arg": ["max-pods=200"]}


def test_secret_keys() -> None:
    assert rke2_config.secret_keys({"cni": "", "etcd-s3-secret-key": "", "agent-token": ""}) == [
        "agent-token",
        "etcd-s3-secret-key",
    ]
