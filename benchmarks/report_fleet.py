# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fleets for report.py and the picture of the documents: what nodes and the cluster return, always the same."""

from __future__ import annotations

import random
import uuid
from typing import Any

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import build, cluster_view
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.data import Report
from ansible_collections.gpufleet.node.plugins.plugin_utils._report.hosts import of_variables

Data = dict[str, Any]
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2}}]
DESIRED = (("1g.10gb", 0, 1), ("1g.10gb", 1, 1), ("2g.20gb", 2, 2), ("3g.40gb", 4, 4))
DRIFTED = (("1g.10gb", 0, 1), ("1g.10gb", 1, 1), ("1g.10gb", 2, 1), ("3g.40gb", 4, 4))
RESOURCES = {"nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-1g.10gb": 2}
DOWN = {"unreachable": True, "msg": "Failed to connect to the host via ssh: Connection timed out"}
LOST = "nvmlDeviceGetHandleByIndex: GPU_IS_LOST, GPU 1. Reboot the node"
PROGRAMS = ("python3", "torchrun", "vllm", "tritonserver")


class Fleet:
    """Every few hosts and GPUs have one of the problems that a report shows."""

    def __init__(self, gpus: int, per_host: int = 8) -> None:
        self._random = random.Random(gpus)
        self.nodes: list[Data] = []
        self.pods: list[Data] = []
        self.variables = {"nvidia_mig_layout": LAYOUT, "nvidia_driver_branch": "580"}
        self.variables["gpu_node_boards"] = ["A100-80GB"] * per_host
        self.states = {
            "gpu%d.example.com" % number: self._host(number, per_host) for number in range(1, gpus // per_host + 1)
        }

    def report(self) -> Report:
        read = {name: of_variables(name, self.variables, state) for name, state in self.states.items()}
        return build.report(read, build.cluster(read, [self.nodes, self.pods], cluster_view.Settings()))

    def _host(self, number: int, gpus: int) -> Data:
        node = "gpu%d" % number
        allocatable = {name: str(count * gpus) for name, count in RESOURCES.items()}
        status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
        self.nodes.append({"metadata": {"name": node, "labels": {}}, "spec": {}, "status": status})
        if number % 9 == 4:
            self.nodes[-1]["spec"]["unschedulable"] = True
        if number % 11 == 3:
            status["conditions"][0]["status"] = "Unknown"
            return DOWN
        shown = [self._gpu(node, index, drifted=(number + index) % 15 == 4) for index in range(gpus)]
        if number % 7 == 5:
            unknown = dict.fromkeys(("capable", "current", "pending", "instances", "devices"))
            shown[1].update(problem=LOST, mig=unknown, processes=None)
        driver = {"version": "570.133.20" if number % 13 == 6 else "580.95.05", "source": "nvml", "problem": None}
        return {
            "nvidia": {"driver": driver, "kernel_module": {"versions_match": True}, "gpus": shown},
            "toolkit": {"version": "1.20.1", "problem": None},
            "nodename": node,
            "drained": False,
        }

    def _gpu(self, node: str, index: int, drifted: bool) -> Data:
        instances, processes = [], []
        for number, (profile, start, size) in enumerate(DRIFTED if drifted else DESIRED, 1):
            device = {"id": 0, "profile": profile, "slices": int(profile[0]), "uuid": "MIG-%s" % self._uuid()}
            placed = {"id": number, "profile": profile, "start": start, "size": size, "compute_instances": [device]}
            instances.append(placed)
            if self._random.random() < 0.6:
                processes.append(self._process(node, number, profile))
        mig = {"capable": True, "current": True, "pending": True, "instances": instances, "devices": []}
        return {
            "index": index,
            "uuid": "GPU-%s" % self._uuid(),
            "pci_bus_id": "00000000:%02X:00.0" % (0x0F + 0x10 * index),
            "pci_device_id": "0x20B210DE",
            "name": "NVIDIA A100-SXM4-80GB",
            "problem": None,
            "mig": mig,
            "processes": processes,
        }

    def _process(self, node: str, gi_id: int, profile: str) -> Data:
        uid, name = self._uuid(), self._random.choice(PROGRAMS)
        limits = {"limits": {"nvidia.com/mig-" + profile: "1"}}
        metadata = {"namespace": "research", "name": "%s-%s" % (name, uid[:5]), "uid": uid}
        spec = {"nodeName": node, "containers": [{"name": "main", "resources": limits}]}
        self.pods.append({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
        return {"pid": self._random.randrange(2000, 4000000), "name": name, "gi_id": gi_id, "ci_id": 0, "pod_uid": uid}

    def _uuid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
