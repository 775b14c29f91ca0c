# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook verify.yml."""

from __future__ import annotations

import os
import re

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import Fleet
from ansible_collections.gpufleet.node.tests.playbooks.site_support import (
    INSTANCES,
    LAYOUT,
    OFF,
    SITE,
    UNREADABLE,
    VERIFY,
)


def test_verify_reports_host_gpu_and_remedy(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    systemctl = fleet.work / "bin" / "systemctl"  # see below
    monkeypatch.setenv("PATH", str(systemctl.parent), prepend=":")
    fleet.node("whole", "--board", "A100-80GB")
    fleet.node("reset", "--board", "A100-80GB", "--gpus", "2", "--uuid", "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60")
    fleet.play(SITE, "--tags", "mig", nvidia_mig_layout=LAYOUT)
    assert fleet.play(VERIFY, nvidia_mig_layout=LAYOUT).count("reset", "changed") == 0

    fleet.nvsim("reset", "reset", "--gpu", "0")
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT)
    assert run.count("whole", "failed") == 0
    assert run.count("reset", "failed") == 1
    assert "reset does not match the inventory:" in run.output
    # The map, as --diff shows it: the current and the desired instances of the GPU that differs.
    assert re.search(
        r"layout: GPU 0 GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60\n  -GPU 0 GPU-9f0c[^|\n]* \|\.+\|\n"
        r"  \+GPU 0 GPU-9f0c[^|\n]* \|1g\.10gb\|1g\.10gb\|1g\.10gb\|\.+\|3g\.40gb +\|\n"
        r"  The role last changed the GPUs 20[0-9: -]+ UTC by \S*@\S+ \(it is now 20[0-9: -]+\)\. Apply the layout with mig",
        run.output,
    )
    assert "GPU 1" not in run.output
    assert fleet.instances("reset") == [[], INSTANCES]

    systemctl.parent.mkdir()
    systemctl.write_text("#!/bin/sh\ntest \"$*\" = 'is-enabled --quiet nvidia-mig-manager.service'\n")
    systemctl.chmod(0o755)
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT)
    assert run.count("whole", "failed") == 1
    assert "nvidia-mig-manager.service is enabled" in run.output
    assert "GPUs do not match nvidia_mig_layout: GPU 0 GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60" in run.output


# The record of the machine that runs the tests is not read.
RECORDED = """
- hosts: gpu_nodes
  gather_facts: false
  module_defaults:
    ansible.builtin.setup: {fact_path: "%s"}
  tasks:
    - ansible.builtin.include_role: {name: gpufleet.node.gpu_node, tasks_from: verify}
"""


def test_verify_does_not_check_roles_that_nothing_requests(fleet: Fleet) -> None:
    """On a node where only mig.yml has run, driver and container toolkit came from elsewhere."""
    (fleet.work / "facts").mkdir()
    (fleet.work / "facts" / "gpufleet.fact").write_text('{"nvidia_mig": {"unit": "gpufleet-mig-restore.service"}}')
    playbook = fleet.work / "verify.yml"
    playbook.write_text(RECORDED % (fleet.work / "facts"))
    fleet.node("alone", "--board", "A100-80GB")
    fleet.node("given", "--board", "A100-80GB", nvidia_container_toolkit_hold=False)
    for name in [each for each in fleet.variables if each.startswith(("nvidia_container", "nvidia_driver"))]:
        del fleet.variables[name]
    run = fleet.play(playbook, fails=True, gpu_node_roles=["all"], nvidia_mig_layout=OFF)
    assert (run.count("alone", "failed"), run.count("given", "failed")) == (0, 1)
    output = " ".join(run.output.split())
    assert "alone is not verified for nvidia_driver, nvidia_container_toolkit: only nvidia_mig has run on it" in output
    assert "given is not verified for nvidia_driver: " in output
    assert "no package of the container toolkit is installed" in output
    assert "no package of the driver is installed" not in output


def test_verify_names_the_process_that_blocks_the_change(fleet: Fleet) -> None:
    fleet.node("busy", "--board", "H100-80GB")
    fleet.nvsim("attach", "busy", "--gpu", "0", "--pid", str(os.getpid()), "--name", "training")
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT, gpu_node_roles=["nvidia_mig"])
    assert re.search(
        r"- GPUs do not match nvidia_mig_layout: GPU 0 GPU-\S+\n  -GPU 0 .*MIG off\n  \+GPU 0 ", run.output
    )
    assert "|  blocked by PID %d (training)\n" % os.getpid() in run.output
    assert "while PID %d (training) uses the GPU. Stop it and run again\n" % os.getpid() in run.output


def test_verify_reports_problems_of_the_host_and_of_the_cluster_together(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB")
    run = fleet.play(
        VERIFY,
        fails=True,
        nvidia_mig_layout=LAYOUT,
        gpu_node_roles=["nvidia_mig", "gpu_cluster", "device_plugin"],
        device_plugin_version="0.20.0",
        gpu_cluster_kubeconfig=str(fleet.work / "nosuch"),
    )
    message = run.output[run.output.index("here does not match the inventory:") :]
    assert "Apply the layout with mig.yml" in message
    assert re.search(UNREADABLE, message)


def test_verify_counts_the_gpus(fleet: Fleet) -> None:
    fleet.node("small", "--board", "A100-80GB", gpu_node_boards=["A100-80GB"] * 2)
    fleet.node("other", "--board", "A100-80GB", gpu_node_boards=["H100-80GB"])
    run = fleet.play(VERIFY, "--tags", "driver", fails=True, nvidia_mig_layout=LAYOUT)
    assert "the driver shows 1 GPUs, and 2 boards are named in gpu_node_boards" in run.output
    assert " is A100-80GB, and H100-80GB is named in gpu_node_boards" in run.output


def test_verify_names_the_gpus_that_cannot_be_read(fleet: Fleet) -> None:
    fleet.node("lost", "--board", "A100-80GB")
    fleet.nvsim("fault", "lost", "nvmlDeviceGetUUID", "--code", "gpu_is_lost", "--always")
    fleet.node("silent", "--board", "A100-80GB")
    fleet.nvsim("fault", "silent", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "--code", "unknown", "--always")
    run = fleet.play(VERIFY, "--tags", "driver", fails=True, gpu_node_roles=["nvidia_driver"])
    assert re.search(r"- GPU 0( [0-9A-F:.]+)?: nvmlDeviceGetUUID: GPU_IS_LOST", run.output)
    assert re.search(r"- GPU 0 00000000:[0-9A-F:.]+: nvmlDeviceGetGpuInstancePossiblePlacements: UNKNOWN", run.output)


def test_verify_reports_a_missing_driver(fleet: Fleet) -> None:
    fleet.host("bare")
    run = fleet.play(VERIFY, fails=True, nvidia_mig_layout=LAYOUT, gpu_node_roles=["nvidia_driver"])
    assert "no driver answers" in run.output
    assert "modprobe nvidia" in run.output or "Install it with site.yml --tags driver" in run.output


def test_verify_reports_a_driver_without_packages(fleet: Fleet) -> None:
    roles = ["nvidia_driver", "nvidia_mig"]
    fleet.node("here", "--board", "A100-80GB", gpu_node_roles=roles, nvidia_mig_layuot=[])
    run = fleet.play(VERIFY, "--tags", "driver", fails=True, nvidia_mig_layout=LAYOUT)
    assert "- no package of the driver is installed, and branch " in run.output
    assert "leave nvidia_driver out of gpu_node_roles" in run.output
    assert "- nvidia_mig_layuot is not a variable of this collection" in run.output


def test_verify_reports_a_stopped_runtime(fleet: Fleet) -> None:
    fleet.node("here", "--board", "A100-80GB", gpu_node_roles=["nvidia_container_toolkit"])
    run = fleet.play(VERIFY, "--tags", "toolkit", fails=True, nvidia_container_toolkit_runtimes=["crio"])
    assert "- crio is not running. See systemctl status crio" in run.output
    assert "- no package of the container toolkit is installed" in run.output
    assert "site.yml --tags toolkit" in run.output
