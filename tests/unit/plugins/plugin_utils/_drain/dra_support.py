# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of the DRA driver, and GPUs in the shape of the facts with MIG devices."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import daemonset

Data = t.Dict[str, t.Any]
PLUGIN = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}
SMALL = "1g.10gb"


def resource_slice(*uuids: str, generation: int = 1, count: int = 1, name: str = "a") -> Data:
    """The names may end with a profile: MIG-1 3g.40gb."""
    devices = [
        {
            "name": "gpu-0-mig-" + uuid.lower(),
            "attributes": {
                "type": {"string": "mig"},
                "uuid": {"string": uuid},
                "profile": {"string": profile or SMALL},
            },
        }
        for uuid, _space, profile in (each.partition(" ") for each in uuids)
    ]
    pool = {"name": name, "generation": generation, "resourceSliceCount": count}
    return {"spec": {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices}}


def mig(index: int, *uuids: str) -> Data:
    out: Data = gpu(index)
    parts = [each.partition(" ") for each in uuids]
    out["mig"]["devices"] = [{"uuid": uuid, "profile": profile or SMALL} for uuid, _space, profile in parts]
    return out


def claim(*devices: str, uids: t.Sequence[str] = ("train",), driver: str = "gpu.nvidia.com", pool: str = "a") -> Data:
    results = [{"driver": driver, "pool": pool, "device": "gpu-0-mig-" + name} for name in devices]
    users = [{"resource": "pods", "name": uid, "uid": uid} for uid in uids]
    return {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": users}}


def driver(gates: t.Optional[str], **labels: str) -> Data:
    env = [{"name": "FEATURE_GATES", "value": gates}] if gates is not None else []
    return daemonset("driver", env=env, **(labels or PLUGIN))
