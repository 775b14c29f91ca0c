# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins for the GPU operator and its MIG manager: the harm that the originals can do; and what charts refuse."""

from __future__ import annotations

import copy
import typing as t

import jsonschema
import pytest
from gpulab import charts
from operands import gpu_operator, mig_config, mig_manager
from operands.mig_config import State, Target

PCI = "feature.node.kubernetes.io/pci-10de.present"
DEPLOY = "nvidia.com/gpu.deploy."


def policy(**sections: t.Any) -> t.Dict[str, t.Any]:
    """The chart's policy."""
    values = copy.deepcopy(charts.data(charts.OPERATOR)[0])
    for name, changes in sections.items():
        values[name].update(changes)
    return values


# --- Labels and state -------------------------------------------------------------------------------------------------


CAPABLE = {PCI: "true", "nvidia.com/gpu.present": "true", "nvidia.com/mig.capable": "true"}


@pytest.mark.parametrize(
    ("labels", "manager", "expected"),
    [
        (CAPABLE, {}, "all-disabled"),
        ({**CAPABLE, "nvidia.com/mig.config": "mine"}, {}, None),
        ({**CAPABLE, "nvidia.com/mig.config": ""}, {}, "all-disabled"),
        (CAPABLE, {"config": {"default": ""}}, None),
        (CAPABLE, {"config": {"default": "all-balanced"}}, None),
        (CAPABLE, {"enabled": False}, None),
        ({**CAPABLE, "nvidia.com/mig.capable": "false"}, {}, None),
        ({PCI: "true", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, {}, "all-disabled"),
        ({PCI: "true", "nvidia.com/gpu.product": "Tesla-T4"}, {}, None),
    ],
)
def test_the_operator_wipes_mig_layouts_by_default(
    labels: t.Mapping[str, str], manager: t.Mapping[str, t.Any], expected: t.Optional[str]
) -> None:
    changes = gpu_operator.node_labels(labels, policy(migManager=manager))
    assert changes.get("nvidia.com/mig.config") == expected
    assert (DEPLOY + "mig-manager" in changes) == gpu_operator.mig_capable(labels)


def test_label_values_of_others_stay() -> None:
    labels = {**CAPABLE, DEPLOY + "mig-manager": "false", DEPLOY + "device-plugin": "paused-for-driver-upgrade"}
    changes = gpu_operator.node_labels({**labels, DEPLOY + "driver": ""}, policy())
    assert DEPLOY + "mig-manager" not in changes
    assert DEPLOY + "device-plugin" not in changes
    assert changes[DEPLOY + "driver"] == "true"


def test_a_node_without_gpus_gets_no_labels() -> None:
    assert gpu_operator.node_labels({"kubernetes.io/os": "linux"}, policy()) == {}
    former = {"nvidia.com/gpu.present": "true", DEPLOY + "driver": "true"}
    assert gpu_operator.node_labels(former, policy()) == {
        "nvidia.com/gpu.present": "false",
        DEPLOY + "driver": None,
    }
    assert gpu_operator.node_labels({"nvidia.com/gpu.present": "false"}, policy()) == {}


# --- MIG configurations -----------------------------------------------------------------------------------------------

CONFIGURATIONS = {
    "version": "v1",
    "mig-configs": {
        "all-disabled": [{"devices": "all", "mig-enabled": False}],
        "site": [
            {"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7, "2g.20gb": 0}},
            {"device-filter": "0x20B510DE", "devices": [1], "mig-enabled": False},
        ],
        "broken": [{"devices": "some", "mig-enabled": True}],
        "unknown": [{"devices": "all", "mig-enabled": True, "mig-device": {}}],
    },
}
TARGETS = [Target("0x20B510DE", State(False)), Target("0x20B510DE", State(False)), Target("0x233010DE", State(False))]


def test_later_entries_override_earlier_ones() -> None:
    entries = mig_config.selected(CONFIGURATIONS, "site")
    seven = State(True, {"1g.10gb": 7})
    assert mig_config.wanted(entries, TARGETS) == {0: seven, 1: State(False), 2: seven}


@pytest.mark.parametrize("name", ["missing", "broken", "unknown"])
def test_invalid_configurations(name: str) -> None:
    with pytest.raises(mig_config.Invalid):
        mig_config.selected(CONFIGURATIONS, name)


class FakeGpus(mig_manager.Gpus):
    """GPUs that accept at most seven slices."""

    def __init__(self, log: t.List[str]) -> None:
        self.states = [State(False)]
        self._log = log

    def read(self) -> t.List[Target]:
        return [Target("0x20B510DE", state) for state in self.states]

    def set_modes(self, modes: t.Mapping[int, bool]) -> None:
        for index, enabled in modes.items():
            self._log.append("mode %s" % enabled)
            self.states[index] = State(enabled)

    def create(self, index: int, devices: t.Mapping[str, int]) -> None:
        self._log.append("create %s" % dict(devices))
        if "9g.90gb" in devices:
            raise mig_manager.Failed("In use by another client")
        self.states[index] = State(True, devices)


class FakeClient:
    def __init__(self, log: t.List[str], config: str) -> None:
        self.labels = {"nvidia.com/mig.config": config, DEPLOY + "dcgm": "false"}
        self._log = log

    def request(self, _method: str, _path: str) -> t.Any:
        return {"metadata": {"labels": dict(self.labels)}}

    def label_node(self, _name: str, labels: t.Mapping[str, str]) -> None:
        self.labels.update(labels)
        self._log += sorted("%s=%s" % (name.partition("/")[2], value) for name, value in labels.items())

    def items(self, path: str) -> t.List[t.Any]:
        app = path.rpartition("%3D")[2].rpartition("=")[2]
        return [{"metadata": {"name": app}, "spec": {"nodeName": "one"}}] if app.endswith("validator") else []

    def delete(self, path: str) -> None:
        self._log.append("delete " + path.rpartition("/")[2])


def manager(config: str) -> t.Tuple[mig_manager.Manager, FakeClient, FakeGpus, t.List[str]]:
    log: t.List[str] = []
    client, gpus = FakeClient(log, config), FakeGpus(log)
    known = copy.deepcopy(CONFIGURATIONS)
    known["mig-configs"]["impossible"] = [  # type: ignore[index]
        {"devices": "all", "mig-enabled": True, "mig-devices": {"9g.90gb": 1}}
    ]
    return mig_manager.Manager("one", t.cast(t.Any, client), gpus, lambda: known), client, gpus, log


def test_the_mig_manager_pauses_and_resumes_the_operands() -> None:
    tested, _client, _gpus, log = manager("site")
    tested.step()
    names = ("dcgm-exporter", "device-plugin", "gpu-feature-discovery", "nvsm")
    assert log == [
        "mig.config.state=pending",
        *("gpu.deploy.%s=paused-for-mig-change" % name for name in names),
        "delete nvidia-cuda-validator",
        "delete nvidia-device-plugin-validator",
        "mode True",
        "create {'1g.10gb': 7}",
        "delete nvidia-operator-validator",
        *("gpu.deploy.%s=true" % name for name in names),
        "mig.config.state=success",
    ]
    del log[:]
    tested.step()
    assert log == []


def test_what_is_already_applied_pauses_nothing() -> None:
    tested, _client, _gpus, log = manager("all-disabled")
    tested.step()
    assert log == ["mig.config.state=success"]


def test_a_failure_resumes_the_operands_only_before_the_first_success() -> None:
    tested, client, _gpus, log = manager("impossible")
    tested.step()
    assert log[-1] == "mig.config.state=failed"
    assert client.labels[DEPLOY + "device-plugin"] == "true"
    for name, expected in (("all-disabled", "true"), ("impossible", "paused-for-mig-change")):
        client.labels["nvidia.com/mig.config"] = name
        tested.step()
        assert client.labels[DEPLOY + "device-plugin"] == expected
    assert client.labels["nvidia.com/mig.config.state"] == "failed"


def test_an_unknown_configuration_fails() -> None:
    tested, client, _gpus, log = manager("missing")
    tested.step()
    assert log == ["mig.config.state=failed"]


# --- Charts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chart", charts.CHARTS, ids=[chart.name for chart in charts.CHARTS])
def test_a_chart_accepts_its_own_values_and_refuses_others(chart: charts.Chart) -> None:
    schema = charts.values_schema(chart)
    values, optional = charts.data(chart)
    for accepted in (values, charts.merged(values, optional), {**values, "global": {}}):
        jsonschema.validate(accepted, schema)
    section = "devicePlugin"
    for wrong in ({"unknown": 1}, {section: {**values[section], "unknown": 1}}, {section: "text"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**values, **wrong}, schema)
