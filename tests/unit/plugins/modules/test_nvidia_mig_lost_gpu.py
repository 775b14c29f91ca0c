# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_mig on a node with a GPU that cannot be read."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    H100,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    MIXED,
    off,
    on,
    refused,
    warnings,
)


def losing(node, index, identified=False, gpus=3):
    """A node with one lost GPU, and its GPUs."""
    given = [FakeGpu(index=number) for number in range(gpus)]
    driver = node(*given)
    driver.always[("read", index)] = codes.GPU_IS_LOST
    if not identified:
        driver.always[("identify", index)] = codes.GPU_IS_LOST
    return driver, given


@pytest.mark.parametrize("devices", [[0, 2], "uuid", "bus_id"])
def test_a_lost_gpu_outside_the_layout_is_a_warning(node, devices):
    driver, gpus = losing(node, 1)
    devices = {"uuid": [gpus[0].uuid, gpus[2].uuid], "bus_id": ["00000000:07:00.0", "00000000:09:00.0"]}.get(
        str(devices), devices
    )
    result = driver.run(on(MIXED, devices=devices))
    assert not result.get("failed") and [gpu["index"] for gpu in result["gpus"]] == [0, 2]
    assert [len(gpu.instances) for gpu in gpus] == [3, 0, 3]
    assert warnings(result) == ["GPU 1 cannot be read, and is not in the layout: read: GPU_IS_LOST (injected failure)"]


@pytest.mark.parametrize(
    ("entry", "verb"),
    [
        (dict(devices="all"), "covers"),
        (dict(devices=1), "covers"),
        (dict(devices=[0, 1]), "covers"),
        (dict(devices="all", device_filter="0x20B010DE"), "may cover"),
        (dict(devices="*A100*"), "may cover"),
        (dict(devices="GPU-00000000-0000-0000-0000-000000000001"), "may cover"),
        (dict(devices="0000:08:00.0"), "may cover"),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_a_lost_gpu_that_the_layout_may_cover_is_named_before_any_write(node, entry, verb, check):
    driver, _gpus = losing(node, 1)
    message = refused(driver, off(devices=[0]), dict(on(MIXED), **entry), check=check)
    assert message.startswith("GPU 1 cannot be read: read: GPU_IS_LOST (injected failure). Its UUID, PCI bus id and ")
    assert " entry 2 (devices: " in message and ") %s it, so no GPU of this node was changed. " % verb in message
    assert message.endswith("name only other GPUs there (devices: [0, 2]), or remove the entry")
    assert "entry 1" not in message


@pytest.mark.parametrize(
    ("entry", "covered"),
    [
        (dict(devices="all"), True),
        (dict(devices="GPU-00000000-0000-0000-0000-000000000001"), True),
        (dict(devices="0000:08:00.0"), True),
        (dict(devices="*H100*"), True),
        (dict(devices="all", device_filter="0x20B010DE"), True),
        (dict(devices="all", device_filter="0x233010DE"), False),
        (dict(devices="*A100*"), False),
        (dict(devices=[0, 2]), False),
    ],
)
def test_an_identified_lost_gpu_is_matched_by_its_identity(node, entry, covered):
    driver, gpus = losing(node, 1, identified=True)
    gpus[1].board = H100
    result = driver.run(off(devices=[0]), dict(off(), **entry))
    assert result.get("failed", False) is covered
    if covered:
        assert result["msg"].startswith(
            "GPU 1 (%s, 00000000:08:00.0, NVIDIA H100 80GB HBM3) cannot be read" % gpus[1].uuid
        )
        assert "cannot be read either" not in result["msg"]
        assert driver.writes == []
    else:
        assert [gpu.current for gpu in gpus][0] is False


def test_a_name_that_matches_no_gpu_is_refused_despite_a_lost_gpu(node):
    driver, _gpus = losing(node, 1)
    assert "index 7 matches no GPU" in refused(driver, off(devices=[7]))


def test_an_unresponsive_gpu_is_not_queried_twice(node):
    driver, _gpus = losing(node, 1)
    driver.always[("read", 1)] = codes.TIMEOUT
    refused(driver, off())
    assert ("identify", 1) not in driver.calls


def test_if_no_gpu_can_be_read_the_error_names_the_driver(node):
    driver = node(FakeGpu(), FakeGpu(index=1))
    driver.always["read"] = codes.NO_PERMISSION
    assert refused(driver, off()) == "read: NO_PERMISSION (injected failure)"
