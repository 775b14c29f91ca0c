# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks that the cluster works: nodes, pods, logs, the device plugins' socket, and that credentials are required."""

from __future__ import annotations

import json
import ssl
import typing as t
import urllib.error
import urllib.request

from . import cluster, nodes, podimages
from .cluster_files import PORT
from .places import LabError, succeeds

SOCKET = "/var/lib/kubelet/device-plugins/kubelet.sock"
KUBELET_PORT = 10250
PATIENCE = "60s"


def run() -> t.Iterator[str]:
    """Run all checks; yield a line for each that passes."""
    conditions = cluster.conditions()
    members = cluster.current()
    for node in members:
        if conditions.get(node.name, {}).get("status") != "True":
            raise LabError("%s is not Ready: %s" % (node.name, conditions.get(node.name)))
        yield "%s: Ready" % node.name
        if not succeeds(*nodes.command_on(node.name, "test", "-S", SOCKET)):
            raise LabError("%s: the kubelet provides no %s" % (node.name, SOCKET))
        yield "%s: the kubelet provides %s" % (node.name, SOCKET)
        yield "%s: a pod ran and printed: %s" % (node.name, pod_output(node.name))
    requests = {"the API server": "https://%s:%d/api" % (members[0].address, PORT)}
    requests.update({"the kubelet of " + node.name: kubelet_url(node) for node in members})
    for who, url in requests.items():
        status = anonymous(url)
        if status != 401:
            raise LabError("%s answers a request without credentials with status %d, not 401" % (who, status))
        yield "%s requires credentials" % who


def kubelet_url(node: nodes.Node) -> str:
    return "https://%s:%d/pods" % (node.address, KUBELET_PORT)


def pod_output(node: str) -> str:
    """Run a pod on a node, and return its log."""
    name, word = "check-" + node, "hello from " + node
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": podimages.BUSYBOX, "command": ["echo", word]}],
        },
    }
    try:
        cluster.kubectl("apply", "--filename", "-", input=json.dumps(pod), stdin=None)
        succeeded = "--for=jsonpath={.status.phase}=Succeeded"
        try:
            cluster.kubectl("wait", succeeded, "--timeout", PATIENCE, "pod/" + name)
        except LabError as problem:
            raise LabError("%s\n%s" % (problem, cluster.kubectl("describe", "pod", name))) from problem
        said = cluster.kubectl("logs", name).strip()
    finally:
        cluster.kubectl("delete", "pod", name, "--ignore-not-found", "--now")
    if said != word:
        raise LabError("the log of pod %s should be %r, but is %r" % (name, word, said))
    return said


def anonymous(url: str) -> int:
    """The status of a request without credentials."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as problem:
        return problem.code
    except OSError as problem:
        raise LabError("%s: %s" % (url, problem)) from problem
