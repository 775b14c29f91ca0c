# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The demo without root: layouts on a simulated node, with the real playbook, modules and nvidia-smi."""

from __future__ import annotations

import layout_changes
import screen
from node import Node
from screen import DemoError

DRIVER = "550.163.01"
MORNING = layout_changes.MIG % "morning"


def show(node: Node) -> None:
    screen.chapter("A node with eight GPUs")
    node.nvsim("create", "--gpus", "8", "--board", "A100-80GB", "--driver", DRIVER)
    screen.paragraph(
        """This is a simulated node with eight A100 80GB. The driver library is simulated, and rejects what real
        hardware rejects. Ansible, the playbook, the modules, NVIDIA's Python bindings and nvidia-smi are real. No GPU
        is partitioned yet."""
    )
    node.nvidia_smi(range(8))

    screen.chapter("Preview in check mode")
    screen.paragraph(
        """The layout: four instances on each of GPUs 0 to 3, seven on each of GPUs 4 and 5, one large instance on GPU
        6, and no MIG on GPU 7. Check mode plans every GPU, writes nothing, and draws the change. A minus marks the
        current state, a plus the new state. Each cell is one GPU instance, as wide as its share of memory."""
    )
    preview = node.playbook(MORNING + " --check --diff")
    preview.show()
    if any(gpu["gpu_instances"] or gpu["mode_current"] for gpu in node.gpus()):
        raise DemoError("check mode changed a GPU")

    screen.chapter("Apply")
    screen.paragraph(
        """The same command without --check. All eight GPUs are changed in parallel. Every instance gets the placement
        in the plan, and is read back afterwards."""
    )
    node.playbook(MORNING).show()
    node.nvidia_smi([0, 6, 7])

    screen.chapter("Second run: no change")
    screen.paragraph(
        """A second run finds that every GPU matches the layout, and changes nothing. It is safe to schedule."""
    )
    node.playbook_again(MORNING)

    layout_changes.show(node)
