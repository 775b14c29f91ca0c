# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The story without root: layouts on a simulated node, through the real playbook, modules and nvidia-smi."""

from __future__ import annotations

import story_day
import telling
from node import Node
from telling import Chapters, DemoError, say

DRIVER = "550.163.01"
MORNING = story_day.MIG % "morning"


def tell(node: Node, chapters: Chapters) -> None:
    chapters.begin("A node with eight GPUs")
    node.nvsim("create", "--gpus", "8", "--board", "A100-80GB", "--driver", DRIVER)
    say(
        """This is a simulated node: eight A100 80GB behind a stand-in for NVIDIA's driver library that refuses what
        real hardware refuses. Everything above it is real: Ansible, the playbook, the modules, NVIDIA's Python
        bindings, and nvidia-smi. All GPUs are whole; nothing is partitioned yet."""
    )
    node.nvidia_smi(range(8))

    chapters.begin("Look before you leap: check mode")
    say(
        """The layout asks for a mix: GPUs 0 to 3 in four instances each, 4 and 5 in seven, 6 as one large instance,
        7 left whole. Check mode plans every GPU, writes nothing, and draws what would change. Lines with a minus are
        the GPUs as they are, lines with a plus as they would be; a cell is one GPU instance, as wide as its share of
        memory."""
    )
    looked = node.playbook(MORNING + " --check --diff")
    telling.output(looked.maps())
    telling.output(looked.told())
    if any(gpu["gpu_instances"] or gpu["mode_current"] for gpu in node.gpus()):
        raise DemoError("check mode changed a GPU")

    chapters.begin("For real")
    say(
        """The same command without --check. All eight GPUs are changed side by side, every instance at a placement
        that was worked out beforehand, and read back afterwards."""
    )
    telling.output(node.playbook(MORNING).told())
    node.nvidia_smi([0, 6, 7])

    chapters.begin("And again: nothing to do")
    say(
        """A second run finds every GPU as it should be and touches none. That is what makes it safe to run from a
        schedule, or by three colleagues at once."""
    )
    again = node.playbook(MORNING)
    telling.output(again.told())
    if again.changed():
        raise DemoError("the second run changed something")

    story_day.tell(node, chapters)
