# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig when it receives a signal."""

from __future__ import annotations

import json
import os
import signal

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    MIXED,
    on,
    warnings,
)


@pytest.fixture(name="clients")
def fixture_clients(tmp_path, monkeypatch):
    """The record of units that the role stopped, and the systemctl calls that start units."""
    from ansible.module_utils.basic import AnsibleModule

    class Clients:
        record = tmp_path / "record"
        started = []

    def systemctl(_module, arguments, **_options):
        if arguments[1] == "start":
            Clients.started.append(arguments[2])
        return (3 if arguments[1] == "is-active" else 0), "", ""

    Clients.record.write_text(json.dumps({"stopped": ["dcgm.service", "nvsm.service"]}))
    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda _module, name: "/bin/" + name)
    monkeypatch.setattr(AnsibleModule, "run_command", systemctl)
    return Clients


def signalled(driver, call, number):
    """Send the signal to this process when the driver gets the call."""

    def send(name):
        if name == call and not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    sent = []
    driver.before = send
    return sent


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_between_two_writes_waits_for_the_end_of_the_change(node, clients, number):
    driver = node(FakeGpu(), FakeGpu(index=1))
    sent = signalled(driver, "create_compute_instance", number)
    result = driver.run(on(MIXED), clients_record=str(clients.record))
    assert sent and result["changed"] is True and result["unmatched"] == []
    assert [len(gpu.instances) for gpu in driver.gpus] == [3, 3]
    assert warnings(result) == ["Received %s during the change, which was not interrupted" % number.name]
    assert clients.started == ["nvsm.service", "dcgm.service"]


def test_a_signal_during_a_change_that_fails_waits_for_the_rollback(node, clients):
    gpu = FakeGpu()
    gpu.add("4g.20gb", 0)
    driver = node(gpu)
    before = gpu.snapshot()
    signalled(driver, "create_gpu_instance", signal.SIGTERM)
    driver.fail[("create_compute_instance", 0)] = codes.GPU_IS_LOST
    result = driver.run(on(MIXED), clients_record=str(clients.record))
    assert result["failed"] is True and "Its previous state was restored" in result["msg"]
    assert [(gi.profile_id, gi.placement) for gi in gpu.snapshot().instances] == [
        (gi.profile_id, gi.placement) for gi in before.instances
    ]
    assert clients.started == ["nvsm.service", "dcgm.service"]


@pytest.mark.parametrize("check", [False, True])
def test_a_signal_before_the_first_write_starts_the_stopped_clients(node, clients, check):
    driver = node(FakeGpu())
    signalled(driver, "read", signal.SIGTERM)
    result = driver.run(on(MIXED), check=check, clients_record=str(clients.record))
    assert result["failed"] is True and result["msg"] == "Stopped by SIGTERM. No GPU was changed"
    assert driver.writes == []
    assert clients.started == ["nvsm.service", "dcgm.service"]
