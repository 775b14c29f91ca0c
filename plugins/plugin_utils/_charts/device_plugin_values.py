# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Values of the device plugin's chart."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster import plugin_configs
from . import mapping, plugin_sharing, releases
from .mapping import Value, ValueInputs

CHART = "nvidia-device-plugin"
# The chart's defaults: a list in the values would replace them. The default of node feature discovery's workers only
# tolerates nvidia.com/gpu=present.
_PLUGIN_TOLERATIONS = (
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
)
_WORKER_TOLERATIONS = (
    {"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    _PLUGIN_TOLERATIONS[1],
)


# The values that are variables of the role. Those of _computed depend on more.
TABLE = (
    Value("migStrategy", "mig_strategy"),
    Value("gfd.enabled", "gfd", replaceable=True),
    Value("runtimeClassName", "runtime_class", replaceable=True),
    Value("tolerations", "tolerations", lambda given: [*_PLUGIN_TOLERATIONS, *given], replaceable=True),
)


def values(inputs: ValueInputs, release: str) -> Data:
    """The values to install: the computed ones, overridden by the user's. They are the same for every release."""
    return mapping.mapped_values(TABLE, inputs.variables, _computed(inputs))


def _computed(inputs: ValueInputs) -> Data:
    tolerations = [*_WORKER_TOLERATIONS, *inputs.variables["tolerations"]]
    # It labels the nodes that the device plugin runs on. By default, it is only enabled with GPU feature discovery.
    out: Data = {"nfd": {"enabled": True, "worker": {"tolerations": tolerations}}}
    if inputs.variables["mig_strategy"] == "mixed":
        # The capabilities that the chart gives instead do not open GPU instances with container toolkit 1.18 or later
        # (NVIDIA/nvidia-container-toolkit issue 1740), and the device plugin would exit.
        out["securityContext"] = {"privileged": True}
    if inputs.sharing:
        out["config"] = {"name": plugin_configs.CONFIG_MAP, "default": plugin_configs.DEFAULT}
    return out


def warnings(chosen: Data, daemonsets: t.Iterable[Data]) -> list[str]:
    """What the values would grant, if the cluster's device plugin does not have it yet."""
    if releases.value_at(chosen, "securityContext.privileged") is not True or any(map(_is_privileged, daemonsets)):
        return []
    return [
        "the container of the device plugin becomes privileged: it has the rights of root on the nodes, as the components of "
        "the GPU operator have. With the MIG strategy mixed, it needs them to open GPU instances"
    ]


def _is_privileged(daemonset: Data) -> bool:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or ()
    is_plugin = "device-plugin" in str(daemonset["metadata"]["name"])
    return is_plugin and any((each.get("securityContext") or {}).get("privileged") for each in containers)


def problems(inputs: ValueInputs, release: str) -> list[str]:
    """Unknown keys in the user's values, and values that contradict other variables."""
    overrides, newer = inputs.variables["values"], releases.is_newer(CHART, inputs.variables["version"])
    found = releases.value_problems(overrides, releases.keys(CHART, release), "device_plugin_values", newer)
    if found:
        return found
    result = values(inputs, release)
    found = mapping.contradictions("device_plugin", TABLE, inputs.variables)
    if inputs.sharing:
        found += plugin_sharing.overridden(result["config"], "device_plugin_values.config")
    if releases.value_at(result, "devicePlugin.enabled") is False:
        found.append("device_plugin_values.devicePlugin.enabled is false, so no node would advertise GPUs: remove it")
    return found
