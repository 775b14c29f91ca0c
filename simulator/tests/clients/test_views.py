# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Table, log, XML and query output of the real nvidia-smi."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest
from nvsim.description import load_products

from .support import SIMULATOR, MakeNode, Node, Sleeper, Smi

NOT_ROOT = 1000
NOT_FOUND, NO_DRIVER = 6, 9
Element = xml.etree.ElementTree.Element


@pytest.fixture
def node(make_node: MakeNode, smi: Smi) -> Node:
    """An A100 with three MIG devices on two GPU instances, an H100 with MIG mode disabled, and a T4."""
    node = make_node("--board", "A100-SXM4-40GB", "--board", "H100-80GB", "--board", "T4", "--driver", smi.version)
    smi.ok(node, "-i", "0", "-mig", "1")
    smi.ok(node, "mig", "-i", "0", "-cgi", "9:4")
    smi.ok(node, "mig", "-i", "0", "-gi", "1", "-cci", "0,1")
    smi.ok(node, "mig", "-i", "0", "-cgi", "1g.5gb+me:0", "-C")
    return node


def text(element: Element, path: str) -> str:
    found = element.findtext(path)
    assert found is not None, "no %s in %s" % (path, element.tag)
    return found.strip()


def read_xml(node: Node, smi: Smi, *arguments: str, uid: int = 0) -> list[Element]:
    """Return the GPUs in the output of -q -x."""
    result = smi(node, "-q", "-x", *arguments, uid=uid)
    assert result.returncode == 0, result.stdout
    return xml.etree.ElementTree.fromstring(result.stdout).findall("gpu")


def query(node: Node, smi: Smi, *fields: str) -> list[dict[str, str]]:
    answer = smi.ok(node, "--query-gpu=" + ",".join(fields), "--format=csv,nounits")
    lines = list(csv.reader(io.StringIO(answer), skipinitialspace=True))
    return [dict(zip(fields, line)) for line in lines[1:]]


def test_identity_agrees_in_every_view(node: Node, smi: Smi) -> None:
    gpus = node.show()["gpus"]
    answers = query(
        node, smi, "index", "uuid", "pci.bus_id", "name", "serial", "vbios_version", "memory.total", "driver_version",
        "pci.device_id", "pci.sub_device_id", "compute_cap", "count",
    )  # fmt: skip
    elements = read_xml(node, smi)
    listed = re.findall(r"^GPU (\d+): (.*) \(UUID: (GPU-\S+)\)$", smi.ok(node, "-L"), re.MULTILINE)
    assert len(answers) == len(elements) == len(gpus) == 3
    for gpu, answer, element, line in zip(gpus, answers, elements, listed):
        assert answer["uuid"] == text(element, "uuid") == line[2] == gpu["uuid"]
        assert answer["name"] == text(element, "product_name") == line[1] == gpu["name"]
        assert answer["pci.bus_id"] == element.get("id") == text(element, "pci/pci_bus_id") == gpu["pci_bus_id"]
        assert answer["serial"] == text(element, "serial") == gpu["serial"]
        assert answer["vbios_version"] == text(element, "vbios_version")
        assert answer["index"] == line[0] == str(gpu["index"])
        assert answer["memory.total"] + " MiB" == text(element, "fb_memory_usage/total")
        assert answer["pci.device_id"] == "0x" + text(element, "pci/pci_device_id")
        assert answer["pci.sub_device_id"] == "0x" + text(element, "pci/pci_sub_system_id")
        assert answer["driver_version"] == smi.version
        assert answer["count"] == "3"
    assert [answer["compute_cap"] for answer in answers] == ["8.0", "9.0", "7.5"]
    assert [text(element, "product_architecture") for element in elements] == ["Ampere", "Hopper", "Turing"]


def test_fabric_in_the_xml(make_node: MakeNode, smi: Smi) -> None:
    """As recorded from an HGX H100, an H100 NVL and an A40: nvidia-smi shows no difference between the last two."""
    boards = [option for board in ("H100-80GB", "H100-NVL", "A100-80GB") for option in ("--board", board)]
    elements = read_xml(make_node(*boards, "--driver", smi.version), smi)
    shown = [[text(gpu, "fabric/" + field) for field in ("state", "status")] for gpu in elements]
    assert shown == [["Completed", "Success"], ["N/A", "N/A"], ["N/A", "N/A"]]
    assert {text(gpu, "fan_speed") for gpu in elements} == {"N/A"}


def test_mig_devices_in_the_xml(node: Node, smi: Smi) -> None:
    with_mig, without, incapable = read_xml(node, smi)
    assert [text(gpu, "mig_mode/current_mig") for gpu in (with_mig, without, incapable)] == [
        "Enabled", "Disabled", "N/A",
    ]  # fmt: skip
    assert [text(gpu, "mig_mode/pending_mig") for gpu in (with_mig, without)] == ["Enabled", "Disabled"]
    assert not without.findall("mig_devices/mig_device")
    figures = [
        "index", "gpu_instance_id", "compute_instance_id", "device_attributes/shared/multiprocessor_count",
        "device_attributes/shared/copy_engine_count", "device_attributes/shared/decoder_count",
        "device_attributes/shared/jpg_count", "fb_memory_usage/total", "bar1_memory_usage/total",
    ]  # fmt: skip
    devices = [[text(device, path) for path in figures] for device in with_mig.findall("mig_devices/mig_device")]
    # The BAR1 sizes are those of published tables: 8191 MiB for one slice of eight, 32767 MiB for four.
    assert devices == [
        ["0", "1", "0", "14", "3", "2", "0", "19968 MiB", "32767 MiB"],
        ["1", "1", "1", "28", "3", "2", "0", "19968 MiB", "32767 MiB"],
        ["2", "11", "0", "14", "1", "1", "1", "4864 MiB", "8191 MiB"],
    ]


def test_mig_devices_in_the_plain_table(node: Node, smi: Smi) -> None:
    table = smi.ok(node)
    assert "NVIDIA-SMI %s" % smi.version in table
    assert "Driver Version: %s" % smi.version in table
    devices = table.split("| MIG devices:")[1].split("| Processes:")[0]
    # GPU, GI, CI, device; SMs, errors; CE, ENC, DEC, OFA, JPG
    row = r"^\| +(\d+) +(\d+) +(\d+) +(\d+) +\|[^|]*\| *(\d+) +(\d+) \| +([\d ]+?) *\|$"
    found = re.findall(row, devices, re.MULTILINE)
    assert [cells[:6] + tuple(cells[6].split()) for cells in found] == [
        ("0", "1", "0", "0", "14", "0", "3", "0", "2", "0", "0"),
        ("0", "1", "1", "1", "28", "0", "3", "0", "2", "0", "0"),
        ("0", "11", "0", "2", "14", "0", "1", "0", "1", "1", "1"),
    ]
    assert re.findall(r"(\d+)MiB / +(\d+)MiB", devices) == [
        ("0", "19968"), ("0", "32767"), ("0", "4864"), ("0", "8191"),
    ]  # fmt: skip
    assert "No running processes found" in table


def test_no_mig_devices(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A30-24GB", "--driver", smi.version)
    assert "MIG devices" not in smi.ok(node)
    smi.ok(node, "-mig", "1")
    assert re.search(r"^\|  No MIG devices found +\|$", smi.ok(node), re.MULTILINE)


def test_a_process_is_shown_on_its_instance(node: Node, smi: Smi, sleeper: Sleeper) -> None:
    in_instance, on_gpu, drawing = sleeper().pid, sleeper().pid, sleeper().pid
    node.attach(in_instance, gpu=0, gi=1, ci=1, memory_mib=2000, name="/usr/bin/train")
    node.attach(on_gpu, gpu=1, memory_mib=3000, name="/opt/serve")
    node.attach(drawing, gpu=2, kind="graphics", memory_mib=50, name="/usr/lib/xorg/Xorg")

    table = smi.ok(node)
    processes = re.findall(
        r"^\| +(\d+) +(\S+) +(\S+) +(\d+) +(\S+) +(\S+) +(\d+)MiB \|$", table.split("| Processes:")[1], re.MULTILINE
    )
    assert processes == [
        ("0", "1", "1", str(in_instance), "C", "/usr/bin/train", "2000"),
        ("1", "N/A", "N/A", str(on_gpu), "C", "/opt/serve", "3000"),
        ("2", "N/A", "N/A", str(drawing), "G", "/usr/lib/xorg/Xorg", "50"),
    ]
    assert re.search(r"2000MiB / 19968MiB", table)

    figures = ("gpu_instance_id", "compute_instance_id", "pid", "type", "process_name", "used_memory")
    shown = [
        [text(process, figure) for figure in figures]
        for gpu in read_xml(node, smi)
        for process in gpu.findall("processes/process_info")
    ]
    assert shown == [
        ["1", "1", str(in_instance), "C", "/usr/bin/train", "2000 MiB"],
        ["N/A", "N/A", str(on_gpu), "C", "/opt/serve", "3000 MiB"],
        ["N/A", "N/A", str(drawing), "G", "/usr/lib/xorg/Xorg", "50 MiB"],
    ]

    uuids = [gpu["uuid"] for gpu in node.show()["gpus"]]
    answer = smi.ok(node, "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", "--format=csv,noheader")
    assert answer == "%s, %d, /usr/bin/train, 2000 MiB\n%s, %d, /opt/serve, 3000 MiB\n" % (
        uuids[0], in_instance, uuids[1], on_gpu,
    )  # fmt: skip

    node.detach(on_gpu)
    answer = smi.ok(node, "--query-compute-apps=pid", "--format=csv,noheader")
    assert answer == "%d\n" % in_instance


def test_a_process_under_mps_is_shown_as_such(make_node: MakeNode, smi: Smi, sleeper: Sleeper) -> None:
    node = make_node("--board", "H100-80GB", "--driver", smi.version)
    node.attach(sleeper().pid, gpu=0, kind="mps", memory_mib=10)
    assert [text(p, "type") for p in read_xml(node, smi)[0].findall("processes/process_info")] == ["M+C"]


def test_processes_of_instances_require_root(node: Node, smi: Smi, sleeper: Sleeper) -> None:
    node.attach(sleeper().pid, gpu=0, gi=1, memory_mib=2000)
    result = smi(node, "--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader", uid=NOT_ROOT)
    assert (result.returncode, result.stdout) == (0, "[Insufficient Permissions], [Insufficient Permissions]\n")


def test_log_and_xml_agree(node: Node, smi: Smi) -> None:
    log = smi.ok(node, "-q")
    for gpu, element in zip(log.split("\nGPU 0")[1:], read_xml(node, smi)):
        for name, path in (
            ("GPU UUID", "uuid"), ("Serial Number", "serial"), ("VBIOS Version", "vbios_version"),
            ("Product Brand", "product_brand"), ("Board Part Number", "board_part_number"),
            ("Performance State", "performance_state"), ("Fan Speed", "fan_speed"), ("Compute Mode", "compute_mode"),
            ("GPU Current Temp", "temperature/gpu_temp"), ("Persistence Mode", "persistence_mode"),
        ):  # fmt: skip
            found = re.search(r"^ +%s +: (.*)$" % re.escape(name), gpu, re.MULTILINE)
            assert found, name
            assert found.group(1) == text(element, path)
    assert log.count("    MIG Device\n") == 3


def test_unavailable_values_are_not_reported(node: Node, smi: Smi) -> None:
    """A data center GPU has no fan. With MIG mode enabled, utilization and errors of the whole GPU are unknown."""
    with_mig, without, _incapable = query(
        node, smi, "fan.speed", "utilization.gpu", "ecc.errors.uncorrected.volatile.total", "ecc.mode.current",
        "retired_pages.double_bit.count",
    )  # fmt: skip
    assert list(with_mig.values()) == ["[N/A]", "[N/A]", "[N/A]", "Enabled", "[N/A]"]
    assert list(without.values()) == ["[N/A]", "0", "0", "Enabled", "[N/A]"]


def test_a_load_is_visible(make_node: MakeNode, smi: Smi, sleeper: Sleeper) -> None:
    node = make_node("--board", "H100-80GB", "--driver", smi.version)
    fields = ("utilization.gpu", "power.draw", "temperature.gpu", "clocks.current.sm", "memory.used")
    idle = {name: float(value) for name, value in query(node, smi, *fields)[0].items()}
    node.attach(sleeper().pid, gpu=0, memory_mib=4096)
    busy = {name: float(value) for name, value in query(node, smi, *fields)[0].items()}
    assert all(busy[name] > idle[name] for name in fields), (idle, busy)
    assert busy["memory.used"] == 4096


def test_every_field_can_be_queried(node: Node, smi: Smi) -> None:
    names = re.findall(r'^"([a-z_0-9.]+)"', smi.ok(node, "--help-query-gpu"), re.MULTILINE)
    assert len(names) > 100
    answers = query(node, smi, *names)
    assert len(answers) == 3
    for answer in answers:
        assert set(answer) == set(names)
        wrong = {name: value for name, value in answer.items() if "Error" in value or "Unknown" in value}
        assert not wrong


def test_every_product_can_be_queried(make_node: MakeNode, smi: Smi) -> None:
    products = load_products()["products"]
    node = make_node(*[option for name in products for option in ("--board", name)], "--driver", "580.126.09")
    gpus = node.show()["gpus"]
    assert [gpu["name"] for gpu in gpus] == [product["name"] for product in products.values()]
    fields = ("uuid", "name", "compute_cap", "memory.total", "power.limit", "mig.mode.current")
    assert [list(answer.values()) for answer in query(node, smi, *fields)] == [
        [
            gpu["uuid"], gpu["name"], product["capability"], str(product["memory_mib"]), "%d.00" % product["power_w"],
            "Disabled" if gpu["mig_capable"] else "[N/A]",
        ]
        for gpu, product in zip(gpus, products.values())
    ]  # fmt: skip
    assert [text(element, "uuid") for element in read_xml(node, smi)] == [gpu["uuid"] for gpu in gpus]
    assert smi.ok(node, "-L").count("\n") == len(gpus)
    table = smi.ok(node)
    assert all("| %3d  " % gpu["index"] in table for gpu in gpus)


def test_no_gpu_and_no_driver(make_node: MakeNode, smi: Smi) -> None:
    node = make_node("--board", "A30-24GB:0", "--driver", smi.version)
    assert smi(node, "--query-gpu=uuid", "--format=csv").returncode == NOT_FOUND
    node.state.unlink()
    result = smi(node, "-L")
    assert result.returncode == NO_DRIVER
    assert "couldn't communicate with the NVIDIA driver" in result.stdout


def test_a_missing_gpu_is_not_found(node: Node, smi: Smi) -> None:
    result = smi(node, "-q", "-x", "-i", "3")
    assert (result.returncode, result.stdout) == (NOT_FOUND, "No devices were found\n")


def test_a_gpu_can_be_selected_by_any_identifier(node: Node, smi: Smi) -> None:
    gpu = node.show()["gpus"][1]
    for name in ("1", gpu["uuid"], gpu["pci_bus_id"], gpu["serial"]):
        assert [text(element, "uuid") for element in read_xml(node, smi, "-i", name)] == [gpu["uuid"]]


def test_a_node_like_the_recorded_one(node: Node, smi: Smi, tmp_path: Path) -> None:
    log = tmp_path / "log.xml"
    log.write_text(smi.ok(node, "-q", "-x"))
    again = Node(tmp_path / "again")
    subprocess.run([sys.executable, SIMULATOR / "bin" / "nvsim", "create", again.directory, "--from", log], check=True)
    assert again.show()["gpus"] == node.show()["gpus"]
