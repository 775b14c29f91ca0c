# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the operator's validator: one run validates one component, and writes a file that others wait for."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from .cluster_api import ApiError, Client, Object, environment, say, start

READY = Path("/run/nvidia/validations")
HOST = "/host"
POD = "nvidia-device-plugin-validator"
PAUSE = 2
PATIENCE = 60  # seconds until the pod is created again; the original's are 300


def offered(allocatable: t.Mapping[str, str]) -> t.Optional[str]:
    """A resource that the node has."""
    names = sorted(name for name, count in allocatable.items() if count != "0")
    return next((name for name in names if name.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))), None)


def workload(node: str, resource: str, image: str, owner: Object, runtime_class: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "%s-%s" % (POD, node), "labels": {"app": POD}, "ownerReferences": [owner]},
        "spec": {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "runtimeClassName": runtime_class,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": POD,
                    "image": image,
                    "command": ["nvidia-smi", "-L"],
                    "resources": {"limits": {resource: 1}},
                }
            ],
        },
    }


def succeeds(*command: str) -> bool:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        say("%s: %s" % (" ".join(command), done.stdout.decode(errors="replace").strip()))
    return done.returncode == 0


def validate_plugin() -> None:
    """Run a pod with one of the node's resources."""
    node, namespace, client = environment("NODE_NAME"), environment("NAMESPACE"), Client("nvidia-validator")
    pods = "/api/v1/namespaces/%s/pods" % namespace
    path = "%s/%s-%s" % (pods, POD, node)
    own = client.request("GET", "%s/%s" % (pods, environment("POD_NAME")))
    # The original's controller is the ClusterPolicy, so that a drain may evict the pod.
    me = own["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": me["name"], "uid": me["uid"], "controller": True}
    client.delete(path)
    while client.get(path):
        time.sleep(PAUSE)
    resource = None
    while not resource:
        resource = offered(client.request("GET", "/api/v1/nodes/" + node)["status"]["allocatable"])
        if not resource:
            say("GPU resources are not yet discovered by the node")
            time.sleep(PAUSE)
    image = own["spec"]["initContainers"][0]["image"]
    client.request("POST", pods, workload(node, resource, image, owner, environment("RUNTIME_CLASS")))
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        pod = client.get(path)
        phase = pod["status"].get("phase") if pod else "deleted"
        say("pod %s-%s: %s" % (POD, node, phase))
        if phase == "Succeeded":
            return
        if not pod:
            sys.exit("the pod was deleted")
        time.sleep(PAUSE)
    sys.exit("the pod did not succeed in time")


def main() -> None:
    component = environment("COMPONENT")
    start("the GPU operator's validator (%s)" % component)
    READY.mkdir(parents=True, exist_ok=True)
    file = READY / (component + "-ready")
    if file.exists():
        file.unlink()
    text = ""
    if component == "driver":
        while not succeeds("chroot", HOST, "nvidia-smi", "-L"):
            time.sleep(PAUSE)
        text = "IS_HOST_DRIVER=true\nNVIDIA_DRIVER_ROOT=/\nDRIVER_ROOT_CTR_PATH=/host\nNVIDIA_DEV_ROOT=/\n"
    elif component == "toolkit":
        if not succeeds("nvidia-smi", "-L"):  # the nvidia runtime injects it
            sys.exit("the container toolkit is not ready")
    elif component == "plugin":
        try:
            validate_plugin()
        except ApiError as problem:
            sys.exit(str(problem))
    elif component == "wait":  # the original's main container
        say("all validations are successful")
        while True:
            signal.pause()
    file.write_text(text)
