# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for the device plugin of the first node.

With the strategy single, it exits at its start if the node has MIG devices of several profiles, as NVIDIA's does.
"""

from __future__ import annotations

import json
import time
import typing as t

from conftest import PLUGIN, SETTLED, UNSIMULATED, Cluster, StandIn

Data = t.Dict[str, t.Any]
SEVEN, MIXED = {"1g.10gb": 7}, {"3g.40gb": 1, "1g.10gb": 4}
OFFERS = {
    "single": {"nvidia.com/gpu": "7"},
    "mixed": {"nvidia.com/mig-3g.40gb": "1", "nvidia.com/mig-1g.10gb": "4"},
    "shared": {"nvidia.com/gpu": "28"},
}


class Model(StandIn):
    """The device plugin of the cluster's first node."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._started: t.Dict[str, str] = {}  # the configuration with which each pod was started
        self.replicas: t.Dict[str, int] = {}  # of each device, by configuration
        self.write(facts(SEVEN))
        self.strategy("single")

    def strategy(self, name: str) -> None:
        """What a change of the chart's values does."""
        container = {"name": "main", "env": [{"name": "MIG_STRATEGY", "value": name}]}
        self._change({"metadata": {"labels": {UNSIMULATED: "true"}}, "spec": {"containers": [container]}})

    def share(self) -> None:
        """Someone else gives the device plugin a ConfigMap whose default configuration shares each device."""
        variables = [{"name": "NODE_LABEL", "value": "nvidia.com/device-plugin.config"}]
        selector = {"name": "config-manager-init", "image": "x", "env": variables}
        volume = {"name": "available-configs", "configMap": {"name": "someone-else"}}
        self.replicas = {"": 4}
        self._change({"spec": {"initContainers": [selector], "volumes": [volume]}})

    def _change(self, template: Data) -> None:
        patch = json.dumps({"spec": {"template": template}})
        self._kubectl("patch", "daemonset", PLUGIN, "--patch=" + patch)

    def _kubectl(self, *arguments: str) -> str:
        return self._cluster.plane.kubectl("--namespace", self._cluster.name, *arguments)

    def step(self) -> None:
        self.plugins(json.loads(self._kubectl("get", "pods", "-l", UNSIMULATED, "--output=json"))["items"])

    def plugins(self, pods: t.Iterable[Data], config: str = "") -> None:
        """Start the device plugins that are new, or have another configuration."""
        for pod in pods:
            if pod["spec"].get("nodeName") and self._started.get(pod["metadata"]["uid"]) != config:
                self._started[pod["metadata"]["uid"]] = config
                try:
                    self._start(pod, self.replicas.get(config, 1))
                except RuntimeError as error:
                    if "NotFound" not in str(error):  # the pod was replaced in the meantime
                        raise

    def _start(self, pod: Data, replicas: int) -> None:
        node, strategy = pod["spec"]["nodeName"], pod["spec"]["containers"][0]["env"][0]["value"]
        devices = json.loads(self.gpus.read_text())[0]["mig"]["devices"]
        profiles = [each["profile"] for each in devices]
        first = node == self._cluster.node
        works = not first or strategy == "mixed" or len(set(profiles)) == 1
        if first and works:
            names = ["mig-" + each if strategy == "mixed" else "gpu" for each in profiles]
            offered: Data = {"nvidia.com/" + name: str(names.count(name) * replicas) for name in names}
            former = self._cluster.read()["status"]["allocatable"]
            gone = {name: None for name in former if name.startswith("nvidia.com/") and name not in offered}
            self._status("node", node, {"allocatable": {**gone, **offered}, "capacity": {**gone, **offered}})
            self._kubectl("label", "node", node, "--overwrite", "nvidia.com/mig.strategy=" + strategy)
        ready = {"type": "Ready", "status": str(works)}
        state: Data = {"running": {}} if works else {"waiting": {"reason": "CrashLoopBackOff"}}
        container = {"name": "main", "image": "x", "imageID": "", "ready": works, "restartCount": 0, "state": state}
        status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [ready], "containerStatuses": [container]}
        self._status("pod", pod["metadata"]["name"], status)

    def _status(self, kind: str, name: str, status: Data) -> None:
        patch = json.dumps({"status": status})
        self._kubectl("patch", kind, name, "--subresource=status", "--type=merge", "--patch=" + patch)

    def offers(self, strategy: str) -> None:
        """Assert that the node advertises what its layout and this strategy mean."""
        self.advertises(OFFERS[strategy])

    def advertises(self, wanted: t.Mapping[str, str]) -> None:
        deadline = time.monotonic() + SETTLED
        while True:
            found = self._cluster.read()["status"]["allocatable"]
            offered = {name: count for name, count in found.items() if name.startswith("nvidia.com/")}
            if offered == wanted:
                return
            assert time.monotonic() < deadline, offered
            time.sleep(0.5)


def facts(devices: t.Mapping[str, int]) -> str:
    """The facts of an A100 with these MIG devices."""
    names = [name for name, count in devices.items() for _each in range(count)]
    listed = [{"uuid": "MIG-%d" % number, "profile": name} for number, name in enumerate(names)]
    mig = {"capable": True, "current": True, "pending": True, "devices": listed, "instances": []}
    gpu = {"index": 0, "uuid": "GPU-1", "name": "NVIDIA A100-SXM4-80GB", "pci_device_id": "0x20B210DE", "mig": mig}
    return json.dumps([gpu])
