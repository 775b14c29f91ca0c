# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The GPUs of a cloud instance, as its node shows them."""

from __future__ import annotations

import functools
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._common.data import Data
from .._cluster import readiness
from .._cluster.labels import PRESENT
from .._cluster.nodes import labels_of

_TYPE = "node.kubernetes.io/instance-type"
_FILE = Path(__file__).with_name("instance_types.yml")
# Labels of nodes with NVIDIA GPUs, and the start of their values. Sources, read 2026-11: labels of GKE; of AKS
# (learn.microsoft.com/azure/aks/use-labels); of EKS Auto Mode and Karpenter; of the cluster autoscaler on AWS; of NFD,
# from which the GPU operator 26.7 derives nvidia.com/gpu.present (controllers/state_manager.go).
_SIGNS = (
    (PRESENT, "true"),
    ("cloud.google.com/gke-accelerator", "nvidia"),
    ("kubernetes.azure.com/accelerator", "nvidia"),
    ("accelerator", "nvidia"),
    ("eks.amazonaws.com/instance-gpu-manufacturer", "nvidia"),
    ("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"),
    ("k8s.amazonaws.com/accelerator", "nvidia"),
    ("feature.node.kubernetes.io/pci-10de.present", "true"),
    ("feature.node.kubernetes.io/pci-0300_10de.present", "true"),
    ("feature.node.kubernetes.io/pci-0302_10de.present", "true"),
)


def instance_type(node: Data) -> str | None:
    """The instance type, such as p4d.24xlarge; None if no label shows it."""
    return labels_of(node).get(_TYPE)


def gpu_models(node: Data) -> list[str]:
    """The models of the GPUs of the node's instance type; empty if it is unknown. Those without MIG are not boards."""
    count, model = known_types().get(str(instance_type(node)), (0, ""))
    return [model] * count


@functools.cache
def known_types() -> dict[str, tuple[int, str]]:
    """Number and model of the GPUs, by instance type."""
    with _FILE.open(encoding="utf-8") as file:
        return {each: (count, model) for each, (count, model) in yaml_load(file).items()}


def sign_of_gpus(node: Data) -> str:
    """What shows that a node has NVIDIA GPUs, whatever its type: a label, or resources; empty if nothing does."""
    labels = labels_of(node)
    for label, value in _SIGNS:
        if labels.get(label, "").lower().startswith(value):
            return "the label %s=%s" % (label, labels[label])
    offered = readiness.allocatable(node)
    return "the resources %s" % readiness.resource_list(offered) if offered else ""
