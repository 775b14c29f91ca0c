# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Both backends read the same GPU from the same node, and their writes have the same effect."""

from __future__ import annotations

import contextlib
import os

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Board
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.backend_support import refusal

from .support import EMPTY, OFF, SMI_VERSIONS, Simulated, gi, on, template

FULL = {
    "A30": on(gi("2g.12gb", 0, (1, 1)), gi("1g.6gb", 2), gi("1g.6gb+me", 3)),
    "A100-SXM4-40GB": on(gi("3g.20gb", 4, (1, 1)), gi("1g.10gb", 0), gi("1g.5gb+me", 2), gi("1g.5gb", 3, ())),
    "A100-PCIE-80GB": on(gi("7g.80gb", 0, (4, 2, 1))),
    "H100-SXM5-80GB": on(gi("4g.40gb", 0, (2, 1)), gi("1g.20gb", 6), gi("2g.20gb", 4)),
    "H200-SXM": on(gi("3g.71gb", 0), gi("3g.71gb", 4, (2, 1))),
    "RTX-PRO-6000": on(gi("2g.48gb", 0, (1, 1)), gi("1g.24gb", 6)),
    "T4": OFF,
}


def as_smi_reports(gpu):
    """The GPU as nvidia-smi reports it: without the numbers of constants."""
    profiles = tuple(profile._replace(constant=-1) for profile in gpu.board.profiles)
    return gpu._replace(board=gpu.board._replace(profiles=profiles))


@pytest.fixture(params=SMI_VERSIONS)
def version(request):
    return request.param


@pytest.fixture
def both():
    """Open both backends on a node, and close them after the test."""
    opened = []

    def open_both(node: Simulated, version: str, uid: int = 0):
        for driver in (node.nvml(uid), node.nvidia_smi(version, uid)):
            driver.open()
            opened.append(driver)
        return opened

    yield open_both
    for driver in opened:
        driver.close()


@pytest.mark.parametrize("product", FULL)
def test_both_backends_read_the_same_gpus(templates, cases, both, version, product):
    node = template(templates, (product, product), (FULL[product], EMPTY if FULL[product].mode else OFF), version)
    node = node.copy(cases / "node")
    if FULL[product].instances:
        busy = node.read()[0].instances[0]
        node.attach(os.getpid(), 0, busy.id, busy.compute_instances[0].id, memory_mib=64)
        node.attach(os.getppid(), 0, busy.id, busy.compute_instances[0].id, kind="mps", memory_mib=64)
    else:
        node.attach(os.getpid(), 0, memory_mib=64)
    nvml, smi = both(node, version)
    assert nvml.count() == smi.count() == 2
    for index in range(2):
        assert as_smi_reports(nvml.read(index)) == smi.read(index)
        assert nvml.identify(index) == smi.identify(index)
    assert nvml.read(0).processes
    assert len(nvml.read(0).instances) == len(FULL[product].instances)
    for instance in nvml.read(0).instances:
        assert nvml.compute_profiles(0, instance.id) == smi.compute_profiles(0, instance.id)
    assert nvml.versions()._replace(nvml=None) == smi.versions()


def test_without_mig_mode_only_profiles_differ(templates, cases, both, version):
    node = template(templates, ("A100-SXM4-40GB",), (OFF,), version).copy(cases / "node")
    nvml, smi = both(node, version)
    by_nvml, by_smi = as_smi_reports(nvml.read(0)), smi.read(0)
    if not by_smi.profiles_known:
        by_nvml = by_nvml._replace(board=Board(by_nvml.name, (), 0, 0, 0), profiles_known=False)
    assert by_nvml == by_smi


def test_pending_modes_read_the_same(templates, cases, both, version):
    node = template(templates, ("A100-SXM4-40GB",), (OFF,), version, "reset").copy(cases / "node")
    nvml, smi = both(node, version)
    assert smi.set_mode(0, True) == codes.RESET_REQUIRED == nvml.set_mode(0, True)
    for driver in (nvml, smi):
        assert (driver.read(0).mode_current, driver.read(0).mode_pending) == (False, True)
    smi.reset(0)
    for driver in (nvml, smi):
        assert (driver.read(0).mode_current, driver.read(0).mode_pending) == (True, True)


def test_both_backends_fail_with_the_same_codes(templates, cases, both, version):
    node = template(templates, ("A100-SXM4-40GB", "T4"), (FULL["A100-SXM4-40GB"], OFF), version).copy(cases / "node")
    nvml, smi = both(node, version)
    gpu = nvml.read(0)
    busy = next(item for item in gpu.instances if item.compute_instances)
    ci = busy.compute_instances[0]
    node.attach(os.getpid(), 0, busy.id, ci.id, memory_mib=64)
    small = next(profile for profile in gpu.board.profiles if profile.slices == 1)
    taken = next(place for place in small.placements if place.overlaps(busy.placement))
    for code, call, args in (
        (codes.IN_USE, "destroy_compute_instance", (0, busy.id, ci.id)),
        (codes.IN_USE, "destroy_gpu_instance", (0, busy.id)),
        (codes.INSUFFICIENT_RESOURCES, "create_gpu_instance", (0, small.id, taken)),
        (codes.INVALID_ARGUMENT, "create_gpu_instance", (0, 99, taken)),
        (codes.INSUFFICIENT_RESOURCES, "create_compute_instance", (0, busy.id, ci.profile_id, ci.placement.start)),
        (codes.NOT_FOUND, "destroy_gpu_instance", (0, 99)),
        (codes.NOT_FOUND, "destroy_compute_instance", (0, busy.id, 7)),
        (codes.NOT_SUPPORTED, "set_mode", (1, True)),
    ):
        assert [refusal(getattr(driver, call), *args).code for driver in (nvml, smi)] == [code, code], call
    assert refusal(smi.reset, 0).code == codes.IN_USE


@pytest.mark.parametrize(
    "function, code",
    [
        ("nvmlDeviceGetHandleByIndex_v2", codes.NO_PERMISSION),
        ("nvmlDeviceGetHandleByIndex_v2", codes.NOT_FOUND),
        ("nvmlDeviceGetGpuInstanceProfileInfoV", codes.NOT_SUPPORTED),
    ],
)
def test_gpus_that_cannot_be_read_are_not_empty(templates, cases, both, version, function, code):
    node = template(templates, ("A100-SXM4-40GB",) * 2, (FULL["A100-SXM4-40GB"], EMPTY), version).copy(cases / "node")
    node.fault(function, code=code, always=True)
    for driver in both(node, version):
        assert [refusal(driver.read, index).code for index in range(driver.count())] == [code, code]


@pytest.mark.parametrize("function", ["nvmlDeviceGetUUID", "nvmlDeviceGetMigDeviceHandleByIndex"])
def test_no_error_causes_wrong_uuids(templates, cases, both, version, function):
    """nvidia-smi omits MIG devices that it cannot read, and renumbers the others."""
    node = template(templates, ("A100-SXM4-40GB",), (FULL["A100-SXM4-40GB"],), version).copy(cases / "node")
    _nvml, smi = both(node, version)
    expected = smi.read(0)
    node.trace()
    smi.read(0)
    node.trace(False)
    for nth in range(1, 1 + sum(call["function"] == function for call in node.calls())):
        node.fault(function, nth)
        with contextlib.suppress(BackendError):
            assert smi.read(0) == expected, nth
        node.clear_faults()


def test_without_root_both_errors_name_the_remedy(templates, cases, both, version):
    node = template(templates, ("A100-SXM4-40GB",), (FULL["A100-SXM4-40GB"],), version).copy(cases / "node")
    for driver in both(node, version, uid=1000):
        error = refusal(driver.read, 0)
        assert error.code == codes.NO_PERMISSION and "become: true" in str(error)
        assert driver.identify(0).mode_current
