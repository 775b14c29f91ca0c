# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal import cluster
from ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.outcome import Outcome
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu, instance

EMPTY = [gpu(0, current=False), gpu(1, current=False)]
MIXED = [gpu(0, instance(1, "3g.40gb", 0, 4)), gpu(1, current=False)]


def outcome(version: t.Optional[str] = None, strategy: str = "mixed", sharing: object = None) -> Outcome:
    """Of a host on which one of two GPUs gets an instance. The version is that of the operator's chart."""
    values = {
        "gpu_operator": {"gpu_operator_version": version, "gpu_operator_mig_strategy": strategy},
        "device_plugin": {"device_plugin_version": None, "device_plugin_mig_strategy": "mixed"},
    }
    host = Host("a", node_name="node-a", sharing=sharing)
    return cluster.with_resources(Outcome("a", "changes"), host, {"before": EMPTY, "after": MIXED}, values)


def test_resources_before_and_after_the_change() -> None:
    found = outcome()
    assert found.resources_before == {"nvidia.com/gpu": 2}
    assert found.resources == {"nvidia.com/gpu": 1, "nvidia.com/mig-3g.40gb": 1}
    assert (found.node, found.problems, found.state) == ("node-a", (), "changes")


def test_shared_gpus() -> None:
    sharing = {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}
    assert outcome(sharing=sharing).resources_before == {"nvidia.com/gpu": 8}


def test_a_layout_that_the_strategy_of_the_cluster_does_not_support() -> None:
    found = outcome("v25.10.0", "single")
    assert (found.state, found.resources, found.resources_before) == ("fails", None, {"nvidia.com/gpu": 2})
    assert found.problems[0].startswith("gpu_operator_mig_strategy is single: the strategy single needs MIG on or off")


def test_the_strategy_of_a_chart_that_is_not_used_has_no_effect() -> None:
    assert outcome(None, "single").problems == ()
