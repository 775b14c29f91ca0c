# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Validate the configuration of RKE2, since RKE2 itself ignores unknown keys."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._common.text import did_you_mean, nearest
from . import version as rke2_version

_KEYS = Path(__file__).with_name("config_keys.yml")
# https://docs.rke2.io/networking/basic_network_options
_CNIS = ("canal", "calico", "cilium", "flannel", "multus", "none")
_PROFILES = ("", "cis", "etcd")  # since 1.30, those with a version are refused (rancher/rke2 issue 5780)

Config = t.Mapping[str, t.Any]


@functools.cache
def _table() -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml_load(_KEYS.read_text(encoding="utf-8")))


def key_problems(config: Config, version: str) -> list[str]:
    """Unknown keys, and keys that a variable of the role sets."""
    table = _table()
    known = [*table["all"], *table["server"]]
    found = []
    for key in config:
        name = str(key).removesuffix("+")  # key+ appends to the list of another file
        if name in table["variables"]:
            found.append("rke2_config sets %s: %s" % (name, table["variables"][name]))
        elif name in table["k3s"]:
            found.append("rke2_config has the key %s, which k3s has, and RKE2 does not. Remove it" % name)
        elif name not in known:
            near = nearest(name.replace("_", "-"), known)
            if near:
                found.append("rke2_config has the unknown key %s%s" % (name, did_you_mean(near)))
            elif not _is_newer(version):
                found.append("rke2_config has the unknown key %s. Remove it" % name)
    return found


def key_notices(config: Config, version: str) -> list[str]:
    """Keys that may belong to a version newer than the list of keys."""
    if not _is_newer(version):
        return []
    known = [*_table()["all"], *_table()["server"], *_table()["variables"]]
    names = [str(key).removesuffix("+") for key in config]
    return [
        "rke2_config has the key %s, which RKE2 v%s does not support" % (name, _table()["newest"])
        for name in names
        if name not in known and not nearest(name.replace("_", "-"), known)
    ]


def _is_newer(version: str) -> bool:
    """Whether the version is newer than the list of keys."""
    desired = rke2_version.parse(version)
    major, minor = str(_table()["newest"]).split(".")
    return desired is not None and desired.series > (int(major), int(minor))


def value_problems(config: Config) -> list[str]:
    """Values that RKE2 cannot read: only strings, numbers, booleans and lists of these are valid."""
    found = []
    for key, value in config.items():
        values = _as_list(value)
        if str(key).removesuffix("+") == "write-kubeconfig-mode" and not isinstance(value, str):
            found.append('rke2_config sets write-kubeconfig-mode to a number: quote it, as in "0640"')
        elif not all(isinstance(each, (str, int, float)) for each in values):
            found.append("rke2_config, key %s: give a string, a number, a boolean, or a list of these" % key)
        elif not all(each.isprintable() for each in values if isinstance(each, str)):
            found.append("rke2_config, key %s: remove the control characters" % key)
        elif str(key) == "cni":
            unknown = [name for name in network_plugins(config) if name not in _CNIS]
            if unknown:
                found.append("rke2_config, key cni: unknown plugin %s. Use %s" % (unknown[0], ", ".join(_CNIS)))
        elif str(key) == "profile" and value not in _PROFILES:
            found.append("rke2_config, key profile: RKE2 does not start with %s. Use cis or etcd" % value)
    return found


def config_for_type(config: Config, kind: str) -> dict[str, t.Any]:
    """The keys that a server or an agent supports. Servers and agents may share one configuration."""
    ours = {str(key): value for key, value in config.items()}
    if kind == "server":
        return ours
    return {key: value for key, value in ours.items() if key.removesuffix("+") not in _table()["server"]}


def secret_keys(config: Config) -> list[str]:
    """The keys whose values must not be shown, sorted."""
    return sorted(str(key) for key in config if str(key).removesuffix("+") in _table()["secret"])


def texts(config: Config, key: str) -> list[str]:
    """The values of a key, including those that are appended to another file's."""
    return [str(each) for name in (key, key + "+") for each in _as_list(config.get(name, ()))]


def network_plugins(config: Config) -> list[str]:
    return names({"cni": "canal", **config}, "cni")


def names(config: Config, key: str) -> list[str]:
    """The values of a key that may also be one text with commas."""
    return [name.strip() for each in _as_list(config.get(key, ())) for name in str(each).split(",")]


def _as_list(value: t.Any) -> t.Sequence[t.Any]:
    return value if isinstance(value, (list, tuple)) else [value]
