# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo with root and podman: site.yml provisions a bare machine, and the layout survives a reboot."""

from __future__ import annotations

import re
import shlex

import layout_changes
import programs
import screen
from lab_node import INVENTORIES, LabNode
from screen import DemoError

import playbooks
from playbooks import Event

SITE = "site.yml"
INVENTORY = "site.yml"
DEVICE = "4:2"
MINORS = "/proc/driver/nvidia-caps/mig-minors"
PARTITIONED = 7
INSTANCES = 4 * 4 + 2 * 7 + 1
PARTS = {
    "nvidia_driver": "driver",
    "nvidia_container_toolkit": "container toolkit and containerd",
    "rke2": "RKE2",
    "gpu_cluster": "GPU operator",
    "gpu_operator": "GPU operator",
    "nvidia_mig": "MIG layout and boot restore",
}


def introduce() -> None:
    screen.chapter("A bare machine with eight GPUs")
    screen.paragraph(
        """The demo first creates a machine: Debian 12 with systemd and ssh in a container, with eight A100 80GB on its
        PCI bus. The GPUs are simulated, including the driver library, modprobe, resets and reboots. Local package
        repositories replace NVIDIA's. The first run takes 2 to 4 minutes to build all this. Later runs reuse it and
        take seconds."""
    )


def show(node: LabNode) -> None:
    show_fresh_node(node, INVENTORY, gpus=8)

    screen.chapter("Preview in check mode")
    screen.paragraph(
        """site.yml first checks every node, and reports all problems before it changes any. With --check --diff, it
        shows the changes that it would make. Only these are shown here. The full output of Ansible is in %s, also with
        the map of the MIG layout, which is drawn from gpu_node_boards, because there is no driver yet."""
        % programs.LOG.relative_to(programs.TOP)
    )
    before = packages(node)
    preview = node.playbook(SITE + " --check --diff", part=part)
    show_changes(preview)
    if packages(node) != before:
        raise DemoError("check mode changed the node's packages")

    screen.chapter("From a bare machine to partitioned GPUs")
    screen.paragraph(
        """The same without --check. It installs the driver from a signed repository, pins and holds its version,
        installs NVIDIA's container toolkit, and configures the nvidia runtime in containerd. Then it resets idle GPUs,
        applies the MIG layout, and installs a unit that restores it at boot. At the end it verifies the node."""
    )
    node.playbook(SITE + " --diff", part=part).show()
    node.nvidia_smi([0, 6, 7])
    check_instances(node, "after site.yml")

    screen.chapter("Second run: no change")
    screen.paragraph("""A second run checks everything and changes nothing.""")
    node.playbook_again(SITE, part)

    screen.chapter("Give a container one MIG device")
    run_container(node)

    screen.chapter("Reboot")
    reboot(node)

    layout_changes.show(node)


def part(event: Event) -> str | None:
    """Return the part of site.yml that a task belongs to."""
    if event["play"].startswith("Check every node"):
        return "preflight checks of all nodes"
    if event["task"].startswith(("verify |", "Validating arguments against arg spec 'verify'")):
        return "verification" if event["role"] == "gpu_node" else None
    return PARTS.get(event["role"])


def show_fresh_node(node: LabNode, inventory: str, gpus: int) -> None:
    """Show the fresh node and its inventory."""
    found = node.run(["lspci"])
    screen.command("lspci | grep -c NVIDIA")
    screen.output(str(found.count("NVIDIA")))
    screen.command("nvidia-smi")
    status, output = programs.call(node.on_node(["sh", "-c", "nvidia-smi"]))
    screen.output(output)
    if status != 127 or found.count("NVIDIA") != gpus:
        raise DemoError("the fresh node has a driver, or not the expected number of GPUs: %d" % gpus)
    screen.paragraph(
        """This is the complete inventory of the node (demo/inventory/lab.yml adds the addresses of the lab):"""
    )
    lines = (INVENTORIES / inventory).read_text().splitlines()
    screen.output("\n".join(lines[lines.index("gpu_nodes:") :]))


def packages(node: LabNode) -> str:
    return node.run(["dpkg-query", "--show"])


def show_changes(run: playbooks.Run) -> None:
    """Print one line per change, with its message. Of the diffs, print only those of package sources."""
    for event in run.changes:
        screen.output("* %s: %s" % (event["role"], event["task"].rpartition(" | ")[2]))
        if event["action"] == "debug":
            screen.output("    " + screen.wrapped(event["message"]).replace("\n", "\n    "))
        elif "repository" in event["task"]:
            added = [line for line in event["diff"].splitlines() if re.match(r"[+][A-Z]", line)]
            screen.output("\n".join("    " + line for line in added))
    screen.output(run.recap_lines())


def check_instances(node: LabNode, when: str) -> None:
    """Check that all instances exist."""
    found = sum(len(gpu["gpu_instances"]) for gpu in node.gpus())
    if found != INSTANCES:
        raise DemoError("%s there are %d GPU instances instead of %d" % (when, found, INSTANCES))


def run_container(node: LabNode) -> None:
    screen.paragraph(
        """The CDI specification lists every MIG device. A container that requests %s, the third instance of GPU 4, gets
        the device of that GPU and the two capability devices of this instance, and no other GPU or instance."""
        % DEVICE
    )
    words = ["ctr", "run", "--rm", "--runc-binary", "/usr/bin/nvidia-container-runtime"]
    words += ["--env", "NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=" + DEVICE, "--rootfs", "/srv/container", "demo"]
    words += ["/usr/bin/find", "/dev", "-regex", r".*/nvidia\(-cap\)?[0-9]+"]
    devices = node.run(words, " ".join(map(shlex.quote, words))).split()
    numbers = sorted(re.findall(r"cap(\d+)", " ".join(devices)))
    which = " (%s)$" % "|".join(numbers)
    named = node.run(["grep", "-E", which, MINORS], "grep -E '%s' %s" % (which, MINORS)).splitlines()
    opens = re.compile(r"gpu%s/gi\d+/(ci0/)?access \d+$" % DEVICE[0])
    if len(devices) != 3 or "/dev/nvidia" + DEVICE[0] not in devices or not all(map(opens.match, named)):
        raise DemoError("these are not the devices of %s" % DEVICE)


def reboot(node: LabNode) -> None:
    screen.paragraph(
        """MIG instances do not survive a reboot, by NVIDIA's design. The unit gpufleet-mig-restore recreates them from
        a copy of the layout on the node, without Ansible, before the services that use GPUs start."""
    )
    node.reboot()
    output = node.run(["journalctl", "--unit", "gpufleet-mig-restore", "--output", "cat", "--no-pager"]).splitlines()
    lines = [line for line in output if line.startswith("GPU ")][-8:]
    screen.command("journalctl -u gpufleet-mig-restore -o cat | grep ^GPU")
    screen.output("\n".join(lines))
    if sum(line.endswith(" restored") for line in lines) != PARTITIONED:
        raise DemoError("the unit gpufleet-mig-restore did not restore the layout")
    check_instances(node, "after the reboot")
