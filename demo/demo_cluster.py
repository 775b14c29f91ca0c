# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo of Kubernetes: pods get the MIG devices of a GPU under the strategies none, single and mixed."""

from __future__ import annotations

import json
import re

import demo_site
import screen
from lab_node import NAME, LabNode
from screen import DemoError

INVENTORY = "cluster.yml"
KUBECTL = ["/var/lib/rancher/rke2/bin/kubectl", "--kubeconfig=/etc/rancher/rke2/rke2.yaml"]
TIMEOUT = "--timeout=180s"  # until pods run
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: %(name)s}
spec:
  parallelism: %(pods)d
  completions: %(pods)d
  template:
    metadata: {labels: {demo: pods}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      runtimeClassName: nvidia
      containers:
        - name: gpu
          image: localhost/glibc:1
          command: [sh, -c, nvidia-smi -L; sleep 600]
          resources: {limits: {%(resource)s: 1}}
"""


def introduce() -> None:
    screen.chapter("A bare machine with one GPU")
    screen.paragraph(
        """The demo first creates a machine: Debian 12 with systemd and ssh in a container, with one A100 80GB on its
        PCI bus. The GPU is simulated, including the driver library. Kubernetes, containerd, runc, helm-controller and
        the container toolkit are real. Stand-ins take the place of RKE2, which starts them, and of NVIDIA's operator,
        device plugin and GPU feature discovery; tests/lab/README.md describes what they keep of the originals. The
        first run builds Kubernetes, which takes about ten minutes on two idle cores. Later runs reuse it."""
    )


def show(node: LabNode) -> None:
    demo_site.show_fresh_node(node, INVENTORY, gpus=1)

    screen.chapter("From a bare machine to a GPU node of a cluster")
    screen.paragraph(
        """site.yml installs the driver, the container toolkit, RKE2 and the GPU operator. The toolkit is installed
        before RKE2's first start, so that its containerd knows the runtime nvidia. At the end it waits until the node
        advertises its GPU."""
    )
    provision(node, "")
    kubectl(node, "get", "nodes")
    kubectl(node, "get", "runtimeclass", "nvidia")

    screen.chapter("A job, under the strategy none")
    screen.paragraph("""MIG is disabled, and the GPU is one resource.""")
    check_resources(node, {"nvidia.com/gpu": 1})
    screen.paragraph("""All jobs of the demo have this manifest, with other names, numbers of pods and resources:""")
    screen.output(JOB % {"name": "list-0", "pods": 1, "resource": "nvidia.com/gpu"})
    run_pods(node, {"nvidia.com/gpu": 1}, r"^GPU 0: .* \(UUID: (GPU-\S+)\)$")

    screen.chapter("Seven pods, under the strategy single")
    screen.paragraph(
        """The layout is now seven 1g.10gb. Under single, each of these MIG devices is one nvidia.com/gpu."""
    )
    provision(node, " -e @demo/layouts/single.yml")
    check_resources(node, {"nvidia.com/gpu": 7})
    run_pods(node, {"nvidia.com/gpu": 7})

    screen.chapter("Three pods, under the strategy mixed")
    screen.paragraph(
        """The layout is now 3g.40gb, 2g.20gb and 1g.10gb. Under mixed, each profile is a resource of its own."""
    )
    provision(node, " -e @demo/layouts/mixed.yml")
    mixed = {"nvidia.com/mig-3g.40gb": 1, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-1g.10gb": 1}
    check_resources(node, mixed)
    run_pods(node, mixed)

    screen.chapter("MIG off again")
    screen.paragraph("""The inventory disables MIG; the layouts above were on the command line.""")
    provision(node, "")
    check_resources(node, {"nvidia.com/gpu": 1})

    screen.chapter("Second run: no change")
    node.playbook_again(demo_site.SITE, demo_site.part)

    screen.paragraph(
        """In summary: one inventory describes the driver, the cluster, the layout and the strategy, and one playbook
        applies it. The READMEs of the roles rke2, gpu_operator and device_plugin list their variables."""
    )


def provision(node: LabNode, options: str) -> None:
    node.playbook(demo_site.SITE + " --diff" + options, part=demo_site.part).show()


def kubectl(node: LabNode, *words: str) -> str:
    return node.run([*KUBECTL, *words], " ".join(["kubectl", *words]))


def check_resources(node: LabNode, expected: dict[str, int]) -> None:
    """Print an excerpt of the node's labels and resources, and compare the resources."""
    found = json.loads(node.run([*KUBECTL, "get", "node", NAME, "--output=json"]))
    labels = found["metadata"]["labels"]
    screen.command("kubectl describe node %s  # excerpt" % NAME)
    shown = ("nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/mig.capable", "nvidia.com/mig.strategy")
    screen.output("\n".join("%s=%s" % (name, labels[name]) for name in shown if name in labels))
    allocatable = {name: int(count) for name, count in found["status"]["allocatable"].items() if "nvidia" in name}
    screen.output("Allocatable:\n" + "\n".join("  %s: %d" % each for each in sorted(allocatable.items()) if each[1]))
    if {name: count for name, count in allocatable.items() if count} != expected:
        raise DemoError("the node advertises %s instead of %s" % (allocatable, expected))


def run_pods(node: LabNode, resources: dict[str, int], line: str = r"^ +MIG .*\(UUID: (MIG-\S+)\)$") -> None:
    """Run one pod for each device at the same time, and check that nvidia-smi lists another UUID in each."""
    for number, (resource, pods) in enumerate(resources.items()):
        manifest = JOB % {"name": "list-%d" % number, "pods": pods, "resource": resource}
        node.run(["sh", "-c", 'printf %s "$1" >/root/job-$2.yml', "sh", manifest, str(number)])
        kubectl(node, "apply", "--filename", "/root/job-%d.yml" % number)
    for number, pods in enumerate(resources.values()):
        kubectl(node, "wait", "job/list-%d" % number, "--for=jsonpath={.status.ready}=%d" % pods, TIMEOUT)
    output = kubectl(node, "logs", "--selector=demo=pods", "--tail=-1", "--max-log-requests=10")
    uuids = re.findall(line, output, re.MULTILINE)
    if len(uuids) != sum(resources.values()) or len(set(uuids)) < len(uuids):
        raise DemoError("the pods do not have one device each")
    if len(uuids) > 1:
        screen.paragraph("""%d pods, %d different UUIDs.""" % (len(uuids), len(set(uuids))))
    node.run([*KUBECTL, "delete", "jobs", "--all", "--wait", "--cascade=foreground"])
