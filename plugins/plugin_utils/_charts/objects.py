# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The objects that a role writes to the cluster, whether the cluster has them, and the label of those that it created."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import mig_configs, plugin_configs
from .._cluster.nodes import labels_of
from .._layout import sharing
from .inputs import Cluster, Installation

OWN = {"app.kubernetes.io/managed-by": "gpufleet.node"}
_PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}

# Of a ConfigMap, where null removes a key; None if it is not needed.
ConfigData = t.Optional[t.Mapping[str, t.Optional[str]]]


class Object(t.NamedTuple):
    """An object to write."""

    definition: Data
    variables: str  # that set it
    is_current: bool
    in_check_mode: bool = True  # false if the namespace of the object does not exist: check mode does not create it

    def __str__(self) -> str:
        return "%s %s (%s)" % (self.definition["kind"], self.definition["metadata"]["name"], self.variables)


def is_ours(item: Data) -> bool:
    """Whether a role has created an object."""
    return OWN.items() <= labels_of(item).items()


def has_object(existing: Data, desired: Data) -> bool:
    """Whether an object exists and has all the desired values. Keys that the API or someone else has added are ignored.

    Unlike a comparison with dryRun, this needs no permission to write.
    """
    return any(_includes(item, desired) for item in existing["resources"])


def _includes(item: t.Any, desired: object) -> bool:
    if isinstance(desired, dict) and isinstance(item or {}, dict):
        return all(_includes((item or {}).get(key), value) for key, value in desired.items())
    return bool(item == desired)


def objects_to_write(
    installation: Installation, cluster: Cluster, mig_data: ConfigData, sharing_data: ConfigData
) -> list[Object]:
    """The namespace, the RuntimeClass, and the configurations of the MIG manager and of the device plugin."""
    namespace_exists = bool(cluster.namespace["resources"])
    maps = (
        (mig_configs.CONFIG_MAP, "nvidia_mig_layout", mig_data, cluster.config_map),
        (plugin_configs.CONFIG_MAP, sharing.VARIABLE, sharing_data, cluster.plugin_config_map),
    )
    configurations = [
        _object(_config_map(installation, name, data, existing), variable, existing, namespace_exists)
        for name, variable, data, existing in maps
        if data is not None
    ]
    privileged = "%s_namespace_privileged" % installation.chart.role
    return [
        _object(_namespace(installation, namespace_exists), privileged, cluster.namespace),
        *_runtime_class(installation, cluster.runtime_class),
        *configurations,
    ]


def _object(definition: Data, variable: str, existing: Data, in_check_mode: bool = True) -> Object:
    content = {key: value for key, value in definition.items() if key not in ("apiVersion", "kind")}
    return Object(definition, variable, has_object(existing, content), in_check_mode)


def _namespace(installation: Installation, exists: bool) -> Data:
    """A namespace that exists keeps its owner."""
    privileged = _PRIVILEGED if installation.variables["namespace_privileged"] else {}
    labels = {**({} if exists else OWN), **privileged}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": installation.variables["namespace"], "labels": labels},
    }


def _runtime_class(installation: Installation, existing: Data) -> list[Object]:
    """None if another owner, such as RKE2 or the GPU operator, has created it."""
    name = str(installation.variables.get("runtime_class", ""))
    if not name or not all(map(is_ours, existing["resources"])):
        return []
    definition = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": name, "labels": OWN},
        "handler": name,
    }
    return [_object(definition, "%s_runtime_class" % installation.chart.role, existing)]


def _config_map(installation: Installation, name: str, data: t.Mapping[str, str | None], existing: Data) -> Data:
    """The API rejects it if another run has changed it in the meantime."""
    version = next((item["metadata"].get("resourceVersion") for item in existing.get("resources") or ()), None)
    metadata = {"name": name, "namespace": installation.variables["namespace"], "labels": OWN}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "resourceVersion": version or ""},
        "data": data,
    }
