# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ClusterRoles of the collection suffice, each for its purpose, and no more is granted."""

from __future__ import annotations

import base64
import json
import re
import typing as t
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import Cluster, allow
from gpulab import control_plane
from proxy import Proxy

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, Fleet


@pytest.fixture(name="user")
def fixture_user(cluster: Cluster) -> str:
    return "user-" + cluster.name


def test_a_drain(plane: control_plane.ControlPlane, cluster: Cluster, user: str) -> None:
    allow(plane, user, "gpufleet-drain")
    cluster.create()
    (cluster.work / "limited").mkdir()
    with Proxy(plane.kubeconfig(user, None), cluster.work / "limited") as cluster.proxy:
        cluster.run()
        cluster.is_in_service()


# A container group gives a job's pod its service account, here in a mount namespace.
IN_A_POD = """
mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount
cp "$0"/ca.crt "$0"/token /run/secrets/kubernetes.io/serviceaccount && exec "$@"
"""


@pytest.mark.parametrize("of_a_pod", [False, True], ids=["environment", "pod"])
def test_the_credentials_that_awx_gives(plane: control_plane.ControlPlane, cluster: Cluster, of_a_pod: bool) -> None:
    """Address and token of a service account in the environment, or that of the job's pod, without a kubeconfig."""
    user = "awx-" + cluster.name
    allow(plane, user)
    plane.kubectl("create", "serviceaccount", user)
    role = ["--clusterrole=gpufleet-drain", "--serviceaccount=default:" + user]
    plane.kubectl("create", "clusterrolebinding", user, *role)
    cluster.create()
    known = json.loads(plane.kubeconfig(user, None).read_text())["clusters"][0]["cluster"]
    authority = cluster.work / "ca.crt"
    authority.write_bytes(base64.b64decode(known["certificate-authority-data"]))
    token = plane.kubectl("create", "token", user).strip()
    if of_a_pod:
        (cluster.work / "token").write_text(token)
        address = urlsplit(known["server"])
        cluster.access = {
            "KUBERNETES_SERVICE_HOST": str(address.hostname),
            "KUBERNETES_SERVICE_PORT": str(address.port),
            "KUBECONFIG": "",
        }
        cluster.wrapper = ["unshare", "--mount", "sh", "-ec", IN_A_POD, str(cluster.work)]
    else:
        cluster.access = {
            "K8S_AUTH_HOST": known["server"],
            "K8S_AUTH_API_KEY": token,
            "K8S_AUTH_VERIFY_SSL": "True",
            "K8S_AUTH_SSL_CA_CERT": str(authority),
            "KUBECONFIG": "",
        }
    cluster.run()
    cluster.is_in_service()


def test_the_preflight_of_a_drain(plane: control_plane.ControlPlane, tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    fleet.node("gpu", "--board", "A100-80GB")
    fleet.variables["nvidia_mig_layout"] = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
    kubeconfig = str(plane.kubeconfig("nobody", None))
    run = fleet.play(PLAYBOOKS / "mig.yml", fails=True, gpu_cluster_drain=True, gpu_cluster_kubeconfig=kubeconfig)
    assert "gpu: the user of the kubeconfig is not allowed to get nodes, patch nodes, list pods" in run.output
    assert fleet.instances("gpu") == [[]]


def test_a_chart(plane: control_plane.ControlPlane, cluster: Cluster, user: str, tmp_path: Path) -> None:
    """Through a helm-controller, which has permissions of its own."""
    cluster.create()
    plane.define(helm_charts())
    fleet = Fleet(tmp_path)
    variables: t.Dict[str, t.Any] = {
        "gpu_cluster_kubeconfig": str(plane.kubeconfig(user, None)),
        "gpu_cluster_check_timeout": 5,
        "gpu_node_boards": ["A100-80GB"] * 8,
        "device_plugin_version": "0.20.0",
        "device_plugin_namespace": cluster.name,
        "device_plugin_gfd": False,
    }
    selected = {**variables, "gpu_cluster_selector": ["kubernetes.io/hostname=" + cluster.node]}
    given = (PLAYBOOKS / "managed_cluster.yml", "--extra-vars=" + json.dumps(selected))

    def allow_in_namespaces(name: str, purpose: str) -> None:
        allow(plane, name, purpose)
        allow(plane, name, purpose + "-kube-system", namespace="kube-system")
        allow(plane, name, purpose + "-chart-namespace", namespace=cluster.name)

    allow_in_namespaces(user, "gpufleet-verify")
    allow(plane, user, "gpufleet-check-chart-namespace", namespace=cluster.name)
    run = fleet.play(*given, fails=True)
    assert (
        "is not allowed to create namespaces, patch namespaces, get nodes, patch nodes, create runtimeclasses"
        in run.output
    )
    assert (
        "create configmaps in the namespace %s" % cluster.name in run.output and run.count(cluster.node, "changed") == 0
    )

    allow_in_namespaces(user, "gpufleet-charts")
    run = fleet.play(*given, fails=True)
    assert run.count(cluster.node, "changed") == 2  # the tasks with the objects and with the chart
    # The pods run, but the simulated kubelet has no logs.
    (problem,) = re.findall("does not match the inventory:\n- (.*)\n", run.output)[:1]
    assert problem == "0 of 8 pods with nvidia.com/gpu have listed their devices"
    assert "Forbidden" not in run.output and "No resources" not in run.output
    assert fleet.play(*given, fails=True).count(cluster.node, "changed") == 0
    assert not plane.kubectl("get", "jobs", "--namespace", cluster.name, "--output=name")

    # Verify writes nothing, and needs no permission for it.
    allow_in_namespaces("reader", "gpufleet-verify")
    fleet.node("gpu", "--gpus", "8", "--board", "A100-80GB")
    fleet.variables.update(
        variables,
        gpu_cluster_kubeconfig=str(plane.kubeconfig("reader", None)),
        gpu_cluster_check_pods=False,
        gpu_cluster_node_name=cluster.node,
        gpu_node_roles=["device_plugin", "gpu_cluster"],
    )
    fleet.play(PLAYBOOKS / "verify.yml")
    other = ["--namespace=kube-system", "--type=merge", '--patch={"spec": {"version": "0.19.0"}}']
    plane.kubectl("patch", "helmchart", "nvidia-device-plugin", *other)
    run = fleet.play(PLAYBOOKS / "verify.yml", fails=True)
    assert (
        "- the cluster does not match the variables: HelmChart nvidia-device-plugin (device_plugin_*). Run site.yml\n"
        in run.output
    )


def helm_charts() -> t.Dict[str, t.Any]:
    """The definition of the objects of RKE2's and k3s's helm-controller."""
    names = {"kind": "HelmChart", "plural": "helmcharts", "singular": "helmchart"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "helmcharts.helm.cattle.io"},
        "spec": {"group": "helm.cattle.io", "names": names, "scope": "Namespaced", "versions": [version]},
    }
