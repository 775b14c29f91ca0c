# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nvsim command and the wrapper of nvidia-smi, run as a user runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from conftest import SIMULATOR

NVSIM = [sys.executable, str(SIMULATOR / "bin" / "nvsim")]


class Shell:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("NVSIM_ST")}

    def __call__(self, command: str, *arguments: str, expect: int = 0) -> str:
        done = subprocess.run(
            [*NVSIM, command, str(self.directory), *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == expect, done.stdout
        return done.stdout

    def show(self) -> t.Dict[str, t.Any]:
        return t.cast("t.Dict[str, t.Any]", json.loads(self("show", "--json")))

    def python(self, program: str, *options: str) -> str:
        preamble = "import pynvml as nv; nv.nvmlInit(); device = nv.nvmlDeviceGetHandleByIndex(0); "
        return self("run", *options, "--", sys.executable, "-c", preamble + program)


@pytest.fixture
def nvsim(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "node")


@pytest.fixture
def echo_smi(tmp_path: Path, nvsim: Shell) -> Path:
    """A replacement of the real nvidia-smi that prints its arguments."""
    program = tmp_path / "real-nvidia-smi"
    program.write_text('#!/bin/sh\necho "real: $*"\n')
    program.chmod(0o755)
    nvsim.environment["NVSIM_SMI"] = str(program)
    return program


def test_create_several_boards(nvsim: Shell) -> None:
    nvsim("create", "--board", "A100-80GB:2", "--board", "NVIDIA A30", "--board", "T4:1", "--driver", "535.261.03")
    node = nvsim.show()
    assert [gpu["board"] for gpu in node["gpus"]] == ["A100-80GB", "A100-80GB", "A30-24GB", "T4"]
    assert len({gpu["pci_bus_id"] for gpu in node["gpus"]}) == len({gpu["serial"] for gpu in node["gpus"]}) == 4
    assert (node["driver_version"], node["cuda_version"]) == ("535.261.03", 12020)


def test_create_by_count_alias_and_identity(nvsim: Shell) -> None:
    nvsim(
        "create",
        "--gpus",
        "10",
        "--board",
        "A800-80GB",
        "--uuid",
        "GPU-9f0cc172-1db7-8b47-7302-fa9b2ade0c7b",
        "--bus-id",
        "00000001:00:00.0",
    )
    gpus = nvsim.show()["gpus"]
    assert len(gpus) == 10
    assert (gpus[0]["uuid"], gpus[0]["pci_bus_id"]) == (
        "GPU-9f0cc172-1db7-8b47-7302-fa9b2ade0c7b",
        "00000001:00:00.0",
    )
    assert len({gpu["pci_bus_id"] for gpu in gpus}) == len({gpu["uuid"] for gpu in gpus}) == 10


def test_create_without_gpus(nvsim: Shell) -> None:
    nvsim("create", "--gpus", "0")
    program = "import pynvml as nv; nv.nvmlInit(); print(nv.nvmlDeviceGetCount())"
    assert nvsim("run", "--", sys.executable, "-c", program) == "0\n"


def test_create_is_reproducible_and_seeded(nvsim: Shell) -> None:
    nvsim("create")
    first = nvsim.show()
    nvsim("create")
    again = nvsim.show()
    nvsim("create", "--seed", "other")
    assert {**first, "changes": 0} == {**again, "changes": 0}
    assert nvsim.show()["gpus"][0]["uuid"] != first["gpus"][0]["uuid"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--board", "A101"], "unknown board or product A101: use one of A100-40GB,"),
        (["--board", "Thor-iGPU-GB10B"], "cannot be simulated: its placements are not known"),
        (["--board", "A30:many"], "--board must be NAME or NAME:COUNT, not A30:many"),
        (["--board", "A30:65"], "a node has at most 64 GPUs, not 65"),
        (["--driver", "newest"], "a driver version looks like 550.163.01, not newest"),
        (["--bus-id", "seven"], "a PCI bus id looks like 00000000:47:00.0, not seven"),
        (["--gpus", "2", "--bus-id", "47:0.0", "--bus-id", "0:47:00.0"], "two GPUs have the same PCI bus id"),
        (["--uuid", "GPU-1"], "a GPU's UUID looks like GPU-0123"),
        (["--recorded", "/nowhere.yml"], "No such file"),
    ],
)
def test_create_rejects_invalid_arguments(nvsim: Shell, arguments: t.List[str], message: str) -> None:
    said = nvsim("create", *arguments, expect=1)
    assert said.startswith("nvsim: ")
    assert re.search(message, said)
    assert not nvsim.directory.joinpath("state").exists()


def test_show(nvsim: Shell) -> None:
    nvsim("create", "--board", "A100-80GB", "--board", "H20-96GB", "--board", "T4")
    nvsim.python(
        "nv.nvmlDeviceSetMigMode(device, 1); gi = nv.nvmlDeviceCreateGpuInstance(device, 9); "
        "nv.nvmlGpuInstanceCreateComputeInstance(gi, 2)"
    )
    nvsim("attach", "--pid", str(os.getpid()), "--gpu", "0", "--gi", "1", "--name", "train", "--memory", "5")
    lines = nvsim("show").splitlines()
    assert lines[0] == "driver 550.163.01, CUDA 12.4, 3 GPUs"
    assert lines[1].endswith("NVIDIA A100-SXM4-80GB  MIG on")
    assert lines[2] == "  GI  1  3g.40gb at 4:4"
    assert lines[3].startswith("    CI 0  3g.40gb at 0:3  MIG-")
    assert lines[4] == "  compute %d GI 1 CI 0  5 MiB  train" % os.getpid()
    assert (
        lines[6] == "  derived, not seen on hardware: figures of 1g.12gb, 2g.24gb, 3g.48gb, 4g.48gb, 7g.96gb, "
        "1g.12gb+me, 1g.24gb"
    )
    assert lines[7].endswith("Tesla T4  no MIG")


def test_run(nvsim: Shell) -> None:
    nvsim("create")
    assert nvsim.python("print(nv.nvmlDeviceGetName(device))") == "NVIDIA A100-SXM4-80GB\n"
    nvsim.python("nv.nvmlDeviceSetMigMode(device, 1)")
    asks = "\ntry: nv.nvmlDeviceCreateGpuInstance(device, 9)\nexcept nv.NVMLError as error: print(error)"
    assert "Insufficient Permissions" in nvsim.python(asks, "--user")
    nvsim("run", "--", "sh", "-c", "exit 7", expect=7)
    assert "no-such-program: No such file" in nvsim("run", "--", "no-such-program", expect=1)
    assert "no program given" in nvsim("run", expect=1)


def test_attach_detach(nvsim: Shell) -> None:
    nvsim("create")
    pid = str(os.getpid())
    nvsim("attach", "--pid", pid, "--gpu", "0", "--client")
    [process] = nvsim.show()["gpus"][0]["processes"]
    assert (process["kind"], process["gi"], process["name"]) == ("client", None, os.readlink("/proc/self/exe"))
    assert "In use by another client" in nvsim("reset", "--gpu", "0", expect=1)
    nvsim("detach", "--pid", pid, "--gpu", "0")
    assert nvsim.show()["gpus"][0]["processes"] == []
    nvsim("reset")
    assert "no such process" in nvsim("attach", "--pid", "2147483647", "--gpu", "0", expect=1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fault", "nvmlNope"], "is not an NVML function"),
        (["fault", "nvmlInit_v2", "--nth", "0"], "counted from 1"),
        (["fault", "--write", "-1"], "counted from 1"),
        (["latency", "nvmlNope"], "is not an NVML function"),
        (["latency", "--write", "--ms", "nan"], "a delay is between"),
        (["latency", "--write", "--ms", "-5"], "a delay is between"),
    ],
)
def test_faults_that_cannot_occur_are_rejected(nvsim: Shell, arguments: t.List[str], words: str) -> None:
    nvsim("create")
    assert words in nvsim(*arguments, expect=1)
    assert nvsim("fault") == nvsim("latency") == ""


def test_fault_latency_trace(nvsim: Shell) -> None:
    nvsim("create")
    nvsim("fault", "nvmlDeviceGetUUID", "--nth", "2", "--code", "IN_USE", "--always")
    nvsim("fault", "--write", "3", "--kill", "after")
    nvsim("latency", "nvmlDeviceGetName", "--ms", "1.5")
    assert nvsim("fault").splitlines() == [
        "nvmlDeviceGetUUID call 2: return 19, seen 0",
        "write call 3: kill-after 999, seen 0",
    ]
    assert nvsim("latency") == "nvmlDeviceGetName 1.5 ms\n"
    assert "unknown return code maybe" in nvsim("fault", "nvmlInit", "--code", "maybe", expect=1)
    assert "not several" in nvsim("fault", "nvmlInit", "--write", "1", expect=1)
    nvsim("fault", "--clear")
    nvsim("latency", "--clear")
    assert nvsim("fault") == nvsim("latency") == ""

    nvsim("trace", "--on")
    nvsim.python(
        "nv.nvmlDeviceGetUUID(device); nv.nvmlDeviceGetUUID(device)\n"
        "try: nv.nvmlDeviceGetBridgeChipInfo(device)\nexcept nv.NVMLError: pass"
    )
    nvsim("trace", "--off")
    counts = [line.strip() for line in nvsim("trace", "--counts").splitlines()]
    assert counts[0] == "2  nvmlDeviceGetUUID"
    assert "1  nvmlDeviceGetBridgeChipInfo  (3: 1)  not modeled" in counts
    assert json.loads(nvsim("trace", "--counts", "--json"))["nvmlDeviceGetUUID"]["calls"] == 2
    assert any("nvmlDeviceGetHandleByIndex_v2 index=0 -> 0" in line for line in nvsim("trace").splitlines())
    nvsim("trace", "--clear")
    assert nvsim("trace") == ""


def smi(nvsim: Shell, *arguments: str, expect: int = 0, user: bool = False) -> t.List[str]:
    return nvsim("run", *["--user"] * user, "--", "nvidia-smi", *arguments, expect=expect).splitlines()


def test_the_wrapper_calls_the_real_program(nvsim: Shell, echo_smi: Path) -> None:
    nvsim("create")
    assert smi(nvsim, "-q", "-i", "0") == ["real: -q -i 0"]
    assert smi(nvsim) == ["real: "]
    assert smi(nvsim, "mig", "-lgi", "-r") == ["real: mig -lgi -r"]


def test_the_wrapper_without_a_real_program(nvsim: Shell) -> None:
    nvsim("create")
    nvsim.environment["NVSIM_SMI"] = ""
    nvsim.environment["PATH"] = "/bin"
    if not Path("/bin/nvidia-smi").exists():
        assert "run scripts/fetch-nvidia-smi" in smi(nvsim, "-L", expect=127)[0]


def test_the_wrapper_resets_gpus(nvsim: Shell, echo_smi: Path) -> None:
    nvsim("create", "--gpus", "3", "--activation", "reset")
    turn_on = "[nv.nvmlDeviceSetMigMode(nv.nvmlDeviceGetHandleByIndex(i), 1) for i in range(3)]"
    nvsim.python(turn_on)
    uuid = nvsim.show()["gpus"][2]["uuid"]
    assert smi(nvsim, "--gpu-reset", "-i", "0000:0F:00.0") == [
        "GPU 00000000:0F:00.0 was successfully reset.",
        "All done.",
    ]
    assert [gpu["mode_current"] for gpu in nvsim.show()["gpus"]] == [0, 1, 0]
    assert smi(nvsim, "-r", "-i", "0," + uuid)[-1] == "All done."
    assert [gpu["mode_current"] for gpu in nvsim.show()["gpus"]] == [1, 1, 1]
    assert len(smi(nvsim, "-r")) == 4

    nvsim("attach", "--pid", str(os.getpid()), "--gpu", "1", "--client")
    said = smi(nvsim, "-i", "0,1", "--gpu-reset", expect=255)
    assert said[:3] == [
        "GPU 00000000:07:00.0 was successfully reset.",
        "The following GPUs could not be reset:",
        "  GPU 00000000:0F:00.0: In use by another client",
    ]
    assert said[4].startswith("1 device is currently being used by one or more other processes")
    assert smi(nvsim, "-r", "-i", "0", user=True, expect=4)[-1] == "  GPU 00000000:07:00.0: Insufficient Permissions"
    assert smi(nvsim, "-r", "-i", "9", expect=6) == ["No devices were found matching 9"]
    assert smi(nvsim, "-r", "--fast", expect=2)[0].startswith('Option "--fast" is not recognized')


def test_the_wrapper_cannot_reset_gpus_in_passthrough(nvsim: Shell, echo_smi: Path) -> None:
    nvsim("create", "--activation", "reboot")
    assert smi(nvsim, "-r", expect=3)[-1] == "  GPU 00000000:07:00.0: Not Supported"
    nvsim("reboot")
    assert nvsim.show()["boots"] == 1


def test_run_leaves_no_processes(nvsim: Shell) -> None:
    """`nvsim run` replaces itself with the program, and starts no other process."""
    nvsim("create")
    said = nvsim("run", "--", "sh", "-c", "echo $$ $PPID; ls /proc/$PPID/task | wc -l")
    shell, parent = said.splitlines()[0].split()
    assert int(parent) == os.getpid()
    assert not Path("/proc", shell).exists()
    assert sorted(path.name for path in nvsim.directory.iterdir()) == ["state", "state.lock"]
