# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that pods get MIG devices, through the real kubelet and container toolkit and the device plugin's stand-in.

The check changes the MIG layout of one of the cluster's nodes, and installs the container toolkit there.
"""

from __future__ import annotations

import json
import re
import time
import typing as t

from . import charts, cluster, nodes, operands, toolkit
from .places import URL, LabError, call, podman, say, succeeds

NAMESPACE = RELEASE = "nvidia-device-plugin"
RESOURCE = "nvidia.com/mig-1g.10gb"
PROFILE, COUNT = "19", 7  # of an A100 80GB
PATIENCE = 90
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}
OPTIONS = ("migStrategy=mixed", "securityContext.privileged=true", "gfd.enabled=true", "runtimeClassName=nvidia")


def run() -> t.Iterator[str]:
    """Run all checks; yield a line for each that passes."""
    charts.prepare()
    node = gpu_node()
    install_toolkit(node)
    uuids = seven_devices(node)
    cluster.kubectl("apply", "--filename", "-", input=json.dumps(RUNTIME_CLASS), stdin=None)
    try:
        for strategy in ("envvar", "cdi-cri"):
            install_plugin("deviceListStrategy=" + strategy)
            wait_for_resource(node)
            yield "%s: allocatable %s: %d (device plugin: stand-in)" % (node.name, RESOURCE, COUNT)
            found = {name: the_device(output, uuids) for name, output in pods_with_devices(strategy).items()}
            if len(set(found.values())) < len(found):
                raise LabError("two pods have the same device: %s" % found)
            yield "device list strategy %s: each pod sees only its device: %s" % (strategy, found)
            delete_pods()
        wait_for_label(node)
        yield "%s: label %s.count=%d (GPU feature discovery: stand-in)" % (node.name, RESOURCE, COUNT)
    finally:
        delete_pods()
        helm("uninstall", RELEASE, "--ignore-not-found")
        cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")


def install_plugin(option: str) -> None:
    options = [part for each in (*OPTIONS, option) for part in ("--set", each)]
    repository = ("--repo", URL + "/charts/k8s-device-plugin", "--version", "0.20.0")
    helm("upgrade", "--install", "--create-namespace", *repository, *options, RELEASE, "nvidia-device-plugin")
    timeout = "--timeout=%ds" % PATIENCE
    cluster.kubectl("--namespace", NAMESPACE, "rollout", "status", "daemonset/" + RELEASE, timeout)
    wait_until("the device plugin registered", registered)


def helm(*arguments: str) -> str:
    words, environment = cluster.command("helm", "--namespace", NAMESPACE, *arguments)
    return call(*words, env=environment)


def gpu_node() -> nodes.Node:
    for node in cluster.current():
        if succeeds(*nodes.command_on(node.name, "nvidia-smi", "-L")):
            return node
    raise LabError("no node of the cluster has a GPU: start one with --board A100-80GB:1 --driver 550.163.01")


def install_toolkit(node: nodes.Node) -> None:
    """Install the real toolkit without its packages if it is missing, and configure containerd to use it."""
    if not succeeds(*nodes.command_on(node.name, "test", "-x", "/usr/bin/nvidia-container-runtime")):
        built = toolkit.build(toolkit.VERSIONS[-1])
        say("installing the container toolkit on " + node.name)
        for program in toolkit.PROGRAMS:
            podman("cp", built / program, "%s:/usr/bin/%s" % (node.name, program))
        cluster.on(
            node, "nvidia-ctk", "config", "--config-file=/etc/nvidia-container-runtime/config.toml", "--in-place"
        )
    if "runtimes.nvidia" not in cluster.on(node, "containerd", "config", "dump"):
        cluster.on(node, "nvidia-ctk", "runtime", "configure", "--runtime=containerd")
        cluster.on(node, "systemctl", "restart", "containerd")


def seven_devices(node: nodes.Node) -> t.List[str]:
    """Divide the node's first GPU into seven MIG devices, and return their UUIDs."""
    cluster.on(node, "nvidia-smi", "-i", "0", "-mig", "1")
    for option in ("-dci", "-dgi"):
        succeeds(*nodes.command_on(node.name, "nvidia-smi", "mig", "-i", "0", option))
    cluster.on(node, "nvidia-smi", "mig", "-i", "0", "-cgi", ",".join([PROFILE] * COUNT), "-C")
    found = re.findall(r"UUID: (MIG-[-0-9a-f]+)", cluster.on(node, "nvidia-smi", "-L"))
    if len(found) != COUNT:
        raise LabError("%s: %d MIG devices instead of %d" % (node.name, len(found), COUNT))
    return found


def node_object(node: nodes.Node) -> t.Dict[str, t.Any]:
    return t.cast(t.Dict[str, t.Any], json.loads(cluster.kubectl("get", "node", node.name, "--output", "json")))


def wait_until(what: str, true: t.Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise LabError("%s: not after %d seconds\n%s" % (what, PATIENCE, logs()))
        time.sleep(0.5)


def logs() -> str:
    """The state and the logs of the release's pods."""
    namespace = ("--namespace", NAMESPACE)
    listed = json.loads(cluster.kubectl(*namespace, "get", "pods", "--output", "json"))["items"]
    texts = [cluster.kubectl(*namespace, "get", "pods", "--output", "wide")]
    for name in [pod["metadata"]["name"] for pod in listed]:
        try:
            texts.append("%s:\n%s" % (name, cluster.kubectl(*namespace, "logs", name, "--tail=15", "--all-containers")))
        except LabError as problem:
            texts.append("%s:\n%s" % (name, problem))
    return "\n".join(texts)


def wait_for_resource(node: nodes.Node) -> None:
    def true() -> bool:
        return str(node_object(node)["status"]["allocatable"].get(RESOURCE)) == str(COUNT)

    wait_until("allocatable %s: %d" % (RESOURCE, COUNT), true)


def registered() -> bool:
    """Until then, the node's allocatable may be that of the previous plugin."""
    try:
        return "registered " + RESOURCE in cluster.kubectl("--namespace", NAMESPACE, "logs", "daemonset/" + RELEASE)
    except LabError:  # the pod has not started
        return False


def wait_for_label(node: nodes.Node) -> None:
    def true() -> bool:
        return str(node_object(node)["metadata"]["labels"].get(RESOURCE + ".count")) == str(COUNT)

    wait_until("label %s.count=%d" % (RESOURCE, COUNT), true)


def pods_with_devices(strategy: str) -> t.Dict[str, str]:
    """Run two pods with one device each, and return their logs."""
    names = ["check-%s-%d" % (strategy, number) for number in range(2)]
    for name in names:
        container = {
            "name": "main",
            "image": operands.GLIBC,
            "command": ["sh", "-c", "nvidia-smi -L; exec sleep 3600"],
            "resources": {"limits": {RESOURCE: 1}},
        }
        spec: t.Dict[str, t.Any] = {"containers": [container], "terminationGracePeriodSeconds": 0}
        if strategy == "envvar":
            spec["runtimeClassName"] = "nvidia"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"check": "gpus"}}, "spec": spec}
        cluster.kubectl("apply", "--filename", "-", input=json.dumps(pod), stdin=None)
    try:
        for name in names:
            cluster.kubectl("wait", "--for=condition=Ready", "--timeout=%ds" % PATIENCE, "pod/" + name)
    except LabError as problem:
        raise LabError("%s\n%s\n%s" % (problem, cluster.kubectl("describe", "pod", *names), logs())) from problem
    time.sleep(1)
    return {name: cluster.kubectl("logs", name) for name in names}


def delete_pods() -> None:
    cluster.kubectl("delete", "pod", "--now", "--selector", "check=gpus")


def the_device(output: str, uuids: t.Collection[str]) -> str:
    """The UUID of the only MIG device in the output of nvidia-smi -L."""
    gpus, found = output.count("GPU 0:"), re.findall(r"UUID: (MIG-[-0-9a-f]+)", output)
    if gpus != 1 or len(found) != 1 or found[0] not in uuids:
        raise LabError("nvidia-smi -L in a pod should list one MIG device of the node, but printed:\n%s" % output)
    return str(found[0])
