# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draining against a real API server, whose nodes and pods kwok simulates, through a proxy that disturbs requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "lab"), str(Path(__file__).parent)]

from gpulab import control_plane, controller, kubernetes
from proxy import Proxy

ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
PLAYBOOK = Path(__file__).with_name("change.yml")
DEPLOY = "nvidia.com/gpu.deploy."
PLUGIN = "nvidia-device-plugin-daemonset"
RECORD = "gpufleet.node/out-of-service"
OFFERS = {"cpu": "8", "pods": "110", "nvidia.com/gpu": "8"}
LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
    DEPLOY + "device-plugin": "true",
    DEPLOY + "dcgm": "false",
}
SETTLED = 60  # seconds
UNSIMULATED = "unsimulated"  # label of pods whose status a test sets

Data = t.Dict[str, t.Any]


class Cluster:
    """Two nodes, a deployment with two pods on the first and a disruption budget, and runs that drain the first."""

    def __init__(self, plane: control_plane.ControlPlane, proxy: Proxy, work: Path, name: str) -> None:
        self.plane, self.proxy, self.work, self.name = plane, proxy, work, name
        self.node = name + "-1"
        self.playbook = PLAYBOOK
        self.access: t.Dict[str, str] = {}  # environment variables instead of the proxy's kubeconfig
        self.wrapper: t.Sequence[str] = ()  # a command that executes Ansible

    def create(self, **pod: t.Any) -> None:
        for number in (1, 2):
            self.plane.kubectl(
                "create", "--filename=-", given=json.dumps(node("%s-%d" % (self.name, number), self.name))
            )
        # The first node gets both pods of the deployment.
        self.plane.kubectl("cordon", self.name + "-2")
        self.plane.kubectl("create", "namespace", self.name)
        for item in workload(self.name, pod):
            self.plane.kubectl("create", "--namespace", self.name, "--filename=-", given=json.dumps(item))
        self.settled()
        self.plane.kubectl("uncordon", self.name + "-2")

    def start(self, *options: str, **variables: t.Any) -> subprocess.Popen[str]:
        """A run that drains the node, executes the command ``change``, and returns the node, or of another playbook."""
        given = {"seconds": 60, "cluster_node": self.node, "change": "true", **variables}
        environment = {
            **self.plane.environment("run"),
            **controller.environment(),
            **(self.access or {"K8S_AUTH_KUBECONFIG": str(self.proxy.kubeconfig)}),
            "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".cache" / "collections"),
            "ANSIBLE_HOME": str(self.work / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
        }
        command = [
            *self.wrapper,
            str(ANSIBLE),
            "--inventory=localhost,",
            "--extra-vars=" + json.dumps(given),
            *options,
            str(self.playbook),
        ]
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def killed(self, number: int, **variables: t.Any) -> bool:
        """Kill a run after so many writes. False if it has fewer."""
        process = self.start(**variables)
        # The run has its own session, so that nothing else is killed.
        self.proxy.after_write = lambda count: os.killpg(process.pid, signal.SIGKILL) if count == number else None
        output = process.communicate()[0]
        self.proxy.after_write = lambda _count: None
        assert process.returncode in (0, -signal.SIGKILL), output
        return process.returncode != 0

    def run(self, *options: str, **variables: t.Any) -> str:
        process = self.start(*options, **variables)
        output = process.communicate()[0]
        assert process.returncode == 0, output
        return output

    def fails(self, **variables: t.Any) -> str:
        process = self.start(**variables)
        output = process.communicate()[0]
        assert process.returncode != 0, output
        return " ".join(output.replace("\\n", " ").split())

    def read(self) -> Data:
        return t.cast("Data", json.loads(self.plane.kubectl("get", "node", self.node, "--output=json")))

    def settled(self, plugin: bool = True) -> None:
        """Wait until all pods of the deployment and of the DaemonSet are ready."""
        apps = sorted([PLUGIN] * 2 * plugin + ["train"] * 2)
        deadline = time.monotonic() + SETTLED
        while True:
            pods = json.loads(self.plane.kubectl("get", "pods", "--namespace", self.name, "--output=json"))["items"]
            ready = [each["metadata"]["labels"]["app"] for each in pods if is_ready(each)]
            if sorted(each for each in ready if each in apps) == apps:
                return
            assert time.monotonic() < deadline, pods
            time.sleep(0.5)

    def is_in_service(self, cordoned: bool = False, plugin: bool = True) -> None:
        """Assert that the node is as before, and that pods of users were only evicted."""
        found = self.read()
        assert bool(found["spec"].get("unschedulable")) is cordoned
        assert RECORD not in found["metadata"].get("annotations", {})
        assert LABELS.items() <= found["metadata"]["labels"].items()
        assert not [each for each in self.proxy.writes if each.startswith("DELETE")]
        self.settled(plugin)


class StandIn:
    """A program of NVIDIA on the first node, as a thread that repeats ``step``. Its error fails the test at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._end = cluster, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._error: t.Optional[Exception] = None
        self.gpus = cluster.work / "gpus.json"

    def __enter__(self) -> t.Any:
        self._thread.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._end.set()
        self._thread.join()
        assert self._error is None, self._error

    def _run(self) -> None:
        try:
            while not self._end.wait(0.3):
                self.step()
        except Exception as error:  # reported at the end
            self._error = error

    def step(self) -> None:
        raise NotImplementedError

    def write(self, gpus: str) -> None:
        """Change the facts of the GPUs, at once for whoever reads them."""
        written = self.gpus.with_name("gpus-%d.json" % threading.get_ident())
        written.write_text(gpus)
        written.replace(self.gpus)

    def change(self, gpus: str) -> str:
        """A command that does the same."""
        after, script = self.gpus.with_name("after.json"), self.gpus.with_name("change.sh")
        after.write_text(gpus)
        script.write_text("cp {0} {0}.new && mv {0}.new {1}\n".format(after, self.gpus))
        return "sh %s" % script


def is_ready(pod: Data) -> bool:
    conditions = pod["status"].get("conditions", ())
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def node(name: str, group: str) -> Data:
    labels = {**LABELS, "kubernetes.io/hostname": name, "group": group}
    status = {"capacity": OFFERS, "allocatable": OFFERS}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def workload(group: str, pod: Data) -> t.List[Data]:
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}}
    # A real device plugin runs in the operator's namespace.
    return [
        with_pods("DaemonSet", PLUGIN, {"group": group, DEPLOY + "device-plugin": "true"}, {}, {}),
        with_pods("Deployment", "train", {"group": group}, {"replicas": 2}, pod),
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "train"}, "spec": budget},
    ]


def with_pods(kind: str, name: str, selector: t.Mapping[str, str], spec: Data, metadata: Data) -> Data:
    labels = {"app": name}
    container = {"name": "main", "image": "gpufleet.invalid/simulated"}
    pod = {"containers": [container], "nodeSelector": selector, "terminationGracePeriodSeconds": 1}
    template = {"metadata": {"labels": labels, **metadata}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def allow(plane: control_plane.ControlPlane, user: str, *roles: str, namespace: str = "") -> None:
    """Bind ClusterRoles of the collection to a user, in the whole cluster or in a namespace."""
    plane.kubectl("apply", "--filename=%s" % (TOP / "plugins" / "plugin_utils" / "_cluster" / "cluster_roles.yml"))
    where = ["rolebinding", "--namespace=" + namespace] if namespace else ["clusterrolebinding"]
    for role in roles:
        plane.kubectl("create", *where, "%s-%s" % (user, role), "--clusterrole=" + role, "--user=" + user)


@pytest.fixture(name="plane", scope="session")
def fixture_plane(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[control_plane.ControlPlane]:
    names = ("node/fast/node-initialize", "pod/fast/pod-ready", "pod/fast/pod-delete")
    stages = list(yaml.safe_load_all(kubernetes.kwok_stages(*names)))
    stages[1]["spec"]["selector"].setdefault("matchExpressions", []).append(
        {"key": '.metadata.labels["%s"]' % UNSIMULATED, "operator": "DoesNotExist"}
    )
    # kwok makes nodes ready that are not, unless a test has set it.
    reason = '.status.conditions.[] | select( .type == "Ready" ) | .reason'
    initialize = stages[0]["spec"]["selector"]["matchExpressions"]
    initialize.append({"key": reason, "operator": "NotIn", "values": ["Test"]})
    with control_plane.running(tmp_path_factory.mktemp("plane"), yaml.safe_dump_all(stages), []) as plane:
        yield plane


@pytest.fixture(name="cluster")
def fixture_cluster(
    plane: control_plane.ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> t.Iterator[Cluster]:
    test, _bracket, parameter = request.node.name.replace("_", "-").strip("]").partition("[")
    name = ("%s-%s" % (test[5:35].strip("-"), parameter)).strip("-")
    with Proxy(plane.kubeconfig("run"), tmp_path) as proxy:
        yield Cluster(plane, proxy, tmp_path, name)
    plane.kubectl("delete", "nodes", "--selector", "group=" + name, "--wait=false")
    plane.kubectl("delete", "namespace", name, "--wait=false")
