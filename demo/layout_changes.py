# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The last chapters of both demos: change a layout under load, and reject an impossible layout."""

from __future__ import annotations

import screen
from node import Node
from screen import DemoError

MIG = "playbooks/mig.yml -e @demo/layouts/%s.yml"


def show(node: Node) -> None:
    screen.chapter("Change the layout under a running job")
    with node.job() as pid:
        change(node, pid)

    screen.chapter("Reject an impossible layout")
    screen.paragraph(
        """A 4g.40gb and four 1g.10gb do not fit on one GPU. The layout is rejected before any change, with the reason
        and the nearest layout that fits."""
    )
    before = node.gpus()
    rejected = node.playbook(MIG % "impossible", expect=2)
    screen.output("FAILED: " + screen.wrapped(rejected.failure))
    rejected.show()
    if node.gpus() != before:
        raise DemoError("the rejected layout changed a GPU")

    screen.paragraph(
        """In summary: declare the desired layout, preview the change, and apply it with minimal disruption; an
        impossible layout is rejected before any change. README.md describes how to run these commands with the
        collection installed and your own inventory. To experiment with a simulated node, see
        simulator/README.md; with whole machines, see tests/lab/README.md. `make test` runs all tests."""
    )


def change(node: Node, pid: int) -> None:
    """Change the layout while an instance is in use."""
    before = node.uuids(0)
    busy = max(before)  # the highest GPU instance id is the last 1g.10gb of the map
    node.nvsim("attach", "--gpu", "0", "--gi", str(busy), "--pid", str(pid), "--name", "training")
    screen.paragraph(
        """A training job uses the second 1g.10gb of GPU 0 (GPU instance %d). The new layout replaces the 2g.20gb of
        GPU 0 with two more 1g.10gb, and two 1g.10gb of GPU 4 with a 2g.20gb. Other tools would destroy every instance
        on both GPUs, or fail because of the job. This plan keeps every instance that already matches, and never
        destroys an instance in use."""
        % busy
    )
    node.playbook(MIG % "evening" + " --diff").show()
    after = node.uuids(0)
    kept = sorted(instance for instance in before if after.get(instance) == before[instance])
    if busy not in kept:
        raise DemoError("the busy instance did not survive")
    if pid not in [process["pid"] for process in node.gpus()[0]["processes"]]:
        raise DemoError("the job lost its instance")
    screen.paragraph(
        """GPU 0 kept %d of its %d instances. The one in use still has the UUID %s, and the job was not interrupted."""
        % (len(kept), len(before), before[busy])
    )
