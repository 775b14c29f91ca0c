# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Managed Kubernetes platforms: who changes the MIG layout of their nodes, and how to create nodes with another one.

The remedies are quoted from the documentation of the platforms:

- Bottlerocket 1.54, settings.kubelet-device-plugins (bottlerocket.dev): the keys of mig.profile are GPU models.
- AKS, gpu-multi-instance (learn.microsoft.com, 2026-05-22).
- GKE, gcloud container node-pools create (cloud.google.com/sdk/gcloud/reference, 2026), and how-to/gpus-multi.
"""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.data import Data
from .._cluster.nodes import labels_of
from . import instance_types

_ACCELERATOR = "cloud.google.com/gke-accelerator"
_BOTTLEROCKET_MODEL = re.compile(r"[a-z][0-9]+\.[0-9]+gb")  # as its documentation gives it


class Platform(t.NamedTuple):
    """A kind of nodes, and who changes their GPUs."""

    name: str
    installs: bool = True  # whether charts are installed on its nodes
    changes: bool = True  # whether the MIG manager may change the layout of its nodes
    strategy: str = ""  # of its own device plugin; empty if charts are installed
    offers: str = "as many of one profile as fit"  # the instances of a GPU
    counts: t.Mapping[int, int] = {}  # of instances on a GPU, by their compute slices; empty if as many as fit
    partitioned: str = ""  # how to create nodes whose GPUs have instances of a profile; empty if there is no MIG
    whole: str = ""  # how to create nodes without MIG


OTHER = Platform("the cluster")
_TABLE = "settings.kubelet-device-plugins.nvidia"  # in the user data
_REPLACE = "in the user data of its node group, and replace the node"
BOTTLEROCKET = Platform(
    "Bottlerocket",
    installs=False,
    changes=False,
    strategy="single",
    partitioned='set device-partitioning-strategy = "mig" in the table [%s] and "%%(model)s" = "%%(profile)s" in the table '
    "[%s.mig.profile] %s" % (_TABLE, _TABLE, _REPLACE),
    whole='set device-partitioning-strategy = "none" in the table [%s] %s' % (_TABLE, _REPLACE),
)
AUTO_MODE = Platform("EKS Auto Mode", installs=False, changes=False, strategy="mixed", whole="replace the node")
_AKS_POOL = (
    "create a node pool with az aks nodepool add --resource-group GROUP --cluster-name CLUSTER --name POOL "
    "--node-count COUNT --node-vm-size %(type)s"
)
AKS = Platform(
    "AKS",
    changes=False,
    offers="7 with one slice, 3 with two, 2 with three, or 1 with four or seven",
    counts={1: 7, 2: 3, 3: 2, 4: 1, 7: 1},
    partitioned=_AKS_POOL + " --gpu-instance-profile MIG%(slices)sg",
    whole=_AKS_POOL,
)
_GKE_POOL = (
    "create a node pool with gcloud container node-pools create POOL --cluster=CLUSTER --machine-type=%(type)s "
    "--accelerator=type=%(accelerator)s,count=%(count)d"
)
GKE = Platform(
    "GKE",
    installs=False,
    changes=False,
    strategy="single",
    partitioned=_GKE_POOL + ",gpu-partition-size=%(profile)s",
    whole=_GKE_POOL,
)


def platform_of(node: Data) -> Platform:
    """The platform of a node, from its labels and operating system."""
    labels = labels_of(node)
    image = str(((node.get("status") or {}).get("nodeInfo") or {}).get("osImage"))
    if labels.get("eks.amazonaws.com/compute-type") == "auto":
        return AUTO_MODE
    if image.startswith("Bottlerocket"):
        return BOTTLEROCKET
    if "kubernetes.azure.com/agentpool" in labels:
        return AKS
    return GKE if "cloud.google.com/gke-nodepool" in labels else OTHER


def remedy(node: Data, boards: t.Sequence[str], profile: str) -> str:
    """How to create nodes like this one whose GPUs have instances of a profile, or no MIG if it is empty."""
    on = platform_of(node)
    model = boards[0].lower().replace("-", ".", 1)  # a100.40gb
    return (on.partitioned if profile else on.whole) % {
        "profile": profile,
        "slices": profile.partition("g")[0],
        "type": instance_types.instance_type(node) or "TYPE",
        "model": model if _BOTTLEROCKET_MODEL.fullmatch(model) else "GPU-MODEL.MEMORYgb",
        "accelerator": labels_of(node).get(_ACCELERATOR, "ACCELERATOR"),
        "count": len(boards),
    }
