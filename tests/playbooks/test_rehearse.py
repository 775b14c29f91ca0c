# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""rehearse.yml: an inventory as it is, on simulated nodes of its own."""

from __future__ import annotations

import json
import re
import resource
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import data
from ansible_collections.gpufleet.node.tests.playbooks.conftest import NVSIM, PLAYBOOKS, Fleet, Run

REHEARSE = PLAYBOOKS / "rehearse.yml"
# Nothing of this works, and nothing of it is used.
HOSTILE: t.Dict[str, t.Any] = {
    "ansible_connection": "ssh",
    "ansible_host": "192.0.2.1",
    "ansible_user": "nobody",
    "ansible_password": "{{ undefined_secret }}",
    "ansible_ssh_executable": "/nonexistent/ssh",
    "ansible_become": True,
    "ansible_become_password": "{{ undefined_secret }}",
    "ansible_ssh_common_args": "{{ undefined_secret }}",
    "ansible_ssh_private_key_file": "{{ undefined_secret }}",
    "ansible_become_exe": "/nonexistent/sudo",
    "ansible_python_interpreter": "/nonexistent/python",
    "ansible_shell_executable": "/nonexistent/sh",
    "ansible_remote_tmp": "/nonexistent/tmp",
    "gpu_node_roles": ["all"],
}
BOARDS = {"gpu_node_boards": ["A100-80GB", "A100-80GB"]}
FORMER = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 3}}]
DESIRED = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}]


@pytest.fixture(name="fleet")
def fixture_fleet(tmp_path: Path) -> Fleet:
    fleet = Fleet(tmp_path)
    fleet.variables = dict(HOSTILE, nvidia_driver_branch="535")
    fleet.environment["PYTHONPATH"] = str(NVSIM.parents[1])  # as if nvsim were installed
    return fleet


def former(fleet: Fleet, **hosts: t.Any) -> str:
    """A former inventory with the layouts of these hosts."""
    path = fleet.work / "former.json"
    path.write_text(json.dumps({"all": {"hosts": {name: {"nvidia_mig_layout": hosts[name]} for name in hosts}}}))
    return "rehearse_from=%s" % path


def row(run: Run, host: str) -> t.List[str]:
    """The cells of a host in the table."""
    found = re.search(r"^%s  +(.*)$" % re.escape(host), run.output, re.MULTILINE)
    assert found, run.output
    return re.split("  +", found.group(1))


def test_nothing_of_a_hostile_inventory_is_connected_to_or_run(fleet: Fleet) -> None:
    """Only the boards, the layout and the former inventory decide. The fleet's folder stays as it is."""
    connections: t.Dict[str, t.Dict[str, t.Any]] = {
        "ssh": {},
        "missing": {"ansible_connection": "nobody.nothing.connection"},
        "windows": {
            "ansible_connection": "winrm",
            "ansible_shell_type": "powershell",
            "ansible_become_method": "runas",
        },
    }
    for name, variables in connections.items():
        fleet.host(name, **BOARDS, **variables, nvidia_mig_layout=DESIRED)
    source = former(fleet, ssh=FORMER, gone=FORMER)
    run = fleet.play(REHEARSE, "-e", source)
    assert row(run, "ssh") == ["2x A100-SXM4-80GB", "2", "6", "2", "-", "changes"]
    assert row(run, "missing") == row(run, "windows") == ["2x A100-SXM4-80GB", "0", "0", "4", "-", "changes"]
    assert "- GPUs 0-1  A100-SXM4-80GB  |1g.10gb|1g.10gb|1g.10gb|.......|3g.40gb" in run.output
    assert "nvidia.com/mig-3g.40gb: 2 -> 4" in run.output
    assert "Not in the inventory any more: gone\n" in run.output
    assert sorted(path.name for path in fleet.work.iterdir()) == ["ansible", "former.json", "inventory.json"]
    assert not any((fleet.work / "ansible" / "tmp").iterdir())


def test_the_run_fails_for_hosts_whose_change_would_fail(fleet: Fleet) -> None:
    """And only for these: a layout that does not fit, an old driver, a misspelled variable, unknown GPUs, and work.

    That a board cannot be simulated is no failure.
    """
    fleet.host("fits", **BOARDS, nvidia_mig_layout="half", nvidia_mig_layouts={"half": DESIRED})
    fleet.host("large", **BOARDS, nvidia_mig_layout=[{**DESIRED[0], "mig_devices": {"4g.40gb": 2}}])
    half = [{**DESIRED[0], "mig_devices": {"3g.71gb": 2}}]
    fleet.host("old", gpu_node_boards=["H200-141GB"], nvidia_mig_layout=half)
    fleet.host("thor", gpu_node_boards=["Thor-iGPU-GB10B"], nvidia_mig_layout=[{**DESIRED[0], "mig_devices": {}}])
    fleet.host("misspelled", **BOARDS, nvidia_mig_layout=DESIRED, nvidia_mig_resett=True)
    fleet.host("blank", nvidia_mig_layout=DESIRED)
    fleet.host("server")
    fleet.host("busy", **BOARDS, nvidia_mig_layout=DESIRED)
    fleet.host("waits", **BOARDS, nvidia_mig_layout=DESIRED, nvidia_mig_busy="skip")
    fleet.host("idle", gpu_node_boards=["L40S"])
    work = [{"host": host, "gpu": 1, "profile": "1g.10gb", "count": 1} for host in ("busy", "waits")]
    source = former(fleet, busy=FORMER, waits=FORMER)
    run = fleet.play(REHEARSE, "-e", source, "-e", json.dumps({"rehearse_busy": work}), fails=True)
    failed = {host: run.count(host, "failed") for host in fleet.hosts}
    assert failed == {
        "fits": 0,
        "large": 1,
        "old": 1,
        "thor": 0,
        "misspelled": 1,
        "blank": 1,
        "busy": 1,
        "waits": 1,
        "idle": 0,
        "server": 0,
    }
    results = {host: row(run, host)[-1] for host in fleet.hosts}
    invalid = dict.fromkeys(("large", "old", "misspelled", "blank"), "invalid")
    assert results == {
        **invalid,
        "thor": "unknown",
        "fits": "changes",
        "busy": "refused",
        "waits": "refused",
        "idle": "no layout",
        "server": "no layout",
    }
    for message in (
        "4g.40gb: 2 does not fit",
        "MIG on H200-141GB needs driver 550.90.07 or later, but 535 is requested",
        "nvidia_mig_resett is not a variable of this collection (did you mean nvidia_mig_reset?)",
        "its GPUs are unknown: name them in gpu_node_boards",
        "used by work of rehearse_busy. Stop these processes",
        "{gpu: 1, profile: 1g.10gb, count: 1} does not say which of the 3 that match have work: the first 1 are taken",
    ):
        assert message in run.output


def test_gpus_instances_and_work_of_a_report(fleet: Fleet) -> None:
    """The GPUs are those that were read, also if the inventory names others, and instances are where they were."""
    instance = {"id": 5, "profile": "3g.40gb", "start": 0, "size": 4, "compute_instances": [{"profile": "3g.40gb"}]}
    gpu: t.Dict[str, t.Any] = {
        "index": 0,
        "uuid": "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60",
        "pci_bus_id": "00000000:47:00.0",
        "pci_device_id": "0x20B510DE",
        "name": "NVIDIA A100 80GB PCIe",
        "problem": None,
        "processes": [{"pid": 7, "name": "train", "gi_id": 5, "ci_id": 0}],
        "mig": {"capable": True, "current": True, "pending": True, "instances": [instance]},
    }
    read = data.HostReport(facts={"driver": {"version": "550.163.01"}, "gpus": [gpu]})
    report = fleet.work / "report.json"
    report.write_text(json.dumps(data.serialized(data.Report("2026-11-28T06:00:00Z", {"one": read}))))
    layout = [{"devices": gpu["uuid"], "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}]
    fleet.host("one", **BOARDS, nvidia_mig_layout=layout)
    work = ("-e", "rehearse_from=%s" % report, "-e", "rehearse_busy=%s" % report)
    run = fleet.play(REHEARSE, *work)
    assert row(run, "one") == ["1x A100 80GB PCIe", "1", "0", "1", "-", "changes"]
    assert "the driver shows 1 GPUs, and 2 boards are named" in run.output
    fleet.hosts["one"]["nvidia_mig_layout"] = [{**layout[0], "mig_devices": {"7g.80gb": 1}}]
    run = fleet.play(REHEARSE, *work, fails=True)
    assert row(run, "one")[-1] == "refused"
    assert "(3g.40gb at 0:4), used by train, PID 7 in the report. Stop these processes" in run.output


@pytest.mark.parametrize(
    ("allowed", "needs", "fails"),
    [({"nvidia_mig_reset": True}, "reboot", True), ({"nvidia_mig_reboot": True}, "reboot, allowed", False)],
    ids=["forbidden", "allowed"],
)
def test_a_reboot_that_a_change_of_mode_needs(
    fleet: Fleet, allowed: t.Dict[str, t.Any], needs: str, fails: bool
) -> None:
    fleet.host("one", **BOARDS, nvidia_mig_layout=DESIRED, **allowed)
    run = fleet.play(REHEARSE, "-e", "rehearse_activation=reboot", fails=fails)
    assert row(run, "one")[-2:] == [needs, "fails" if fails else "changes"]
    assert ("Set nvidia_mig_reboot to true, or reboot the node" in run.output) == fails


def test_pods_for_which_no_node_is_left(fleet: Fleet) -> None:
    fleet.host("one", **BOARDS, nvidia_mig_layout=DESIRED)
    pods = fleet.work / "pods.json"
    container = {"name": "a", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
    pod = {"kind": "Pod", "metadata": {"name": "small"}, "spec": {"containers": [container], "nodeName": "one"}}
    pods.write_text(json.dumps({"kind": "List", "items": [pod]}))
    run = fleet.play(REHEARSE, "-e", former(fleet, one=FORMER), "-e", "rehearse_pods=%s" % pods)
    assert "default/small (nvidia.com/mig-1g.10gb: 1): no node advertises that" in run.output


def test_a_limit_does_not_concern_the_other_hosts_of_the_inventory(fleet: Fleet) -> None:
    """Neither their work, nor their place in the former inventory."""
    fleet.host("one", **BOARDS, nvidia_mig_layout=DESIRED)
    fleet.host("two", **BOARDS, nvidia_mig_layout=DESIRED)
    source = former(fleet, two=FORMER)
    run = fleet.play(REHEARSE, "--limit", "one", "-e", source, "-e", 'rehearse_busy=[{"host":"two"}]')
    assert row(run, "one")[-1] == "changes"
    assert "Hosts: 1 (changes: 1)" in run.output and "Not in the inventory any more" not in run.output


def test_forty_hosts_in_less_than_a_minute(fleet: Fleet) -> None:
    """Of one processor, because other tests may run at the same time."""
    for number in range(40):
        fleet.host("gpu-%02d" % number, gpu_node_boards=["A100-80GB"] * 8, nvidia_mig_layout=DESIRED)
    begin = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = fleet.play(REHEARSE, "-e", former(fleet, **dict.fromkeys(fleet.hosts, FORMER)))
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert end.ru_utime + end.ru_stime - begin.ru_utime - begin.ru_stime < 60
    assert "Hosts: 40 (changes: 40)" in run.output
    assert "(40 hosts)" in run.output


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("rehearse_from=/nonexistent", "rehearse_from: /nonexistent does not exist"),
        ("rehearse_busy=/nonexistent", "rehearse_busy: /nonexistent cannot be read"),
        ('rehearse_busy=[{"host":"two"}]', "rehearse_busy: 'two' is no host of the inventory"),
        ("rehearse_pods=/nonexistent", "rehearse_pods: /nonexistent cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_run_before_any_host(fleet: Fleet, argument: str, message: str) -> None:
    fleet.host("one", **BOARDS, nvidia_mig_layout=DESIRED)
    run = fleet.play(REHEARSE, "-e", argument, fails=True)
    assert message in run.output and "Check the variables" not in run.output
