# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stopping and starting the services that use GPUs, with a systemctl in memory."""

from __future__ import annotations

import fnmatch
import json
import os
import signal

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import processes, services
from ansible_collections.gpufleet.node.plugins.modules import nvidia_mig_services
from ansible_collections.gpufleet.node.tests.unit.plugins.modules import module_support

DCGM, PERSISTENCED, OTHER = "nvidia-dcgm.service", "nvidia-persistenced.service", "ssh.service"
CLIENTS = {"clients": ["*dcgm.service"], "mode_clients": [PERSISTENCED]}
SPLIT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"2c.3g.40gb": 1, "7c.7g.80gb": 1}}]


class Systemd:
    """Running units, and units that cannot be stopped or started."""

    def __init__(self, *units):
        self.units = set(units)
        self.stuck = set()
        self.gone = set()
        self.calls = []
        self.signal = None  # sent when the first unit is stopped

    def __call__(self, command, *arguments):
        if command == "stop" and self.signal is not None:
            os.kill(os.getpid(), self.signal)
            self.signal = None
        unit = arguments[-1] if arguments else ""
        if command in ("stop", "start"):
            self.calls.append("%s %s" % (command, unit))
            if unit in self.stuck:
                return 1, "", "Job failed\n"
            (self.units.discard if command == "stop" else self.units.add)(unit)
            return 0, "", ""
        if command == "is-active":
            return (0 if unit in self.units else 3), "", ""
        if command == "show":
            return 0, "LoadState=%s\n" % ("not-found" if unit in self.gone else "loaded"), ""
        assert command == "list-units"
        names = [name for name in self.units if any(fnmatch.fnmatch(name, each) for each in arguments)]
        return 0, "".join("%s loaded active running A service\n" % name for name in names), ""


@pytest.fixture(autouse=True)
def _no_processes(tmp_path, monkeypatch):
    """The machine's own processes may be a MIG manager of the lab."""
    monkeypatch.setattr(processes, "PROCESSES", str(tmp_path / "proc"))


def deny(*_given, **_options):
    raise PermissionError(13, "Permission denied")


@pytest.fixture(name="node")
def fixture_node(tmp_path, monkeypatch):
    class Node(Systemd):
        record = tmp_path / "record.json"

        def run(self, state, check=False, **options):
            from ansible.module_utils.basic import AnsibleModule

            def systemctl(_module, arguments, **_options):
                return self(*arguments[1:])

            monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name: "/bin/" + name)
            monkeypatch.setattr(AnsibleModule, "run_command", systemctl)
            return module_support.run(nvidia_mig_services.main, check, state=state, record=str(self.record), **options)

        def recorded(self):
            return json.loads(self.record.read_text())["stopped"]

    return Node


def test_stop_and_start(node):
    systemd = node(DCGM, OTHER)
    for state in ("stopped", "started"):
        module_support.cycle(systemd.run, lambda: sorted(systemd.units), state=state, disruption="mode", **CLIENTS)
    assert systemd.units == {DCGM, OTHER}


@pytest.mark.parametrize(
    ("disruption", "stopped"),
    [("none", []), ("create", []), ("destroy", [DCGM]), ("mode", [DCGM, PERSISTENCED])],
)
def test_stops_what_the_change_requires(node, disruption, stopped):
    systemd = node(DCGM, PERSISTENCED, OTHER)
    planned = systemd.run("stopped", check=True, disruption=disruption, **CLIENTS)
    assert (planned["stopped"], planned["changed"], systemd.calls) == (stopped, bool(stopped), [])
    assert not systemd.record.exists()
    assert systemd.run("stopped", disruption=disruption, **CLIENTS)["stopped"] == stopped
    assert systemd.calls == ["stop " + unit for unit in stopped]
    assert systemd.record.exists() == (disruption != "none")  # also without units: the next run completes the change
    started = systemd.run("started", units=stopped)
    assert (started["started"], started["interrupted"]) == (stopped[::-1], disruption != "none")
    assert systemd.units == {DCGM, PERSISTENCED, OTHER}


def test_finds_processes_that_no_stopped_unit_would_end(node, tmp_path):
    groups = {
        1: "0::/system.slice/nvidia-dcgm.service\n",
        2: "1:name=systemd:/system.slice/nvidia-dcgm.service/worker\n0::/\n",
        3: "0::/system.slice/train.service\n",
        4: "0::/system.slice/nvidia-dcgm.service.d\n",
    }
    for number, text in groups.items():
        (tmp_path / "proc" / str(number)).mkdir(parents=True)
        (tmp_path / "proc" / str(number) / "cgroup").write_text(text)
    systemd = node(DCGM)
    assert systemd.run("stopped", True, disruption="mode", processes=[1, 2, 3, 4, 5], **CLIENTS)["others"] == [3, 4]


def test_the_units_are_recorded_before_they_are_stopped(node):
    systemd = node(DCGM)
    systemd.stuck = {DCGM}
    assert (
        systemd.run("stopped", disruption="mode", **CLIENTS)["msg"]
        == "nvidia-dcgm.service cannot be stopped: Job failed"
    )
    assert systemd.recorded() == [DCGM]


FORGED = '{"stopped": ["attack.service"]}'


def _link(record):
    (record.parent / "elsewhere").write_text(FORGED)
    record.symlink_to("elsewhere")


def _of_another_user(record):
    record.write_text(FORGED)
    os.chown(str(record), 12345, -1)


def _writable(record):
    record.write_text(FORGED)
    record.chmod(0o664)


@pytest.mark.parametrize("forge", [_link, _of_another_user, _writable, lambda record: os.mkfifo(str(record))])
def test_a_record_that_another_user_may_have_written_starts_nothing(node, forge):
    if forge is _of_another_user and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    systemd = node()
    forge(systemd.record)
    for state in ("started", "stopped"):
        assert "cannot be used" in systemd.run(state, disruption="mode", **CLIENTS)["msg"]
    assert systemd.calls == []


def test_the_record_is_not_written_to_a_directory_of_other_users(node, tmp_path):
    systemd = node(DCGM)
    tmp_path.chmod(0o770)
    assert "is not a directory that only root can access" in systemd.run("stopped", disruption="mode", **CLIENTS)["msg"]
    assert systemd.calls == [] and not systemd.record.exists()


def test_units_of_an_interrupted_run_stay_recorded(node):
    systemd = node(PERSISTENCED)
    systemd.record.write_text('{"stopped": ["nvidia-dcgm.service"]}')
    systemd.run("stopped", disruption="mode", **CLIENTS)
    assert systemd.recorded() == [DCGM, PERSISTENCED]
    assert systemd.run("started")["started"] == [PERSISTENCED, DCGM]


def test_a_unit_that_cannot_be_started_does_not_prevent_the_others(node):
    systemd = node()
    systemd.stuck = {PERSISTENCED}
    failed = systemd.run("started", units=[DCGM, PERSISTENCED])
    assert (
        "nvidia-persistenced.service cannot be started: Job failed. See journalctl -u, and run again" in failed["msg"]
    )
    assert systemd.units == {DCGM}


def test_a_unit_that_is_no_longer_installed_does_not_prevent_anything(node):
    systemd = node()
    systemd.gone = systemd.stuck = {PERSISTENCED}
    result = systemd.run("started", units=[DCGM, PERSISTENCED])
    assert result["started"] == [DCGM]
    assert "nvidia-persistenced.service, which the role stopped, is no longer installed" in str(result["warnings"])


def test_missing_root_privileges_are_not_damage(node, monkeypatch):
    monkeypatch.setattr(services, "read", deny)
    for state in ("started", "stopped"):
        result = node().run(state, disruption="mode")
        assert result["failed"] and result["msg"].endswith(". Run as root (become: true)")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stopped": 1}'])
def test_a_damaged_record_is_named(node, text):
    systemd = node(DCGM)
    systemd.record.write_text(text)
    assert "The record of stopped units %s is damaged" % systemd.record in systemd.run("started")["msg"]


def test_nothing_to_do_changes_nothing(node):
    systemd = node(DCGM)
    assert not systemd.run("started", units=[DCGM])["changed"]
    assert not systemd.run("stopped", disruption="mode", clients=[], mode_clients=[])["changed"]


def test_warns_about_split_instances_where_a_kubelet_runs(node):
    def warnings(*units, **more):
        result = node(*units).run("stopped", check=True, disruption="mode", **{"layout": SPLIT, **more})
        return [item if isinstance(item, str) else item["event"]["msg"] for item in result.get("warnings", [])]

    assert warnings("kubelet-helper.service") == []
    assert warnings("kubelet.service", layout=[]) == []
    (warning,) = warnings("kubelet.service")
    assert warning.startswith("kubelet.service is running, and the layout splits GPU instances into 2c.3g.40gb. With")


@pytest.mark.parametrize(
    ("mig_devices", "split"),
    [
        ({"2c.3g.40gb": 1, "1c.3g.40gb": 1}, ["2c.3g.40gb", "1c.3g.40gb"]),
        ([{"profile": "3g.40gb", "compute_instances": ["1c.3g.40gb"] * 3}], ["1c.3g.40gb"]),
        ({"MIG 1c.3g.40gb": 1}, ["1c.3g.40gb"]),
        ({"7c.7g.80gb": 1, "1c.1g.20gb": 1, "3g.40gb": 1}, []),
    ],
)
def test_split_instances(mig_devices, split):
    entry = {"devices": 0, "mig_enabled": True, "mig_devices": mig_devices}
    assert services.split_instances([entry, {"devices": 1, "mig_enabled": False}]) == split


def test_a_node_without_systemd_has_no_running_units(tmp_path, monkeypatch):
    from ansible.module_utils.basic import AnsibleModule

    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name: None)
    given = {"state": "stopped", "record": str(tmp_path / "record"), "disruption": "mode", "clients": ["x.service"]}
    assert module_support.run(nvidia_mig_services.main, **given)["stopped"] == []


def test_a_signal_while_clients_are_stopped_starts_them_again(node):
    systemd = node(DCGM, PERSISTENCED, OTHER)
    systemd.signal = signal.SIGHUP
    result = systemd.run("stopped", disruption="mode", **CLIENTS)
    assert result["failed"] is True and "Stopped by SIGHUP, so the GPU clients are started again" in result["msg"]
    assert systemd.units == {DCGM, PERSISTENCED, OTHER}
    assert systemd.recorded() == [DCGM, PERSISTENCED]
