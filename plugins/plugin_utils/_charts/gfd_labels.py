# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The labels that GPU feature discovery writes: the profile of MIG devices, and whether they match the resources."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster.labels import PRODUCT, STRATEGY
from .._cluster.nodes import labels_of, name_of
from .._cluster.readiness import ExpectedNode
from .._layout import resources as layout_resources


def profile_of(product: str) -> str:
    """The profile in the product label of a node with the strategy single; empty if MIG is off."""
    return product.partition("-MIG-")[2].removesuffix("-SHARED")


def wrong_labels(nodes: t.Iterable[Data], expected: t.Mapping[str, ExpectedNode], strategy: str) -> list[str]:
    """Labels of GPU feature discovery that do not match the resources."""
    out: list[str] = []
    for node in nodes:
        each, found = expected.get(name_of(node), ExpectedNode()), labels_of(node)
        if each.resources:
            problems = [
                "the label %s is %s, but should be %s" % (name, found.get(name, "missing"), value)
                for name, value in sorted(_labels(each.resources, each.replicas, strategy).items())
                if found.get(name) != value
            ]
            problems += _wrong_product(found.get(PRODUCT), each.profile)
            out.extend("%s: %s" % (name_of(node), problem) for problem in problems)
    return out


def _labels(resources: t.Mapping[str, int], replicas: t.Mapping[str, int], strategy: str) -> dict[str, str]:
    """The labels that GPU feature discovery should write for the resources."""
    out = {} if strategy == "none" else {STRATEGY: strategy}
    for name, count in resources.items():
        times = replicas.get(name, 1)
        label = name.removesuffix(layout_resources.SHARED)
        if times > 1 and strategy != "none":  # which counts no replicas of GPUs with MIG
            out[label + ".replicas"] = str(times)
        if name.startswith(layout_resources.MIG):
            out[label + ".count"] = str(count // times)
    return out


def _wrong_product(product: str | None, profile: str | None) -> list[str]:
    if product is None:
        return ["the label %s is missing" % PRODUCT]
    if profile is None or profile_of(product) == profile:
        return []
    named = "should end with -MIG-%s" % profile if profile else "should name a GPU without MIG"
    return ["the label %s is %s, but %s" % (PRODUCT, product, named)]
