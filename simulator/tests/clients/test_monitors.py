# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Third-party monitors that use pynvml, unmodified."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from .support import MakeNode, Node, Sleeper, run_python_client

MIG_USER = """
import pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
pynvml.nvmlDeviceSetMigMode(gpu, 1)
for profile, start in ((9, 4), (14, 0)):
    place = pynvml.c_nvmlGpuInstancePlacement_t(start, 4 if start else 2)
    instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile, pynvml.byref(place))
    pynvml.nvmlGpuInstanceCreateComputeInstance(instance, 2 if start else 1)
pynvml.nvmlShutdown()
"""


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    """An A100 with two MIG devices, created through pynvml, and one without."""
    node = make_node("--board", "A100-40GB", "--gpus", "2", "--driver", "550.163.01")
    subprocess.run([sys.executable, "-c", MIG_USER], env=node.environment(), check=True)
    return node


def test_nvitop_shows_gpus_and_mig_devices(node: Node, sleeper: Sleeper) -> None:
    pid = sleeper().pid
    node.attach(pid, gpu=0, gi=1, memory_mib=2000)
    shown = run_python_client(node, "nvitop", "-1", "--ascii")
    assert "Driver Version: 550.163.01" in shown
    assert "CUDA Driver Version: 12.4" in shown
    gpus = node.show()["gpus"]
    assert re.findall(r"\| +(\d) +A100-SXM4-40GB +Off \| (\S+) Off \| +(Enabled|Disabled) ", shown) == [
        ("0", gpus[0]["pci_bus_id"], "Enabled"),
        ("1", gpus[1]["pci_bus_id"], "Disabled"),
    ]
    assert re.findall(r"(0:\d) +(\S+) @ GI/CI: *(\d+/\d+) \| +(\S+) / +(\S+) \|", shown) == [
        ("0:0", "3g.20gb", "1/0", "2000MiB", "19968MiB"),
        ("0:1", "2g.10gb", "5/0", "0B", "9856MiB"),
    ]
    assert re.search(r"\| 0:0 +%d C +\S+ +2000MiB " % pid, shown)


def test_gpustat_shows_gpus_and_processes(node: Node, sleeper: Sleeper) -> None:
    on_instance, on_gpu = sleeper().pid, sleeper().pid
    node.attach(on_instance, gpu=0, gi=5, memory_mib=1000)
    node.attach(on_gpu, gpu=1, memory_mib=500)
    shown = json.loads(run_python_client(node, "gpustat", "--json"))
    assert shown["driver_version"] == "550.163.01"
    found = [
        (gpu["uuid"], gpu["name"], gpu["memory.total"], gpu["memory.used"], gpu["utilization.gpu"],
         [(process["pid"], process["gpu_memory_usage"]) for process in gpu["processes"]])
        for gpu in shown["gpus"]
    ]  # fmt: skip
    uuids = [gpu["uuid"] for gpu in node.show()["gpus"]]
    assert found == [
        (uuids[0], "NVIDIA A100-SXM4-40GB", 40960, 1000, None, [(on_instance, 1000)]),
        (uuids[1], "NVIDIA A100-SXM4-40GB", 40960, 500, 100, [(on_gpu, 500)]),
    ]


def test_nvitop_exporter_serves_gpus_and_mig_devices(node: Node, sleeper: Sleeper) -> None:
    """An exporter for Prometheus, without DCGM."""
    node.attach(sleeper().pid, gpu=0, gi=1, memory_mib=2000)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nvitop_exporter", "--hostname", "node", "--port", str(port)]
    with subprocess.Popen(command, env=node.environment(), stderr=subprocess.PIPE) as exporter:
        try:
            text = ""
            for _attempt in range(100):
                try:
                    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=5) as answer:
                        text = answer.read().decode()
                except OSError:
                    assert exporter.poll() is None, exporter.communicate()
                if text.count("gpu_memory_used_MiB{") == 4:
                    break
                time.sleep(0.2)
        finally:
            exporter.terminate()
    used = re.findall(r'gpu_memory_used_MiB\{.*index="([\d:]+)",uuid="(\S+)"\} (\S+)', text)
    first, second = node.show()["gpus"]
    uuids = {gi["id"]: gi["compute_instances"][0]["uuid"] for gi in first["gpu_instances"]}
    assert used == [
        ("0", first["uuid"], "2000.0"),
        ("0:0", uuids[1], "2000.0"),
        ("0:1", uuids[5], "0.0"),
        ("1", second["uuid"], "0.0"),
    ]
