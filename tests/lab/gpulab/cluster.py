# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Kubernetes cluster on nodes of the lab: the control plane on the first one, a kubelet and containerd on all.

There is no name server: pods reach nodes, services and other pods by address.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import charts, kubernetes, nodes, operands, podimages, rke2, shared
from .cluster_files import ADMINISTRATORS, CONTROL_PLANE, ON_NODE, Credentials, File, archive, node_files
from .places import LAB, LABNS, LabError, alone, call, podman, say, succeeds

CLUSTERS = LAB / "clusters"
CLUSTER = CLUSTERS / os.environ.get("GPUFLEET_CLUSTER", "default")  # scenarios that run at the same time have their own
KUBECONFIG = CLUSTER / "kubeconfig"
MEMBERS = CLUSTER / "nodes.json"
LEAVE = "/opt/gpufleet-lab/bin/leave-cluster"
CLIENTS = ("kubectl", "helm")
READY = 180  # seconds; about twenty on an idle machine


# --- Steps on a node --------------------------------------------------------------------------------------------------


def on(node: nodes.Node, *command: str) -> str:
    return podman("exec", node.name, *command)


def install(node: nodes.Node, files: t.Iterable[File]) -> None:
    """Write files through stdin, so that no secret is on a command line."""
    unpack = ("tar", "--extract", "--no-overwrite-dir", "--directory", "/")
    words = nodes.command_on(node.name, *unpack, options=["--interactive"])
    done = subprocess.run(words, input=archive(files), capture_output=True, check=False)
    if done.returncode:
        raise LabError("%s: cannot write the files of the cluster: %s" % (node.name, done.stderr.decode()))


def start(node: nodes.Node, *units: str) -> None:
    try:
        on(node, "systemctl", "enable", "--quiet", "--now", *units)
    except LabError as problem:
        raise LabError("%s\n%s" % (problem, logs(node, *units))) from problem


def logs(node: nodes.Node, *units: str) -> str:
    chosen = [part for name in units for part in ("--unit", name)]
    text = on(node, "journalctl", "--no-pager", "--output=cat", "--lines=15", *chosen)
    return "The last messages of %s on %s:\n%s" % (", ".join(units), node.name, text)


def existing(names: t.Sequence[str]) -> t.List[nodes.Node]:
    """The nodes of a new cluster."""
    if not names or len(set(names)) < len(names):
        raise LabError("name one or more distinct nodes; the first runs the control plane")
    known = {node.name: node for node in nodes.running() if node.running}
    for name in names:
        if name not in known:
            raise LabError("no such node is running: %s. Start it with tests/lab/lab up %s" % (name, name))
        if known[name].image == "machine":
            raise LabError("%s: a virtual machine cannot be part of the cluster" % name)
    return [known[name] for name in names]


def check_programs(node: nodes.Node) -> None:
    if not succeeds(LABNS, "podman", "exec", node.name, "test", "-x", ON_NODE + "/bin/kubelet"):
        problem = "was started by an older version of the lab"
    elif succeeds(LABNS, "podman", "exec", node.name, "systemctl", "--quiet", "cat", "containerd.service"):
        problem = "has a containerd already"
    else:
        return
    raise LabError("%s %s: replace it with tests/lab/lab up %s" % (node.name, problem, node.name))


# --- The cluster ------------------------------------------------------------------------------------------------------


def up(names: t.Sequence[str]) -> None:
    """Start a cluster on these nodes. Replaces an existing one."""
    began = time.monotonic()
    members = existing(names)
    kubernetes.prepare()
    rke2.iptables()
    images = [*podimages.prepare(), *operands.prepare()]
    charts.prepare()
    shared.prepare()
    with alone("cluster"):
        remove()
        each(check_programs, members)
        CLUSTER.mkdir(mode=0o700, parents=True)
        MEMBERS.write_text(json.dumps([node.name for node in members]))
        credentials = Credentials(members[0])
        write_secret(KUBECONFIG, credentials.kubeconfig("kubernetes-admin", ADMINISTRATORS))

        def prepare(node: nodes.Node) -> None:
            files = [*node_files(node, members), *credentials.kubelet(node)]
            if node == members[0]:
                files += credentials.control_plane()
            install(node, files)
            start(node, "containerd", "pods")
            for name in images:
                on(node, "ctr", "-n", "k8s.io", "images", "import", "%s/images/%s" % (ON_NODE, name))

        say("starting containerd on %s" % plural(len(members), "node"))
        each(prepare, members)
        say("starting the control plane on " + members[0].name)
        start(members[0], *CONTROL_PLANE)
        wait_for_server(members[0])
        say("starting the kubelets")
        each(lambda node: start(node, "kubelet", "kube-proxy"), members)
        wait_for_nodes(members)
        wait_for_account()
    say("the cluster is ready after %d seconds" % (time.monotonic() - began))


def each(step: t.Callable[[nodes.Node], None], members: t.Sequence[nodes.Node]) -> None:
    with ThreadPoolExecutor(max_workers=4) as pool:
        list(pool.map(step, members))


def plural(count: int, what: str) -> str:
    return "%d %s%s" % (count, what, "" if count == 1 else "s")


def write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def command(program: str, *arguments: str) -> t.Tuple[t.List[str], t.Dict[str, str]]:
    """The command line and the environment of kubectl or helm for the cluster."""
    if not KUBECONFIG.exists():
        raise LabError("there is no cluster: start one with tests/lab/lab cluster up NAME...")
    # Connections to the nodes never use the machine's proxy.
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    homes = {"HELM_%s_HOME" % name: str(CLUSTER / "helm" / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    environment.update(homes, KUBECONFIG=str(KUBECONFIG), KUBECACHEDIR=str(CLUSTER / "cache"))
    return [str(kubernetes.BIN / program), *arguments], environment


def kubectl(*arguments: str, **options: t.Any) -> str:
    words, environment = command("kubectl", *arguments)
    return call(*words, env=environment, **options)


def wait_for_server(node: nodes.Node) -> None:
    deadline = time.monotonic() + READY
    error = ""
    while time.monotonic() < deadline:
        try:
            kubectl("get", "--raw", "/readyz")
            return
        except LabError as problem:
            error = str(problem)
        time.sleep(0.3)
    raise LabError(
        "the API server is not ready after %d seconds: %s\n%s" % (READY, error, logs(node, "kube-apiserver", "etcd"))
    )


def conditions() -> t.Dict[str, t.Dict[str, str]]:
    """The Ready condition of each registered node, by name."""
    listed = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    return {
        node["metadata"]["name"]: condition
        for node in listed
        for condition in node["status"].get("conditions", ())
        if condition["type"] == "Ready"
    }


def wait_for_nodes(members: t.Sequence[nodes.Node]) -> None:
    deadline = time.monotonic() + READY
    shown = -1
    while time.monotonic() < deadline:
        found = conditions()
        missing = [node for node in members if found.get(node.name, {}).get("status") != "True"]
        if len(missing) != shown:
            shown = len(missing)
            say("nodes Ready: %d of %d" % (len(members) - shown, len(members)))
        if not missing:
            return
        time.sleep(0.5)
    reasons = [
        "%s: %s\n%s" % (node.name, found.get(node.name, {}).get("message", "not registered"), logs(node, "kubelet"))
        for node in missing
    ]
    raise LabError("not Ready after %d seconds:\n%s" % (READY, "\n".join(reasons)))


def wait_for_account() -> None:
    """Wait until pods can be created: the controller manager creates the account that they use."""
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        with contextlib.suppress(LabError):
            kubectl("get", "serviceaccount", "default")
            return
        time.sleep(0.3)
    raise LabError("the controller manager created no default service account in %d seconds" % READY)


def current() -> t.List[nodes.Node]:
    """The cluster's nodes that still exist and run."""
    names = json.loads(MEMBERS.read_text()) if MEMBERS.exists() else []
    known = {node.name: node for node in nodes.running() if node.running} if names else {}
    return [known[name] for name in names if name in known]


def down() -> None:
    """Remove the cluster from its nodes."""
    with alone("cluster"):
        remove()


def remove() -> None:
    former = current()
    if former:
        say("removing the cluster from %s" % plural(len(former), "node"))
    each(leave, former)
    shutil.rmtree(CLUSTER, ignore_errors=True)


def leave(node: nodes.Node) -> None:
    on(node, LEAVE)


def forget_all() -> None:
    shutil.rmtree(CLUSTERS, ignore_errors=True)
