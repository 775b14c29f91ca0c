# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs converge in parallel, one thread each, without affecting each other."""

from __future__ import annotations

import os

from .support import OFF, gi, matches, on, run, template

A100 = "A100-SXM4-40GB"
SEVEN = on(*[gi("1g.5gb") for _number in range(7)])


def test_eight_gpus_from_nothing_to_56_instances(templates, cases):
    node = template(templates, (A100,) * 8, (OFF,) * 8).copy(cases / "node")
    outcomes = run(node.nvml(), [SEVEN] * 8)
    assert [outcome.error for outcome in outcomes] == [None] * 8
    gpus = node.read()
    assert all(matches(gpu, SEVEN) for gpu in gpus)
    uuids = {ci.uuid for gpu in gpus for item in gpu.instances for ci in item.compute_instances}
    assert len(uuids) == 56 and None not in uuids
    assert [outcome.performed for outcome in run(node.nvml(), [SEVEN] * 8)] == [()] * 8


def test_a_reset_excludes_the_threads_of_other_gpus(templates, cases):
    """During a reset, NVML must release all GPUs, so no other thread may be in a call."""
    node = template(templates, (A100,) * 4, (OFF,) * 4, activation="reset").copy(cases / "node")
    outcomes = run(node.nvml(), [SEVEN] * 4, reset=True)
    assert [outcome.error for outcome in outcomes] == [None] * 4
    assert all(matches(gpu, SEVEN) for gpu in node.read())
    assert not any(outcome.reset_required for outcome in outcomes)


def test_a_gpu_with_a_pending_mode_and_a_client_does_not_block_the_others(templates, cases):
    node = template(templates, (A100,) * 3, (OFF,) * 3, activation="reset").copy(cases / "node")
    run(node.nvml(), [OFF, SEVEN, OFF])
    node.attach(os.getpid(), 1, memory_mib=64)
    outcomes = run(node.nvml(), [SEVEN] * 3, reset=True)
    assert [outcome.reset_required for outcome in outcomes] == [False, True, False]
    assert "PID %d" % os.getpid() in outcomes[1].notice
    assert [client.pid for client in outcomes[1].clients] == [os.getpid()]
    assert [matches(gpu, layout) for gpu, layout in zip(node.read(), [SEVEN] * 3)] == [True, False, True]
    node.detach(os.getpid())
    outcomes = run(node.nvml(), [SEVEN] * 3, reset=True)
    assert [outcome.error for outcome in outcomes] == [None] * 3
    assert all(matches(gpu, SEVEN) for gpu in node.read())


def test_a_required_reboot_is_reported(templates, cases):
    node = template(templates, (A100,), (OFF,), activation="reboot").copy(cases / "node")
    (outcome,) = run(node.nvml(), [SEVEN], reset=True)
    assert outcome.reboot_required and not outcome.reset_required and outcome.error is None
    node.reboot()
    (outcome,) = run(node.nvml(), [SEVEN])
    assert outcome.error is None and matches(node.read()[0], SEVEN)
