# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Values of the GPU operator's chart, computed from the nodes' software and the owner of MIG."""

from __future__ import annotations

import typing as t

from . import plugin_configs, releases
from .releases import Data

CHART = "gpu-operator"
CONFIG_MAP = "gpufleet-mig-configs"
# The chart's default: a list in the values would replace it.
_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
# Of node feature discovery's workers: the chart's defaults in all releases.
_WORKER_TOLERATIONS = (
    {"key": "node-role.kubernetes.io/master", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    {"key": "node-role.kubernetes.io/control-plane", "operator": "Equal", "value": "", "effect": "NoSchedule"},
    _TOLERATION,
)
_CDI_HOOK = "/usr/bin/nvidia-cdi-hook"
# Without a default, the operator does not label unlabelled nodes. Release 25.3 renders the value without quotes, so that
# an empty one would be null, which the API replaces with all-disabled (charts 25.3.4 and 25.10.0).
_NO_DEFAULT = {"25.3": '""'}
_RKE2_SOCKET = "/run/k3s/containerd/containerd.sock"


class Settings(t.NamedTuple):
    """The inputs of the values."""

    release: str
    strategy: str
    owner: str = "host"  # of MIG: host or operator
    host_driver: bool = True
    host_toolkit: bool = True
    tolerations: t.Sequence[Data] = ()
    reboot: bool = False  # whether the MIG manager may reboot a node
    rke2: bool = False  # the nodes run RKE2 or k3s
    mig_unused: bool = False  # with the strategy none, pods get GPUs that have MIG instances
    sharing: bool = False  # whether GPUs of any node are shared
    overrides: t.Mapping[str, t.Any] = {}


def values(settings: Settings) -> Data:
    """The values to install: the computed ones, overridden by the user's."""
    return releases.merged(_computed(settings), settings.overrides)


def _computed(settings: Settings) -> Data:
    operator = settings.owner == "operator"
    default = _NO_DEFAULT.get(settings.release, "")
    out: Data = {
        "driver": {"enabled": not settings.host_driver},
        "toolkit": {"enabled": not settings.host_toolkit},
        "mig": {"strategy": settings.strategy},
        "migManager": {"enabled": operator, "config": {"default": default, "name": CONFIG_MAP if operator else ""}},
    }
    if operator:
        env = [{"name": "WITH_REBOOT", "value": "true" if settings.reboot else "false"}]
        if settings.host_toolkit:  # by default, the MIG manager searches in the operator's own toolkit
            env.append({"name": "NVIDIA_CDI_HOOK_PATH", "value": _CDI_HOOK})
        out["migManager"]["env"] = env
    if settings.tolerations:
        out["daemonsets"] = {"tolerations": [_TOLERATION, *settings.tolerations]}
        out["node-feature-discovery"] = {"worker": {"tolerations": [*_WORKER_TOLERATIONS, *settings.tolerations]}}
    if settings.mig_unused:
        # The device plugin's CDI specification has no entry for a GPU in MIG mode, so its pods could not start.
        out["cdi"] = {"enabled": False}
    if settings.sharing:
        out["devicePlugin"] = {"config": {"name": plugin_configs.CONFIG_MAP, "default": plugin_configs.DEFAULT}}
    if settings.rke2 and not settings.host_toolkit:
        out["toolkit"]["env"] = [{"name": "CONTAINERD_SOCKET", "value": _RKE2_SOCKET}]
    return out


def problems(settings: Settings) -> list[str]:
    """Unknown keys in the user's values, and values that contradict other variables."""
    found = releases.problems(settings.overrides, releases.keys(CHART, settings.release), "gpu_operator_values")
    return found or _nulls(settings.overrides) or [*_contradictions(settings), *_owners(settings)]


def _contradictions(settings: Settings) -> list[str]:
    result = values(settings)
    out = []
    strategy = releases.value(result, "mig.strategy")
    if strategy != settings.strategy:
        out.append(
            "gpu_operator_values.mig.strategy is %s, but gpu_operator_mig_strategy is %s, which layouts are checked "
            "against: set only gpu_operator_mig_strategy" % (strategy, settings.strategy)
        )
    for name, host in (("driver", settings.host_driver), ("toolkit", settings.host_toolkit)):
        enabled = releases.value(result, name + ".enabled")
        if enabled == host:
            out.append(
                "gpu_operator_values.%s.enabled is %s, but gpu_operator_%s is %s: set only gpu_operator_%s"
                % (name, str(enabled).lower(), name, "host" if host else "operator", name)
            )
    if settings.tolerations and "tolerations" in (settings.overrides.get("daemonsets") or {}):
        out.append("gpu_operator_values.daemonsets.tolerations replaces gpu_operator_tolerations: set only one of them")
    if releases.value(result, "devicePlugin.enabled") is False:
        out.append(
            "gpu_operator_values.devicePlugin.enabled is false, so no node would advertise GPUs: remove it, "
            "or use the role device_plugin instead of gpu_operator"
        )
    if settings.sharing:
        out += plugin_configs.overridden(result["devicePlugin"]["config"], "gpu_operator_values.devicePlugin.config")
    if releases.value(result, "gpuCluster.deployCR") or releases.value(result, "clusterPolicy.deployCR") is False:
        out.append(
            "gpu_operator_values selects DRA (gpuCluster.deployCR), which does not advertise device plugin resources: "
            "this role supports only clusterPolicy.deployCR"
        )
    if releases.value(result, "draDriver.featureGates.DynamicMIG"):
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


def _owners(settings: Settings) -> list[str]:
    """Values that would give MIG two owners, or let the operator apply layouts that are not in the inventory."""
    result = values(settings)
    out = []
    enabled = releases.value(result, "migManager.enabled")
    if settings.owner == "host" and enabled:
        out.append(
            "gpu_operator_values.migManager.enabled is true, but nvidia_mig_owner is host: two owners would overwrite each "
            "other's layouts. Remove it, or set nvidia_mig_owner to operator"
        )
    if settings.owner == "operator" and not enabled:
        out.append(
            "gpu_operator_values.migManager.enabled is false, but nvidia_mig_owner is operator, so nothing would apply "
            "the layouts: remove it, or set nvidia_mig_owner to host"
        )
    default = releases.value(result, "migManager.config.default")
    if enabled and default != _NO_DEFAULT.get(settings.release, ""):
        out.append(
            "gpu_operator_values.migManager.config.default is %s: the operator would label nodes with it and replace their "
            "layouts. Remove it" % (default or "empty, which becomes all-disabled in this release")
        )
    if settings.owner == "operator" and releases.value(result, "migManager.config.name") != CONFIG_MAP:
        out.append(
            "gpu_operator_values.migManager.config.name must be %s, where this role writes the layouts: remove it"
            % CONFIG_MAP
        )
    return out
