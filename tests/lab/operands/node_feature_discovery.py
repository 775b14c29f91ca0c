# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for node feature discovery: only the label of NVIDIA's PCI devices."""

from __future__ import annotations

from pathlib import Path

from .cluster_api import Client, environment, forever, start

DEVICES = Path("/host/sys/bus/pci/devices")
LABEL = "feature.node.kubernetes.io/pci-10de.present"
VENDOR = "0x10de"
CLASSES = ("0x02", "0x03")


def present(devices: Path) -> bool:
    for device in devices.iterdir():
        if (device / "vendor").read_text().strip() == VENDOR:
            if (device / "class").read_text().startswith(CLASSES):
                return True
    return False


def main() -> None:
    start("node feature discovery")
    node, client = environment("NODE_NAME"), Client("nfd-master")

    def step() -> None:
        labels = {LABEL: "true"} if present(DEVICES) else {}
        wanted = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": labels}}
        client.apply("/api/v1/nodes/" + node, wanted)

    forever(step, 60)
