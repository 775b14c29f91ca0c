# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A kubeconfig as a server has it."""

from __future__ import annotations

import typing as t

import yaml

CLUSTER = {"certificate-authority-data": "Q0E=", "server": "https://127.0.0.1:6443"}
USER = {"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}


def config(cluster: t.Mapping[str, t.Any] = CLUSTER, user: t.Mapping[str, t.Any] = USER, name: str = "default") -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "other", "cluster": {}}, {"name": name, "cluster": dict(cluster)}],
        "contexts": [{"name": "admin@" + name, "context": {"cluster": name, "user": "admin", "namespace": "x"}}],
        "current-context": "admin@" + name,
        "preferences": {},
        "users": [{"name": "admin", "user": dict(user)}],
    }
    return yaml.safe_dump(document)
