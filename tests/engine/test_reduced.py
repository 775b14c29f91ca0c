# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A 1g.20gb whose compute instance has fewer multiprocessors, because another client created it."""

from __future__ import annotations

import os

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes, describe
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import BusyError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import plan_gpu

from . import support
from .support import SMI_VERSIONS, gi, mode_and_instances, on, run, template

LAYOUT = on(gi("1g.20gb", 2), gi("1g.20gb", 4))


@pytest.fixture(params=SMI_VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def node(templates, cases, version):
    """Create the small instance at 2 with nvidia-smi, next to a full-size one at 4."""
    found = template(templates, ("H100-SXM5-80GB",), (on(gi("1g.20gb", 2, ()), gi("1g.20gb", 4)),), version)
    found = found.copy(cases / "node")
    gi_id = found.read()[0].instances[0].id
    created = found.runner(version)(["nvidia-smi", "mig", "-cci", "0", "-gi", str(gi_id), "-i", "0"])
    assert created.rc == 0, created
    return found


@pytest.fixture(params=["nvml", "nvidia_smi"])
def driver(request, node, version):
    return node.nvml() if request.param == "nvml" else node.nvidia_smi(version)


def names(node):
    return [ci["profile"] for instance in describe.instances(node.read()[0]) for ci in instance["compute_instances"]]


def test_has_the_same_name_as_in_nvidia_smi(node, version):
    listed = node.runner(version)(["nvidia-smi", "mig", "-lci"]).out
    assert names(node) == ["1c.1g.20gb", "1g.20gb"]
    assert listed.count("1c.1g.20gb") == 1 and listed.count(" 1g.20gb") == 1


def test_only_the_compute_instance_is_recreated(node, driver):
    (before,) = node.read()
    (outcome,) = run(driver, [LAYOUT])
    assert outcome.error is None
    assert [operation.kind for operation in outcome.performed] == [
        "destroy_compute_instance",
        "create_compute_instance",
    ]
    (after,) = node.read()
    assert names(node) == ["1g.20gb", "1g.20gb"]
    assert after.instances[1] == before.instances[1]
    (old,), (new,) = before.instances[0].compute_instances, after.instances[0].compute_instances
    assert (old.multiprocessors, new.multiprocessors) == (16, 26)
    assert old.uuid == new.uuid, "the UUID follows from the ids"
    (again,) = run(driver, [LAYOUT])
    assert not again.performed


def test_a_busy_one_is_never_recreated(node, driver):
    (before,) = node.read()
    node.attach(os.getpid(), 0, before.instances[0].id, 0, memory_mib=64)
    with pytest.raises(BusyError, match=r"compute instance 0 \(1c.1g.20gb\)"):
        run(driver, [LAYOUT])
    assert mode_and_instances(node.read()[0]) == mode_and_instances(before)


def test_a_layout_can_request_it(node, driver):
    driver.open()
    try:
        gpu = driver.read(0)
        profile = next(one for one in gpu.board.profiles if one.name == "1g.20gb")
        both = Target(True, (DesiredInstance(profile, 2, reduced=True), DesiredInstance(profile, 4, reduced=True)))
        (outcome,) = support.converge_node(driver, [plan_gpu(gpu, both)], lambda now: plan_gpu(now, both))
        assert outcome.error is None and len(outcome.performed) == 2
        assert not plan_gpu(driver.read(0), both).changes
    finally:
        driver.close()
    assert names(node) == ["1c.1g.20gb", "1c.1g.20gb"]


def test_a_failure_restores_the_small_one(node):
    before = node.read()
    node.fault("nvmlGpuInstanceCreateComputeInstanceWithPlacement", 1, codes.NO_PERMISSION)
    node.fault("nvmlGpuInstanceCreateComputeInstance", 1, codes.NO_PERMISSION)
    (outcome,) = run(node.nvml(), [LAYOUT])
    assert outcome.error is not None and outcome.restored
    assert [mode_and_instances(gpu) for gpu in node.read()] == [mode_and_instances(gpu) for gpu in before]
