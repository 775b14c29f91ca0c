# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The charts that roles install, and what differs between them."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._common.refusal import Refusal
from . import device_plugin_values, operator_values, owner, releases
from .mapping import ValueInputs
from .owner import Release


class Chart(t.NamedTuple):
    """A chart. Paths of values are like migManager.enabled."""

    role: str  # which installs it; the prefix of its variables
    name: str
    part_of: str  # the role whose chart includes the components of this one; empty if there is none
    has_mig_manager: bool
    has_validator: bool
    labels_nodes: bool  # whether it labels nodes, and leaves these labels when it is uninstalled
    plugin_selector: str  # the label of the device plugin's pods
    plugin_config: str  # path of the value with the configuration of the device plugin
    tolerations: str  # path of the value with the fewest tolerations of pods on GPU nodes
    problems: t.Callable[[ValueInputs, str], t.List[str]]  # of the values for a release
    values: t.Callable[[ValueInputs, str], Data]  # for a release
    runtime_class: t.Callable[[t.Mapping[str, t.Any], Data], str]  # of pods that use GPUs, from variables and values
    warnings: t.Callable[[Data, t.Iterable[Data]], t.List[str]]  # about values, with the cluster's DaemonSets
    conflicts: t.Callable[[Release, t.Sequence[Data], t.Sequence[Data]], t.List[str]]  # in the cluster


def chart_values(chart: Chart, inputs: ValueInputs) -> tuple[Data, list[str]]:
    """The values to install, and the problems of the variables; without values if there are any."""
    try:
        release = releases.release(chart.name, inputs.variables["version"])
    except Refusal as error:
        return {}, ["%s_version: %s" % (chart.role, error)]
    problems = chart.problems(inputs, release)
    return ({} if problems else chart.values(inputs, release)), problems


GPU_OPERATOR = Chart(
    role="gpu_operator",
    name=operator_values.CHART,
    part_of="",
    has_mig_manager=True,
    has_validator=True,
    labels_nodes=True,
    plugin_selector="app=nvidia-device-plugin-daemonset",
    plugin_config="devicePlugin.config",
    tolerations="daemonsets.tolerations",
    problems=operator_values.problems,
    values=operator_values.values,
    runtime_class=lambda _variables, values: str(releases.value_at(values, "operator.runtimeClass") or "nvidia"),
    warnings=lambda _values, _daemonsets: [],
    conflicts=owner.conflicts_of_operator,
)
DEVICE_PLUGIN = Chart(
    role="device_plugin",
    name=device_plugin_values.CHART,
    part_of="gpu_operator",
    has_mig_manager=False,
    has_validator=False,
    labels_nodes=False,
    plugin_selector="app.kubernetes.io/name=nvidia-device-plugin",
    plugin_config="config",
    tolerations="nfd.worker.tolerations",
    problems=device_plugin_values.problems,
    values=device_plugin_values.values,
    runtime_class=lambda variables, _values: str(variables["runtime_class"]),
    warnings=device_plugin_values.warnings,
    conflicts=owner.conflicts_of_device_plugin,
)
CHARTS = {chart.role: chart for chart in (GPU_OPERATOR, DEVICE_PLUGIN)}
