# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Values of the GPU operator's chart, computed from the nodes' software and the owner of MIG."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import mig_configs, plugin_configs
from . import mapping, plugin_sharing, releases
from .mapping import Value, ValueInputs

CHART = "gpu-operator"
# The chart's default: a list in the values would replace it.
_GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
# Of node feature discovery's workers: the chart's defaults in all releases.
_WORKER_TOLERATIONS = (
    {"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    _GPU_TOLERATION,
)
_CDI_HOOK = "/usr/bin/nvidia-cdi-hook"
# Without a default, the operator does not label unlabelled nodes. Release 25.3 renders the value without quotes, so that
# an empty one would be null, which the API replaces with all-disabled (charts 25.3.4 and 25.10.0).
_NO_DEFAULT = {"25.3": '""'}
_RKE2_SOCKET = "/run/k3s/containerd/containerd.sock"


def _is_operator(installer: str) -> bool:
    return installer == "operator"


# The values that are variables of the role. Those of _computed depend on more.
TABLE = (
    Value("mig.strategy", "mig_strategy"),
    Value("driver.enabled", "driver", _is_operator),
    Value("toolkit.enabled", "toolkit", _is_operator),
    Value("daemonsets.tolerations", "tolerations", lambda given: [_GPU_TOLERATION, *given]),
    Value(
        "node-feature-discovery.worker.tolerations",
        "tolerations",
        lambda given: [*_WORKER_TOLERATIONS, *given],
        replaceable=True,
    ),
)


def values(inputs: ValueInputs, release: str) -> Data:
    """The values to install: the computed ones, overridden by the user's."""
    return mapping.mapped_values(TABLE, inputs.variables, _computed(inputs, release))


def _computed(inputs: ValueInputs, release: str) -> Data:
    operator = inputs.owner == "operator"
    host_toolkit = inputs.variables["toolkit"] == "host"
    default = _NO_DEFAULT.get(release, "")
    out: Data = {
        "migManager": {
            "enabled": operator,
            "config": {"default": default, "name": mig_configs.CONFIG_MAP if operator else ""},
        }
    }
    if operator:
        env = [{"name": "WITH_REBOOT", "value": "true" if inputs.reboot else "false"}]
        if host_toolkit:  # by default, the MIG manager searches in the operator's own toolkit
            env.append({"name": "NVIDIA_CDI_HOOK_PATH", "value": _CDI_HOOK})
        out["migManager"]["env"] = env
    if inputs.mig_unused:
        # The device plugin's CDI specification has no entry for a GPU in MIG mode, so its pods could not start.
        out["cdi"] = {"enabled": False}
    if inputs.sharing:
        out["devicePlugin"] = {"config": {"name": plugin_configs.CONFIG_MAP, "default": plugin_configs.DEFAULT}}
    if inputs.rke2 and not host_toolkit:
        out["toolkit"] = {"env": [{"name": "CONTAINERD_SOCKET", "value": _RKE2_SOCKET}]}
    return out


def problems(inputs: ValueInputs, release: str) -> list[str]:
    """Unknown keys in the user's values, and values that contradict other variables."""
    overrides = inputs.variables["values"]
    newer = releases.is_newer(CHART, inputs.variables["version"])
    found = releases.value_problems(overrides, releases.keys(CHART, release), "gpu_operator_values", newer)
    return found or _nulls(overrides) or [*_contradictions(inputs, release), *_owners(inputs, release)]


def _contradictions(inputs: ValueInputs, release: str) -> list[str]:
    result = values(inputs, release)
    out = mapping.contradictions("gpu_operator", TABLE, inputs.variables)
    if releases.value_at(result, "devicePlugin.enabled") is False:
        out.append(
            "gpu_operator_values.devicePlugin.enabled is false, so no node would advertise GPUs: remove it, "
            "or use the role device_plugin instead of gpu_operator"
        )
    if inputs.sharing:
        out += plugin_sharing.overridden(result["devicePlugin"]["config"], "gpu_operator_values.devicePlugin.config")
    if releases.value_at(result, "gpuCluster.deployCR") or releases.value_at(result, "clusterPolicy.deployCR") is False:
        out.append(
            "gpu_operator_values selects DRA (gpuCluster.deployCR), which does not advertise device plugin resources: "
            "this role supports only clusterPolicy.deployCR"
        )
    if releases.value_at(result, "draDriver.featureGates.DynamicMIG"):
        out.append(
            "gpu_operator_values.draDriver.featureGates.DynamicMIG destroys MIG instances that it did not create: "
            "remove it"
        )
    return out


def _nulls(overrides: t.Mapping[str, t.Any]) -> list[str]:
    """Null would remove a value that this role checks, and the operator's own default would apply."""
    out = []
    for name in ("mig", "driver", "toolkit", "devicePlugin", "migManager"):
        section = overrides.get(name, {})
        paths = [name] if section is None else [name + "." + key for key, value in section.items() if value is None]
        out += ["gpu_operator_values.%s is null: remove it, or give a value" % path for path in paths]
    return out


def _owners(inputs: ValueInputs, release: str) -> list[str]:
    """Values that would give MIG two owners, or let the operator apply layouts that are not in the inventory."""
    result = values(inputs, release)
    out = []
    enabled = releases.value_at(result, "migManager.enabled")
    if inputs.owner == "host" and enabled:
        out.append(
            "gpu_operator_values.migManager.enabled is true, but nvidia_mig_owner is host: two owners would overwrite each "
            "other's layouts. Remove it, or set nvidia_mig_owner to operator"
        )
    if inputs.owner == "operator" and not enabled:
        out.append(
            "gpu_operator_values.migManager.enabled is false, but nvidia_mig_owner is operator, so nothing would apply "
            "the layouts: remove it, or set nvidia_mig_owner to host"
        )
    default = releases.value_at(result, "migManager.config.default")
    if enabled and default != _NO_DEFAULT.get(release, ""):
        out.append(
            "gpu_operator_values.migManager.config.default is %s: the operator would label nodes with it and replace their "
            "layouts. Remove it" % (default or "empty, which becomes all-disabled in this release")
        )
    if inputs.owner == "operator" and releases.value_at(result, "migManager.config.name") != mig_configs.CONFIG_MAP:
        out.append(
            "gpu_operator_values.migManager.config.name must be %s, where this role writes the layouts: remove it"
            % mig_configs.CONFIG_MAP
        )
    return out
