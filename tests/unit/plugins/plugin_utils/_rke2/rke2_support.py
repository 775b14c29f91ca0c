# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes and settings for the tests of the plans of RKE2."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import plan as rke2_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2.membership import NodeFacts

ROLE = Path(__file__).resolve().parents[5] / "roles" / "rke2"
DEFAULTS = {
    name.removeprefix("rke2_"): value
    for name, value in yaml.safe_load((ROLE / "defaults" / "main.yml").read_text()).items()
}
VERSION = DEFAULTS["version"]
GROUPS = {"masters": ["s1", "s2", "s3"], "workers": ["a1", "a2"]}
HOSTS = [*GROUPS["masters"], *GROUPS["workers"]]
ADDRESSES = {host: "192.0.2.%d" % number for number, host in enumerate(HOSTS, 1)}
Data = t.Dict[str, t.Any]
ROCKY: Data = {"distribution": "Rocky 9.6", "enterprise_linux": "9"}
RPM: Data = {"install_method": "rpm", **ROCKY}


def state(**other: t.Any) -> Data:
    """A node without Kubernetes."""
    return {
        "recorded": {}, "version": None, "active": "", "has_cluster": False, "foreign": [], "problems": [],
        "archive_problems": [], **other,
    }  # fmt: skip


def installed(kind: str, version: str = VERSION, **record: t.Any) -> Data:
    recorded = {
        "type": kind, "data_path": DEFAULTS["data_path"], "version": version, "images": [],
        "server_url": "https://192.0.2.1:9345", **record,
    }  # fmt: skip
    return state(recorded=recorded, version=version, active=kind, has_cluster=kind == "server")


def make(name: str, states: t.Optional[t.Mapping[str, Data]] = None, **other: t.Any) -> rke2_plan.Outcome:
    node: Data = {
        "name": name, "names": [name], "hostname": name, "architecture": "x86_64", "distribution": "Debian 12.11", "enterprise_linux": "", "groups": GROUPS,
        "play_hosts": HOSTS, "addresses": ADDRESSES,
        "states": {host: state() for host in (GROUPS["masters"] if name in GROUPS["masters"] else [name])},
    }  # fmt: skip
    node["states"].update(states or {})
    node.update({key: other.pop(key) for key in list(other) if key in node})
    return rke2_plan.plan_node({**DEFAULTS, **other}, NodeFacts(**node))


def planned(name: str, *positional: t.Any, **other: t.Any) -> Data:
    found = make(name, *positional, **other)
    assert found.problems == []
    return found.plan


def refused(name: str, *positional: t.Any, **other: t.Any) -> str:
    found = make(name, *positional, **other)
    assert found.plan == {}
    (problem,) = found.problems
    return problem
