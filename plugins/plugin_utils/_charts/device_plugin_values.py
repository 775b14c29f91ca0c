# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Values of the device plugin's chart."""

from __future__ import annotations

import typing as t

from . import plugin_configs, releases
from .releases import Data

CHART = "nvidia-device-plugin"
# The chart's defaults: a list in the values would replace them. The default of node feature discovery's workers only
# tolerates nvidia.com/gpu=present.
_TOLERATIONS = (
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
)
_WORKER_TOLERATIONS = (
    {"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    _TOLERATIONS[1],
)


class Settings(t.NamedTuple):
    """The inputs of the values."""

    release: str
    strategy: str
    gfd: bool = True
    runtime_class: str = "nvidia"
    tolerations: t.Sequence[Data] = ()
    sharing: bool = False  # whether GPUs of any node are shared
    overrides: t.Mapping[str, t.Any] = {}


def values(settings: Settings) -> Data:
    """The values to install: the computed ones, overridden by the user's."""
    out: Data = {"migStrategy": settings.strategy, "gfd": {"enabled": settings.gfd}}
    if settings.runtime_class:
        out["runtimeClassName"] = settings.runtime_class
    if settings.tolerations:
        out["tolerations"] = [*_TOLERATIONS, *settings.tolerations]
    # It labels the nodes that the device plugin runs on. By default, it is only enabled with GPU feature discovery.
    out["nfd"] = {"enabled": True, "worker": {"tolerations": [*_WORKER_TOLERATIONS, *settings.tolerations]}}
    if settings.strategy == "mixed":
        # The capabilities that the chart gives instead do not open GPU instances with container toolkit 1.18 or later
        # (NVIDIA/nvidia-container-toolkit issue 1740), and the device plugin would exit.
        out["securityContext"] = {"privileged": True}
    if settings.sharing:
        out["config"] = {"name": plugin_configs.CONFIG_MAP, "default": plugin_configs.DEFAULT}
    return releases.merged(out, settings.overrides)


def warnings(chosen: Data, daemonsets: t.Iterable[Data]) -> list[str]:
    """What the values would grant, if the cluster's device plugin does not have it yet."""
    if releases.value(chosen, "securityContext.privileged") is not True or any(map(_is_privileged, daemonsets)):
        return []
    return [
        "the container of the device plugin becomes privileged: it has the rights of root on the nodes, as the components of "
        "the GPU operator have. With the MIG strategy mixed, it needs them to open GPU instances"
    ]


def _is_privileged(daemonset: Data) -> bool:
    containers = daemonset["spec"]["template"]["spec"].get("containers") or ()
    is_plugin = "device-plugin" in str(daemonset["metadata"]["name"])
    return is_plugin and any((each.get("securityContext") or {}).get("privileged") for each in containers)


def problems(settings: Settings) -> list[str]:
    """Unknown keys in the user's values, and values that contradict other variables."""
    found = releases.problems(settings.overrides, releases.keys(CHART, settings.release), "device_plugin_values")
    if found:
        return found
    result = values(settings)
    if result["migStrategy"] != settings.strategy:
        found.append(
            "device_plugin_values.migStrategy is %s, but device_plugin_mig_strategy is %s, which layouts are checked "
            "against: set only device_plugin_mig_strategy" % (result["migStrategy"], settings.strategy)
        )
    if settings.sharing:
        found += plugin_configs.overridden(result["config"], "device_plugin_values.config")
    if releases.value(result, "devicePlugin.enabled") is False:
        found.append("device_plugin_values.devicePlugin.enabled is false, so no node would advertise GPUs: remove it")
    return found
