# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/mig.yml and the role nvidia_mig on simulated nodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PLAYBOOK = Path(__file__).resolve().parents[2] / "playbooks" / "mig.yml"
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 3}}]
INSTANCES = ["1g.10gb at 0", "1g.10gb at 1", "1g.10gb at 2", "3g.40gb at 4"]


@pytest.fixture(name="play")
def fixture_play(tmp_path):
    def play(node, *arguments, fails=False, **variables):
        variables.setdefault("nvidia_mig_layout", LAYOUT)
        variables.update(nvidia_mig_lock_path=str(tmp_path / "lock"), nvidia_mig_record_path=str(tmp_path))
        return node.play(PLAYBOOK, variables, *arguments, fails=fails)

    return play


def recap(output):
    return {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", output[output.rindex("PLAY RECAP") :])}


def test_check_apply_and_apply_again(make_node, play):
    node = make_node("--board", "A100-80GB", "--gpus", "2")
    checked = play(node, "--check", "--diff")
    assert recap(checked)["changed"] == 1
    assert "|1g.10gb|1g.10gb|1g.10gb|.......|3g.40gb " in checked
    assert node.instances() == [[], []]

    applied = play(node, "--diff")
    assert recap(applied)["changed"] == 1
    assert node.instances() == [INSTANCES, INSTANCES]

    again = play(node, "--diff")
    assert recap(again)["changed"] == 0
    assert recap(again)["failed"] == 0
    assert node.instances() == [INSTANCES, INSTANCES]


def test_nvidia_smi_backend(make_node, play, nvidia_smi):
    node = make_node("--board", "A100-80GB")
    assert recap(play(node, nvidia_mig_backend="nvidia_smi"))["failed"] == 0
    assert node.instances() == [INSTANCES]


def test_keeps_idle_instances_if_disturb_is_false(make_node, play):
    node = make_node("--board", "A100-80GB")
    play(node)
    large = [{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}]
    failed = play(node, fails=True, nvidia_mig_layout=large, nvidia_mig_disturb=False)
    assert "disturb" in failed
    assert node.instances() == [INSTANCES]
