# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The story with root and podman: site.yml takes a bare machine to partitioned GPUs, and through a reboot."""

from __future__ import annotations

import re
import shlex

import playbooks
import programs
import story_day
import telling
from node_lab import NAME, NodeOfLab
from playbooks import Event
from telling import Chapters, DemoError, say

SITE = "site.yml"
INVENTORY = programs.TOP / "demo/inventory/fresh/gpu_nodes.yml"
DEVICE = "4:2"
MINORS = "/proc/driver/nvidia-caps/mig-minors"
PARTITIONED = 7
INSTANCES = 4 * 4 + 2 * 7 + 1
PARTS = {
    "nvidia_driver": "driver",
    "nvidia_container_toolkit": "container toolkit and containerd",
    "nvidia_mig": "MIG layout and its restoration at boot",
}


def introduce(chapters: Chapters) -> None:
    chapters.begin("A machine with eight GPUs, and nothing on it")
    say(
        """First a machine is made: Debian 12 with systemd and ssh in a container, with eight A100 80GB on its PCI
        bus. They are simulated, down to the driver library, modprobe, resets and reboots. Package repositories that
        stand in for NVIDIA's are built and served, too. The first time all this takes 2 to 4 minutes, and it is
        kept: from then on it takes seconds."""
    )


def tell(node: NodeOfLab, chapters: Chapters) -> None:
    bare(node)

    chapters.begin("Look before you leap: check mode")
    say(
        """site.yml first checks every node, and would tell all problems at once before it touches any. With --check
        --diff it tells what it would do then; the MIG layout has to wait for a driver. Of what Ansible prints, this
        shows what would change; the whole is in %s."""
        % programs.LOG.relative_to(programs.TOP)
    )
    before = packages(node)
    looked = node.playbook(SITE + " --check --diff", part=part)
    told(looked)
    if packages(node) != before:
        raise DemoError("check mode changed the node's packages")

    chapters.begin("From a bare machine to partitioned GPUs")
    say(
        """The same for real: the driver from a signed repository at one version, pinned and held; NVIDIA's container
        toolkit, with containerd knowing the nvidia runtime; the MIG layout, for which idle GPUs are reset, and a
        unit that makes it again at boot. At the end the node is verified."""
    )
    done = node.playbook(SITE + " --diff", part=part)
    telling.output(done.maps())
    telling.output(done.told())
    node.nvidia_smi([0, 6, 7])
    complete(node, "after site.yml")

    chapters.begin("And again: nothing to do")
    say("""A second run looks at everything and changes nothing.""")
    again = node.playbook(SITE, part=part)
    telling.output(again.told())
    if again.changed():
        raise DemoError("the second run changed something")

    chapters.begin("A container gets one slice")
    container(node)

    chapters.begin("Reboot")
    reboot(node)

    story_day.tell(node, chapters)


def part(event: Event) -> str | None:
    """The part of site.yml that a task belongs to."""
    if event["play"].startswith("Check every node"):
        return "checks of every node, before any is touched"
    if event["task"].startswith(("verify |", "Validating arguments against arg spec 'verify'")):
        return "verification" if event["role"] == "gpu_node" else None
    return PARTS.get(event["role"])


def bare(node: NodeOfLab) -> None:
    found = node.run(["lspci"])
    telling.command("lspci | grep -c NVIDIA")
    telling.output(str(found.count("NVIDIA")))
    telling.command("nvidia-smi")
    status, output = programs.call(node.here(["sh", "-c", "nvidia-smi"]))
    telling.output(output)
    if status != 127 or found.count("NVIDIA") != 8:
        raise DemoError("the fresh node is not as it should be")
    say("""This is all that the inventory says about it (demo/inventory/fresh/lab.yml adds where the lab is):""")
    lines = INVENTORY.read_text().splitlines()
    telling.output("\n".join(lines[lines.index("gpu_nodes:") :]))


def packages(node: NodeOfLab) -> str:
    return node.run(["dpkg-query", "--show"])


def told(run: playbooks.Run) -> None:
    """The changes, a line each, with what is said about them; of diffs only whence packages come."""
    for event in run.changes:
        telling.output("* %s: %s" % (event["role"], event["task"].rpartition(" | ")[2]))
        if event["action"] == "debug":
            telling.output("    " + telling.wrapped(event["message"]).replace("\n", "\n    "))
        elif "repository" in event["task"]:
            added = [line for line in event["diff"].splitlines() if re.match(r"[+][A-Z]", line)]
            telling.output("\n".join("    " + line for line in added))
    telling.output(run.told())


def complete(node: NodeOfLab, when: str) -> None:
    """The node's own word that all instances are there."""
    found = sum(len(gpu["gpu_instances"]) for gpu in node.gpus())
    if found != INSTANCES:
        raise DemoError("%s there are %d GPU instances, and not %d" % (when, found, INSTANCES))


def container(node: NodeOfLab) -> None:
    say(
        """The CDI specification names every MIG device. A container that asks for %s, the third instance of GPU 4,
        finds that GPU's device and the two capabilities that open this instance, and no other GPU or instance."""
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


def reboot(node: NodeOfLab) -> None:
    say(
        """No MIG instance survives a reboot, by NVIDIA's design. The unit gpufleet-mig-restore makes them again from
        the node's own copy of the layout, with no Ansible, before the services that use GPUs start."""
    )
    node.reboot()
    said = node.run(["journalctl", "--unit", "gpufleet-mig-restore", "--output", "cat", "--no-pager"]).splitlines()
    lines = [line for line in said if line.startswith("GPU ")][-8:]
    telling.command("journalctl -u gpufleet-mig-restore -o cat | grep ^GPU")
    telling.output("\n".join(lines))
    if sum(line.endswith(" restored") for line in lines) != PARTITIONED:
        raise DemoError("the unit %s did not restore the layout" % NAME)
    complete(node, "after the reboot")
