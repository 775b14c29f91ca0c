# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The guides' own playbooks and commands, with the example inventory on a simulated node."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import yaml

from ansible_collections.gpufleet.node.tests.playbooks.conftest import TOP, Fleet


def blocks(guide: str, language: str) -> list[str]:
    return re.findall(r"(?ms)^```%s\n(.*?)^```" % language, (TOP / "docs" / guide).read_text())


def write_files(guide: str, folder: Path, node: Path) -> None:
    """Write the files that the guide shows."""
    for text in blocks(guide, "yaml"):
        name = re.match(r"# (\w+\.yml)", text)
        if name:
            (folder / name[1]).write_text(text.replace("/tmp/node", str(node)))


def test_an_inventory_on_the_simulator(tmp_path: Path) -> None:
    node = tmp_path / "node"
    write_files("simulator.md", tmp_path, node)
    for name in ("inventory", "playbooks", "simulator", ".cache"):
        (tmp_path / name).symlink_to(TOP / name)
    (commands,) = blocks("simulator.md", "console")
    lines = [line[2:].replace("/tmp/node", str(node)) for line in commands.splitlines() if line != "$ make build"]
    done = subprocess.run(
        ["bash", "-ec", "\n".join([*lines, "ansible-playbook layouts.yml -i inventory"])],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "|2g.20gb        |2g.20gb        |3g.40gb                        |" in done.stdout
    assert len(re.findall("(?m)^  GI ", done.stdout)) == 10  # listed by nvsim show


def test_the_layout_of_a_node_is_recorded_in_the_inventory(fleet: Fleet) -> None:
    write_files("day_two.md", fleet.work, fleet.work)
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1}}]
    fleet.node("here", "--board", "A100-80GB")
    fleet.play("gpufleet.node.mig", nvidia_mig_layout=layout)
    fleet.play(fleet.work / "export.yml")
    exported = yaml.safe_load((fleet.work / "host_vars/here/nvidia_mig.yml").read_text())
    assert exported["nvidia_mig_layout"][0]["mig_devices"] == [{"profile": "3g.40gb", "start": 4}]
