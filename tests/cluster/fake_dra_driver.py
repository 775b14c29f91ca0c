# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for NVIDIA's DRA driver, which publishes real ResourceSlices.

As NVIDIA's driver does, it reads the GPUs once for each pod of its kubelet plugin, and what a former pod published
remains until then.
"""

from __future__ import annotations

import json
import time
import typing as t

from conftest import SETTLED, Cluster, StandIn, is_ready

API = "resource.k8s.io/v1"
DRIVER = "gpu.nvidia.com"
PLUGIN = "nvidia-dra-driver-kubelet-plugin"
GPU = "GPU-1"

Data = t.Dict[str, t.Any]


class DraDriver(StandIn):
    """The MIG devices of the node, by UUID with their profile, and the stand-in that publishes them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.generation, self._served = 0, ""

    def step(self) -> None:
        uids = [each["metadata"]["uid"] for each in pods(self._cluster, PLUGIN) if is_ready(each)]
        if uids and uids[0] != self._served:
            self._served, self.generation = uids[0], self.generation + 1
            given = json.dumps(resource_slice(self._cluster.node, self.devices(), self.generation))
            self._cluster.plane.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", given=given)

    def devices(self) -> Data:
        (gpu,) = json.loads(self.gpus.read_text())
        return {each["uuid"]: each["profile"] for each in gpu["mig"]["devices"]}


def resource_slice(name: str, devices: Data, generation: int) -> Data:
    listed = [
        {
            "name": "gpu-0-mig-%d" % number,
            "attributes": {
                "type": {"string": "mig"},
                "uuid": {"string": uuid},
                "parentUUID": {"string": GPU},
                "profile": {"string": profile},
            },
        }
        for number, (uuid, profile) in enumerate(sorted(devices.items()))
    ]
    pool = {"name": name, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": listed}
    return {"apiVersion": API, "kind": "ResourceSlice", "metadata": {"name": name + "-gpu"}, "spec": spec}


def pods(cluster: Cluster, app: str) -> t.List[Data]:
    found = cluster.plane.kubectl("get", "pods", "--namespace", cluster.name, "-l", "app=" + app, "--output=json")
    return t.cast("t.List[Data]", json.loads(found)["items"])


def uid(cluster: Cluster, app: str) -> str:
    """The UID of the only pod of a workload, when it is ready."""
    deadline = time.monotonic() + SETTLED
    while True:
        found = [each["metadata"]["uid"] for each in pods(cluster, app) if is_ready(each)]
        if len(found) == 1:
            return str(found[0])
        assert time.monotonic() < deadline, pods(cluster, app)
        time.sleep(0.5)
