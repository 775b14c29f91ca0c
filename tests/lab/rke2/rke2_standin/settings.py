# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings: config.yaml and its drop-ins, merged as rke2 merges them."""

from __future__ import annotations

import typing as t
from pathlib import Path

import yaml  # part of the program's archive

CONFIG = Path("/etc/rancher/rke2/config.yaml")
LISTS = frozenset(["kubelet-arg", "node-ip", "node-label", "node-taint", "tls-san"])
DEFAULTS: t.Mapping[str, t.Any] = {
    "data-dir": "/var/lib/rancher/rke2",
    "node-name": "",
    "server": "",
    "token": "",
    "write-kubeconfig-mode": "0600",
    **{name: [] for name in LISTS},
}
SERVER_ONLY = frozenset(["tls-san", "write-kubeconfig-mode"])
Values = t.Dict[str, t.Any]


class SettingsError(Exception):
    """A setting with which rke2 does not start."""


def merged(documents: t.Iterable[t.Mapping[str, t.Any]]) -> Values:
    """Later documents replace values of earlier ones; a key that ends with + appends."""
    values: Values = {}
    for document in documents:
        for key, value in document.items():
            name = str(key).rstrip("+")
            former = values.get(name, []) if str(key).endswith("+") else []
            values[name] = items(former) + items(value) if former or name in LISTS else value
    return values


def items(value: t.Any) -> t.List[str]:
    return [str(each) for each in value] if isinstance(value, list) else [] if value is None else [str(value)]


def files(config: Path) -> t.List[Path]:
    """config.yaml and its drop-ins, in the order in which they are read."""
    folder = Path(str(config) + ".d")
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    drop_ins = [path for path in found if path.is_file() and path.name.lower().endswith((".yaml", ".yml"))]
    return [*([config] if config.exists() else []), *drop_ins]


def read(path: Path) -> t.Mapping[str, t.Any]:
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as problem:
        raise SettingsError("yaml: %s" % problem) from problem
    if not isinstance(content, dict):
        raise SettingsError("yaml: unmarshal errors:\n  line 1: cannot unmarshal into yaml.MapSlice")
    return content


def load(role: str, config: Path = CONFIG) -> t.Tuple[Values, t.List[str]]:
    """The settings, and the keys that are skipped with a warning: rke2 skips unknown ones, and the stand-in others too."""
    values = merged(read(path) for path in files(config))
    known = {name: value for name, value in values.items() if name in DEFAULTS}
    skipped = [name for name in values if name not in DEFAULTS or (role == "agent" and name in SERVER_ONLY)]
    return {**DEFAULTS, **known}, skipped


def validate(role: str, values: Values) -> None:
    """Reject what rke2 rejects before it changes anything, and a server that joins another one."""
    if role == "agent":
        for name in ("token", "server"):
            if not values[name]:
                raise SettingsError("--%s is required" % name)
        if not values["server"].startswith("https://"):
            raise SettingsError("only https:// URLs are supported, invalid scheme: %s" % values["server"])
    elif values["server"]:
        raise SettingsError("the stand-in of the lab supports clusters with one server only")
