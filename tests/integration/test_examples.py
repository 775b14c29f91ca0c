# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the examples in the modules' documentation on a node with matching GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.modules import nvidia_driver_facts, nvidia_mig

MIG_PARTED = {
    "version": "v1",
    "mig-configs": {"all-balanced": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 2}}]},
}


@pytest.mark.parametrize(
    "module", [nvidia_mig, nvidia_driver_facts], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_examples(make_node, tmp_path: Path, module):
    node = make_node(
        *("--board", "A100-80GB", "--gpus", "8"),
        *("--uuid", "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"),
        *("--bus-id", "00000000:07:00.0", "--bus-id", "00000000:47:00.0"),
    )
    config = tmp_path / "mig-parted.yaml"
    config.write_text(yaml.safe_dump(MIG_PARTED))
    text = module.EXAMPLES.replace("/etc/nvidia-mig-manager/config.yaml", str(config))
    tasks = yaml.safe_load(text.replace("'mig-parted.yaml'", "'%s'" % config).replace("/run/", "%s/" % tmp_path))
    playbook = tmp_path / "examples.yml"
    play = {"hosts": "gpu_nodes", "gather_facts": False, "tasks": tasks}
    play["module_defaults"] = {"gpufleet.node.nvidia_mig": {"lock_path": str(tmp_path / "lock")}}
    playbook.write_text(yaml.safe_dump([play]))
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}]
    printed = node.play(playbook, {"nvidia_mig_layout": layout}, "--check")
    assert "ok=%d" % len(tasks) in printed


def test_defaults_of_the_action_group(make_node, tmp_path: Path):
    """They do not disturb modules outside the group, which have other options."""
    node = make_node("--board", "A100-80GB")
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}]
    defaults = {"layout": layout, "reset": True, "lock_path": str(tmp_path / "lock")}
    play = {
        "hosts": "gpu_nodes",
        "gather_facts": False,
        "module_defaults": {"group/gpufleet.node.gpu": defaults},
        "tasks": [{"gpufleet.node.nvidia_mig": {}}, {"gpufleet.node.nvidia_driver_facts": {}}],
    }
    playbook = tmp_path / "group.yml"
    playbook.write_text(yaml.safe_dump([play]))
    node.play(playbook, {})
    assert node.instances() == [["7g.80gb at 0"]]
