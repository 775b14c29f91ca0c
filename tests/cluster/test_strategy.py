# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A change of layout and MIG strategy while the node is drained, whatever interrupts it.

The strategy changes after the node's return, as the roles of the charts do it.
"""

from __future__ import annotations

import json
import typing as t

import pytest
from conftest import PLUGIN, Cluster, is_ready
from fake_device_plugin import MIXED, SEVEN, Model, facts

Data = t.Dict[str, t.Any]

THREE = {"2g.20gb": 3}


@pytest.fixture(name="model")
def fixture_model(cluster: Cluster) -> t.Iterator[Model]:
    cluster.create()
    with Model(cluster) as model:
        model.offers("single")
        cluster.settled()
        yield model


def changed(model: Model, devices: t.Mapping[str, int]) -> Data:
    """The variables of a run that changes the layout."""
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": dict(devices)}]
    change = model.change(facts(devices))
    return {"gpus_file": str(model.gpus), "change": change, "nvidia_mig_layout": layout, "seconds": 30}


def test_from_every_interruption_the_same_run_gets_out(cluster: Cluster, model: Model) -> None:
    number, done = 1, False
    while not done:
        to_mixed = changed(model, MIXED)
        done = not cluster.killed(number, **to_mixed)
        output = cluster.run(**to_mixed)
        assert done or "does not start with the MIG strategy that it has now (single: " in " ".join(output.split())
        cluster.is_in_service(plugin=False)
        model.strategy("mixed")
        model.offers("mixed")
        cluster.proxy.writes.clear()
        model.write(facts(SEVEN))
        model.strategy("single")
        model.offers("single")
        cluster.settled()
        number += 1
    assert number > 4


def test_the_way_back(cluster: Cluster, model: Model) -> None:
    """From mixed to single, the device plugin starts before its strategy changes."""
    model.write(facts(MIXED))
    model.strategy("mixed")
    model.offers("mixed")
    assert "does not start" not in cluster.run(**changed(model, SEVEN))
    cluster.is_in_service()
    model.strategy("single")
    model.offers("single")


def test_a_node_that_an_interrupted_run_left_without_a_way_to_start(cluster: Cluster, model: Model) -> None:
    """The change was made, and the run fails: the next one needs no drain and returns the node."""
    to_mixed = changed(model, MIXED)
    cluster.fails(**{**to_mixed, "change": "sh -c '%s && false'" % to_mixed["change"]})
    assert cluster.read()["spec"]["unschedulable"]
    cluster.run(drained_for={"nothing": True}, **{**to_mixed, "change": "true"})
    assert not cluster.read()["spec"].get("unschedulable")
    pods = json.loads(cluster.plane.kubectl("get", "pods", "-n", cluster.name, "-l", "app=" + PLUGIN, "-o", "json"))
    (plugin,) = [each for each in pods["items"] if each["spec"].get("nodeName") == cluster.node]
    assert not is_ready(plugin)


def test_gpus_that_someone_else_shares(cluster: Cluster, model: Model) -> None:
    """The layout does not show how many devices the node should advertise."""
    model.share()
    model.offers("shared")
    cluster.run(**changed(model, THREE))
    cluster.is_in_service()
