# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""MIG mode, persistence and reset with the real nvidia-smi. Its exit code is unreliable, so the mode is read back."""

from __future__ import annotations

from .support import MakeNode, Node, Sleeper, Smi

NOT_ROOT = 1000
NO_PERMISSION, SOME_FAILED = 4, 255


def modes(node: Node, smi: Smi) -> str:
    """Return current and pending MIG mode of all GPUs."""
    return smi.ok(node, "--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader")


def bus_id(node: Node, gpu: int = 0) -> str:
    return str(node.show()["gpus"][gpu]["pci_bus_id"])


def test_the_mode_of_an_idle_gpu_changes_immediately(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A30-24GB", "--gpus", "2", "--driver", smi.version)
    said = smi.ok(node, "-i", "1", "-mig", "1")
    assert said.startswith("Enabled MIG Mode for GPU %s\n" % bus_id(node, 1))
    assert said.endswith("\nAll done.\n")
    assert modes(node, smi) == "Disabled, Disabled\nEnabled, Enabled\n"
    smi.ok(node, "-mig", "0")
    assert modes(node, smi) == "Disabled, Disabled\nDisabled, Disabled\n"


def test_a_reset_activates_a_pending_mode(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A100-80GB", "--driver", smi.version, "--activation", "reset")
    said = smi.ok(node, "-mig", "1")
    assert said == (
        "Warning: MIG mode is in pending enable state for GPU {0}:GPU requires reset\n"
        "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {0}\n"
        "All done.\n"
    ).format(bus_id(node))
    assert modes(node, smi) == "Disabled, Enabled\n"
    said = smi.ok(node, "--gpu-reset", "-i", "0")
    assert said == "GPU %s was successfully reset.\nAll done.\n" % bus_id(node)
    assert modes(node, smi) == "Enabled, Enabled\n"


def test_a_busy_gpu_keeps_its_mode(make_node: MakeNode, smi: Smi, sleeper: Sleeper) -> None:
    node = make_node("--board", "A100-80GB", "--driver", smi.version)
    node.attach(sleeper().pid, gpu=0)
    said = smi.ok(node, "-mig", "1")
    assert "Warning: MIG mode is in pending enable state for GPU %s:In use by another client\n" % bus_id(node) in said
    assert modes(node, smi) == "Disabled, Enabled\n"


def test_hopper_changes_without_a_reset(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "H100-80GB", "--driver", smi.version, "--activation", "reset")
    smi.ok(node, "-mig", "1")
    assert modes(node, smi) == "Enabled, Enabled\n"


def test_a_gpu_without_mig_is_reported_with_exit_code_0(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "T4", "--driver", smi.version)
    said = smi.ok(node, "-mig", "1")
    assert said == (
        "Unable to enable MIG Mode for GPU %s: Not Supported\nTreating as warning and moving on.\nAll done.\n"
        % bus_id(node)
    )
    assert modes(node, smi) == "[N/A], [N/A]\n"


def test_settings_require_root(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A30-24GB", "--driver", smi.version)
    before = node.show()["gpus"]
    for command in (("-mig", "1"), ("-pm", "1"), ("--gpu-reset",), ("-e", "0"), ("-pl", "120"), ("-c", "3")):
        result = smi(node, *command, uid=NOT_ROOT)
        assert result.returncode == NO_PERMISSION, (command, result.stdout)
        assert "ermission" in result.stdout
    assert node.show()["gpus"] == before


def test_settings_are_kept_between_processes(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A30-24GB", "--driver", smi.version)
    for command in (("-pm", "1"), ("-e", "0"), ("-pl", "120"), ("-c", "EXCLUSIVE_PROCESS")):
        smi.ok(node, *command)
    question = "--query-gpu=persistence_mode,ecc.mode.current,ecc.mode.pending,power.limit,compute_mode"
    assert smi.ok(node, question, "--format=csv,noheader") == (
        "Enabled, Enabled, Disabled, 120.00 W, Exclusive_Process\n"
    )
    smi.ok(node, "--gpu-reset")
    assert smi.ok(node, "--query-gpu=ecc.mode.current", "--format=csv,noheader") == "Disabled\n"


def test_a_reset_destroys_the_instances_of_only_one_gpu(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A100-40GB", "--gpus", "3", "--driver", smi.version)
    smi.ok(node, "-mig", "1")
    smi.ok(node, "mig", "-cgi", "9,9")
    smi.ok(node, "--gpu-reset", "-i", "0,2")
    assert [len(gpu["gpu_instances"]) for gpu in node.show()["gpus"]] == [0, 2, 0]
    assert modes(node, smi) == "Enabled, Enabled\n" * 3  # Ampere keeps the mode


def test_a_gpu_in_use_is_not_reset(make_node: MakeNode, smi: Smi, sleeper: Sleeper) -> None:
    node = make_node("--board", "A100-40GB", "--gpus", "2", "--driver", smi.version)
    node.attach(sleeper().pid, gpu=1, kind="client")
    result = smi(node, "--gpu-reset")
    assert result.returncode == SOME_FAILED
    assert result.stdout == (
        "The following GPUs could not be reset:\n"
        "  GPU %s: In use by another client\n"
        "\n"
        "1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, "
        "graphics application such as an X server, or a monitoring application such as another instance of "
        "nvidia-smi). Please first kill all processes using this device and all compute applications running in the "
        "system.\n"
    ) % bus_id(node, 1)
