# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The labels of GPU feature discovery."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import gfd_labels
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.readiness import ExpectedNode
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import node

GPU, MIG = "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"


def test_labels_that_do_not_match_the_resources() -> None:
    right = node("a", **{MIG + ".count": "7", "nvidia.com/mig.strategy": "mixed", "nvidia.com/gpu.product": "x"})
    assert (
        gfd_labels.wrong_labels(
            [right, node("b"), node("c")], {"a": ExpectedNode({MIG: 7}), "c": ExpectedNode({})}, "mixed"
        )
        == []
    )
    assert gfd_labels.wrong_labels([right], {"a": ExpectedNode({MIG: 6})}, "single") == [
        "a: the label %s.count is 7, but should be 6" % MIG,
        "a: the label nvidia.com/mig.strategy is mixed, but should be single",
    ]
    shared = node("a", **{**right["metadata"]["labels"], MIG + ".replicas": "4"})
    expected = ExpectedNode({MIG + ".shared": 28}, replicas={MIG + ".shared": 4})
    assert gfd_labels.wrong_labels([shared], {"a": expected}, "mixed") == []
    assert gfd_labels.wrong_labels([right], {"a": expected}, "mixed") == [
        "a: the label %s.replicas is missing, but should be 4" % MIG
    ]
    expected = ["a: the label nvidia.com/gpu.product is missing"]
    assert gfd_labels.wrong_labels([node("a")], {"a": ExpectedNode({GPU: 1})}, "none") == expected


def test_the_profile_with_the_strategy_single() -> None:
    """The number of devices may be the same with another profile, and without MIG."""

    def problems(profile: t.Optional[str], product: str) -> t.List[str]:
        labelled = node("a", **{"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": product})
        return gfd_labels.wrong_labels([labelled], {"a": ExpectedNode({GPU: 1}, profile=profile)}, "single")

    wrong = "a: the label nvidia.com/gpu.product is %s, but should "
    for product, profile in (("A100", ""), ("A100-MIG-7g.40gb", "7g.40gb"), ("A100-MIG-7g.40gb-SHARED", "7g.40gb")):
        assert problems(profile, product) == problems(None, product) == []
        assert problems("4g.20gb", product) == [wrong % product + "end with -MIG-4g.20gb"]
    assert problems("", "A100-MIG-7g.40gb") == [wrong % "A100-MIG-7g.40gb" + "name a GPU without MIG"]


def test_gpus_with_mig_and_the_strategy_none_have_no_replicas() -> None:
    labelled = node("a", **{"nvidia.com/gpu.product": "A100", "nvidia.com/gpu.replicas": "0"})
    assert gfd_labels.wrong_labels([labelled], {"a": ExpectedNode({GPU: 4}, replicas={GPU: 4})}, "none") == []
