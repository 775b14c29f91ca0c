# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbooks with the DRA driver: a simulated host, whose node is in a cluster with a real API server."""

from __future__ import annotations

import json
import time
import typing as t
from pathlib import Path

from conftest import Cluster, allow, node, with_pods
from fake_dra_driver import PLUGIN, DraDriver, uid
from gpulab import control_plane

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, Fleet

MIG, SITE, VERIFY = (PLAYBOOKS / (name + ".yml") for name in ("mig", "site", "verify"))
LABELS = {"dra-driver-nvidia-gpu-component": "kubelet-plugin"}


class SimulatedDriver(DraDriver):
    """Publishes the MIG devices of a simulated host."""

    def __init__(self, cluster: Cluster, fleet: Fleet) -> None:
        super().__init__(cluster)
        self._fleet = fleet
        self.blind = False  # whether it publishes nothing

    def devices(self) -> t.Dict[str, t.Any]:
        listed = json.loads(self._fleet.nvsim("show", "gpu", "--json"))["gpus"][0]["gpu_instances"]
        found = {ci["uuid"]: gi["profile"] for gi in listed for ci in gi["compute_instances"]}
        return {} if self.blind else found


def test_a_layout_with_the_dra_driver(cluster: Cluster, plane: control_plane.ControlPlane, tmp_path: Path) -> None:
    allow(plane, "drainer", "gpufleet-drain", "gpufleet-dra")
    fleet = Fleet(tmp_path)
    fleet.node("gpu", "--board", "H100-80GB")
    fleet.variables.update(
        gpu_node_roles=["gpu_node", "nvidia_mig", "gpu_cluster"],
        gpu_cluster_allocator="dra",
        gpu_cluster_drain=True,
        gpu_cluster_drain_timeout=60,
        gpu_cluster_kubeconfig=str(plane.kubeconfig("drainer", None)),
        gpu_cluster_node_name=cluster.node,
        nvidia_mig_layout=[{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 3}}],
    )
    plane.kubectl("delete", "daemonsets", "--all", "--all-namespaces")  # of other tests
    own = node(cluster.node, cluster.name)
    own["status"]["allocatable"] = {"cpu": "8", "pods": "110"}  # without a device plugin
    plane.kubectl("create", "--filename=-", given=json.dumps(own))
    plane.kubectl("create", "namespace", cluster.name)
    run = fleet.play(MIG)
    assert "has no DRA driver of NVIDIA: install it" in run.output and len(fleet.instances("gpu")[0]) == 3
    plugin = with_pods("DaemonSet", PLUGIN, {"group": cluster.name}, {}, {})
    for labels in (plugin["spec"]["selector"]["matchLabels"], plugin["spec"]["template"]["metadata"]["labels"]):
        labels.update(LABELS)
    with SimulatedDriver(cluster, fleet) as driver:
        plane.kubectl("create", "--namespace", cluster.name, "--filename=-", given=json.dumps(plugin))
        first = uid(cluster, PLUGIN)
        larger = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 1}}]
        run = fleet.play(MIG, nvidia_mig_layout=larger)
        assert len(driver.devices()) == 2 and uid(cluster, PLUGIN) != first and driver.generation == 2
        assert not cluster.read()["spec"].get("unschedulable")
        run = fleet.play(MIG, nvidia_mig_layout=larger)
        assert run.count("gpu", "changed") == 0
        fleet.play(VERIFY, nvidia_mig_layout=larger)

        driver.blind = True
        plane.kubectl("delete", "pods", "--namespace", cluster.name, "--selector=app=" + PLUGIN)
        uid(cluster, PLUGIN)
        while driver.generation == 2:
            time.sleep(0.5)
        run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=larger)
        assert "%s: 2 of 2 devices are not published" % cluster.node in run.output

        gates = [{"name": "main", "env": [{"name": "FEATURE_GATES", "value": "DynamicMIG=true,"}]}]
        patch = json.dumps({"spec": {"template": {"spec": {"containers": gates}}}})
        plane.kubectl("patch", "daemonset", PLUGIN, "--namespace", cluster.name, "--patch=" + patch)
        run = fleet.play(SITE, fails=True, nvidia_mig_layout=larger, device_plugin_version="0.20.0")
        assert "Nothing was changed. Problems: 2" in run.output
        assert "gpu: gpu_cluster_allocator is dra, but device_plugin_version installs a device plugin" in run.output
        assert "has the feature gate DynamicMIG" in run.output
    plane.kubectl("delete", "resourceslices", cluster.node + "-gpu")
