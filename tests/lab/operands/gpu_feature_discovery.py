# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for GPU feature discovery 0.20. The original lets node feature discovery set the labels; this sets them itself."""

from __future__ import annotations

import os
import sys
import time
import typing as t
from pathlib import Path

from . import gpus, labels, plugin_config
from .cluster_api import Client, environment, forever, reload_on_hangup, say, start
from .resources import Invalid

SYSFS = (Path("/host/sys"), Path("/sys"))
PRODUCT = "class/dmi/id/product_name"
INTERVAL = 60.0


def sysfs(name: str) -> t.Optional[str]:
    """The content of the node's file, or of the container's if the node's root directory is not mounted."""
    return next(((root / name).read_text().strip() for root in SYSFS if (root / name).exists()), None)


def interval(text: str) -> float:
    """Seconds of a duration such as "60s" or "1m"."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    return float(text[:-1]) * units[text[-1]] if text else INTERVAL


def main() -> None:
    start("GPU feature discovery")
    reload_on_hangup()
    node, client = environment("NODE_NAME"), Client("gpu-feature-discovery")

    def write(found: labels.Labels) -> None:
        wanted = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": found}}
        client.apply("/api/v1/nodes/" + node, wanted)
        say("wrote %d labels" % len(found))

    def step() -> None:
        inventory = gpus.read()
        classes = {sysfs("bus/pci/devices/%s/class" % gpu.bus_id) or "" for gpu in inventory.gpus}
        strategy = os.environ.get("MIG_STRATEGY", "none")
        found = labels.labels(inventory, strategy, sysfs(PRODUCT) or "unknown", classes, replicas)
        if os.environ.get("GFD_NO_TIMESTAMP", "false").lower() != "true":
            found["nvidia.com/gfd.timestamp"] = str(int(time.time()))
        write(found)

    try:
        replicas = plugin_config.load(os.environ)
        forever(step, interval(os.environ.get("GFD_SLEEP_INTERVAL", "")))
    except Invalid as problem:
        write({})  # the original removes its file, and node feature discovery then the labels
        sys.exit("error creating labeler: %s" % problem)
