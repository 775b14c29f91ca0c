# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The end of both stories: a node's layout is changed under way, and one that cannot exist is refused."""

from __future__ import annotations

import telling
from node import Node
from telling import Chapters, DemoError, say

MIG = "playbooks/mig.yml -e @demo/layouts/%s.yml"


def tell(node: Node, chapters: Chapters) -> None:
    chapters.begin("Change the layout while somebody works")
    with node.job() as pid:
        change(node, pid)

    chapters.begin("A layout that cannot exist")
    say(
        """Four times 1g.10gb beside a 4g.40gb looks harmless. It is refused before anything is touched, with the
        reason and the nearest layout that fits."""
    )
    before = node.gpus()
    refused = node.playbook(MIG % "impossible", expect=2)
    telling.output("FAILED: " + telling.wrapped(refused.failure))
    telling.output(refused.told())
    if node.gpus() != before:
        raise DemoError("the refused layout changed a GPU")


def change(node: Node, pid: int) -> None:
    """The layout changes while an instance is in use."""
    before = node.uuids(0)
    busy = max(before)  # the id of a GPU instance names its place; the highest is the last 1g.10gb of the map
    node.nvsim("attach", "--gpu", "0", "--gi", str(busy), "--pid", str(pid), "--name", "training")
    say(
        """A training job runs on a small instance of GPU 0, the second 1g.10gb of its map (GPU instance %d). In the
        evening GPU 0 should trade its 2g.20gb for two more small ones, and GPU 4 two small ones for a 2g.20gb. The
        usual tools would destroy every instance on both GPUs for that, or fail because of the job. Here the plan
        keeps whatever already matches, and an instance in use always."""
        % busy
    )
    run = node.playbook(MIG % "evening" + " --diff")
    telling.output(run.maps())
    telling.output(run.told())
    after = node.uuids(0)
    stayed = sorted(instance for instance in before if after.get(instance) == before[instance])
    if busy not in stayed:
        raise DemoError("the busy instance did not survive")
    if pid not in [process["pid"] for process in node.gpus()[0]["processes"]]:
        raise DemoError("the job lost its instance")
    say(
        """GPU 0 kept %d of its %d instances, the one in use among them. Its UUID was and is %s: the job did not
        notice."""
        % (len(stayed), len(before), before[busy])
    )
