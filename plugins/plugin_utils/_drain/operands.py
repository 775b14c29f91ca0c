# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Components of the GPU operator, and the device plugin, on a node: which are paused, restarted and ready again."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig.errors import MigError
from .._cluster import mig_configs, plugin_configs, readiness
from .._cluster import nodes as cluster_nodes
from .._cluster.labels import DEPLOY, PAUSED, PRODUCT, STRATEGY, is_paused
from .._cluster.nodes import Host, labels_of, name_of
from .._cluster.pods import Pod, pod_of
from .._common.refusal import Refusal
from .._layout.resources import StrategyError
from . import record

OPERANDS = (
    *("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm", "client"),
    *("dra-validator", "dcgm-dra", "dcgm-exporter-dra"),
)
_DRA_DRIVER = ("dra-driver",)
# Pods of the paused operands, by their label app, and checks of the operator that ran before the change.
_OPERAND_APPS = ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-dcgm")
_VALIDATOR_APPS = ("nvidia-operator-validator", "nvidia-cuda-validator", "nvidia-device-plugin-validator")
_PAUSED_BY = {
    PAUSED: "the MIG manager",
    "paused-for-driver-upgrade": "the operator's driver manager",
}


def components_to_pause(by_operator: bool, uses_dra: bool) -> list[tuple[str, ...]]:
    """The components to pause, in groups: each is paused when the pods of the former have ended.

    If the MIG manager changes the GPUs (``by_operator``), it pauses and restarts the components itself. Pods of the
    others have claims, and do not end without the DRA driver.
    """
    return [() if by_operator else OPERANDS, *([_DRA_DRIVER] if uses_dra else [])]


def pods_of_paused(node: Data, pods: t.Iterable[Data]) -> list[Pod]:
    """Pods that the pause stops: those of DaemonSets that select nodes by the paused labels."""
    names = {name for name, value in labels_of(node).items() if value == PAUSED}
    return [pod_of(pod) for pod in pods if names.intersection((pod.get("spec") or {}).get("nodeSelector") or ())]


def paused_by_others(node: t.Mapping[str, t.Any], owner: str) -> list[str]:
    """Components of the GPU operator that another program has paused on a node."""
    labels = labels_of(node)
    name = name_of(node)
    out = []
    try:
        own = record.read_record(node)
    except ValueError as error:
        return [str(error)]
    found = {
        key: value
        for key, value in sorted(labels.items())
        if key.startswith(DEPLOY) and is_paused(value) and key not in (own.labels if own else ())
    }
    for value in sorted(set(found.values())):
        if owner == "operator" and value == PAUSED and labels.get(mig_configs.STATE) == "pending":
            continue  # the MIG manager will remove it when it has finished
        keys = [key for key in found if found[key] == value]
        out.append(
            "%s has paused components of the GPU operator on node %s: %s is %s. Wait until it has finished; if it was "
            "interrupted, restore them with kubectl label node %s --overwrite %s"
            % (
                _PAUSED_BY.get(value, "an unknown client"),
                name,
                keys[0],
                value,
                name,
                " ".join("%s=true" % key for key in keys),
            )
        )
    return out


def outdated_pods(node: Data, pods: t.Iterable[Data]) -> list[Data]:
    """Pods that read the GPUs before the change.

    The operator's checks, a device plugin without the operator, and the MIG manager, which applies its configuration when
    it starts, unless it is applying one.
    """
    applying = labels_of(node).get(mig_configs.STATE) in mig_configs.APPLYING
    apps = _VALIDATOR_APPS if applying else (*_VALIDATOR_APPS, readiness.MIG_MANAGER)
    return [pod for pod in pods if labels_of(pod).get("app") in apps or _is_standalone(pod)]


def state_removal(pods: t.Iterable[Data]) -> Data:
    """The patch that removes the state of the MIG configuration if a MIG manager is about to set it again."""
    if not any(labels_of(pod).get("app") == readiness.MIG_MANAGER for pod in pods):
        return {}
    return {"metadata": {"labels": {mig_configs.STATE: None}}}


def _is_standalone(pod: Data) -> bool:
    """Whether it belongs to the device plugin of its own chart, whose pods all have the same labels, or its manifest."""
    other = any(name in name_of(pod) for name in ("gpu-feature-discovery", "mps-control-daemon"))
    labels = labels_of(pod)
    by_chart = labels.get("app.kubernetes.io/name") == "nvidia-device-plugin" and not other
    return by_chart or labels.get("name") == "nvidia-device-plugin-ds"


def _is_plugin(pod: Data) -> bool:
    return _is_standalone(pod) or labels_of(pod).get("app") == _OPERAND_APPS[0]


def deployed_components(node: Data, daemonsets: t.Iterable[Data]) -> set[str]:
    """The components that run on a node by its labels ``nvidia.com/gpu.deploy.*``.

    A label remains when the operator is uninstalled, so that there must be a DaemonSet that selects it.
    """
    selected = {name for each in daemonsets for name in each["spec"]["template"]["spec"].get("nodeSelector") or ()}
    return {name[len(DEPLOY) :] for name in selected if name.startswith(DEPLOY) and labels_of(node).get(name) == "true"}


def unready(
    node: Data,
    pods: t.Sequence[Data],
    resources: t.Mapping[str, int] | None,
    former: t.Sequence[Data],
    components: t.Collection[str],
) -> list[str]:
    """Why a node cannot return to service yet. ``former`` are the outdated pods, which were deleted."""
    old = {pod_of(pod) for pod in former}
    new = [pod for pod in pods if pod_of(pod) not in old]
    labels = labels_of(node)
    plugins = list(filter(_is_plugin, new))
    others = [pod for pod in new if labels_of(pod).get("app") in _OPERAND_APPS + _VALIDATOR_APPS]
    has_plugin = "device-plugin" in components or any(map(_is_standalone, former))
    has_validator = "operator-validator" in components
    has_manager = any(labels_of(pod).get("app") == readiness.MIG_MANAGER for pod in [*former, *new])
    config = labels.get(mig_configs.LABEL, "") if has_manager else ""
    expected = readiness.ExpectedNode(resources, config, has_validator)
    state = readiness.nodes_state({name_of(node): expected}, [node], [*plugins, *others])
    out = [*state.failed, *state.waiting]
    if has_plugin and not any(map(readiness.is_ready, plugins)):
        out.append("%s: the device plugin is not ready" % name_of(node))
    return out


class Expectation(t.NamedTuple):
    """What a node advertises when its device plugin has started."""

    # None if its layout or sharing is not applied yet, or if they are unknown.
    resources: t.Optional[t.Mapping[str, int]] = None
    unknown: str = ""  # why the resources are unknown
    unsupported: str = ""  # why the device plugin exits instead: its strategy does not support the layout


def expectation(host: Host, node: Data, pods: t.Sequence[Data], layout_applied: bool) -> Expectation:
    """What the node of a host should advertise. ``layout_applied`` is whether the host has its layout, if it owns MIG."""
    known = plugin_strategy(node, pods)
    try:
        if not _is_applied(host, node, layout_applied):
            return Expectation()
        if not known:
            has_plugin = readiness.allocatable(node) or any(map(_is_plugin, pods))
            return Expectation(unknown="the MIG strategy of its device plugin is unknown" if has_plugin else "")
        if cluster_nodes.expected_resources(host._replace(sharing=None), known) is None:
            return Expectation(unknown="the GPUs of the host are unknown")
        shared = plugin_configs.host_as_shared(host, node, pods)
        return Expectation(cluster_nodes.expected_resources(shared, known) if shared else None)
    except StrategyError as error:
        return Expectation(unsupported="%s: %s" % (known, error))
    except (MigError, Refusal):
        return Expectation()  # reported with the layout


def _is_applied(host: Host, node: Data, layout_applied: bool) -> bool:
    config = labels_of(node).get(mig_configs.LABEL)
    if config is None:
        return layout_applied
    return host.layout is not None and config == mig_configs.config_name(mig_configs.layout_entries(host))


def plugin_strategy(node: Data, pods: t.Iterable[Data] = ()) -> str:
    """The MIG strategy of the node's device plugin; empty if unknown.

    GPU feature discovery shows it. Without that, it is read from the device plugin, if that is one of the ``pods``.
    """
    labels = labels_of(node)
    shown = labels.get(STRATEGY) or ("none" if PRODUCT in labels else "")
    return shown or next(map(_strategy_of, filter(_is_plugin, pods)), "")


def _strategy_of(pod: Data) -> str:
    """The MIG strategy that a pod of the device plugin was started with; empty if it is in a file."""
    for container in pod["spec"]["containers"]:
        arguments = [*(container.get("command") or ()), *(container.get("args") or ())]
        settings: dict[str, str] = dict(each.lstrip("-").partition("=")[::2] for each in arguments)
        settings.update((each["name"], str(each.get("value"))) for each in container.get("env") or ())
        if "CONFIG_FILE" in settings or "config-file" in settings:
            return ""
        if "mig-strategy" in settings or "MIG_STRATEGY" in settings:
            return settings.get("mig-strategy") or settings["MIG_STRATEGY"]
    return "none"  # its default
