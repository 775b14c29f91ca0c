# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages stay short on nodes with many GPUs, and name GPUs as the driver does."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._common.text import listed, short
from ansible_collections.gpufleet.node.plugins.module_utils._mig import layout, messages, plan_node
from ansible_collections.gpufleet.node.plugins.module_utils._mig import operations as ops
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError, MigError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import Gpu, Placement, Process
from ansible_collections.gpufleet.node.plugins.module_utils._mig.operations import Operation
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.plan_support import board, gpu, profile

LONGEST = 1500
A100 = board("A100-80GB")
PRODUCT = "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition"
UUID = "GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60"


class Driver:
    """A driver that only provides GPUs."""

    def __init__(self, gpus: t.Sequence[Gpu]) -> None:
        self.gpus = gpus

    def prefetch(self) -> None: ...

    def count(self) -> int:
        return len(self.gpus)

    def read(self, index: int) -> Gpu:
        return self.gpus[index]


def node(*specs: str, **fields: t.Any) -> t.List[Gpu]:
    """A node with 16 GPUs."""
    return [
        gpu(
            A100,
            *specs,
            **dict(
                {
                    "index": index,
                    "uuid": "GPU-%08d-1111-2222-3333-444444444444" % index,
                    "pci_bus_id": "00000000:%02X:00.0" % (0x40 + index),
                    "name": PRODUCT,
                },
                **fields,
            ),
        )
        for index in range(16)
    ]


def entry(devices: object, mig_devices: object = None, **changes: t.Any) -> t.Dict[str, t.Any]:
    out: t.Dict[str, t.Any] = {"devices": devices, "mig_enabled": True, "mig_devices": mig_devices or {"7g.80gb": 1}}
    return dict(out, **changes)


def refused(entries: t.Any, gpus: t.Sequence[Gpu]) -> str:
    with pytest.raises(MigError) as error:
        plan_node.plan_node(t.cast(t.Any, Driver(gpus)), layout.parse(entries), disturb=True, reset=False)
    message = str(error.value)
    assert len(message) < LONGEST
    return message


@pytest.mark.parametrize(
    "texts, text",
    [
        ([], ""),
        (["a", "b", "c", "d"], "a; b; c; d"),
        (["a", "b", "c", "d", "e", "f"], "a; b; c; d; and 2 more"),
        (["a" * 700, "b" * 700, "c"], "a" * 700 + "; and 2 more"),
    ],
)
def test_long_lists_are_truncated_with_a_count(texts: t.List[str], text: str) -> None:
    assert listed(texts) == text


def test_a_name_that_matches_no_gpu() -> None:
    message = refused([entry("H100*")], node())
    assert "GPU 3 (GPU-00000003-1111-2222-3333-444444444444, 00000000:43:00.0, %s); and 12 more" % PRODUCT in message


def test_a_layout_for_other_boards() -> None:
    message = refused([entry("all", device_filter="0x290110DE")], node())
    assert message.endswith("%s), 0x20B210DE; and 12 more" % PRODUCT)


def test_gpus_without_mig() -> None:
    message = refused([entry("all")], node(mig_capable=False))
    assert message.endswith("%s); and 12 more)" % PRODUCT)


def test_gpus_that_share_a_reason() -> None:
    message = refused([entry("all", {"1g.10gb": 8})], node())
    assert message.startswith('entry 1 (devices: "all"), GPUs 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 (')


def test_gpus_each_with_a_reason() -> None:
    message = refused([entry(index, {"1g.10gb": 8 + index}) for index in range(16)], node())
    assert "GPU 0 " in message and message.splitlines()[-1].startswith("and 1") and message.endswith(" more")


def test_many_processes() -> None:
    gpus = [
        each._replace(
            processes=tuple(
                Process(1000 * each.index + 100 * gi.id + number, "/usr/bin/python3 train.py", gi.id, 0)
                for gi in each.instances
                for number in range(40)
            )
        )
        for each in node("1g.10gb@0", "1g.10gb@1", "1g.10gb@2", "1g.10gb@3", "3g.40gb@4")
    ]
    found = plan_node.plan_node(t.cast(t.Any, Driver(gpus)), layout.parse([entry("all")]), disturb=True, reset=False)
    message = plan_node.message((error.plan.gpu, error) for error in found.busy)
    assert "and 24 more" in message and len(message) < LONGEST


@pytest.mark.parametrize("written", [UUID, UUID.lower(), UUID.upper()])
def test_uuids_are_spelled_as_by_the_driver(written: str) -> None:
    message = refused([entry(written)], node())
    assert "UUID %s matches no GPU" % UUID in message


_LONG = "x" * 4000
_NUMBER = 10**5000


@pytest.mark.parametrize(
    "written",
    [
        *(_LONG, {_LONG: 1}, [_LONG], [{_LONG: 1}], [{_NUMBER: 1}]),
        *([entry("all", **{_LONG: 1})], [entry("all", mig_enabled=_LONG)]),
        *([entry(devices)] for devices in (_LONG, "GPU-" + _LONG, "MIG-" + _LONG, "0," * 2000 + "0", "0" * 4000)),
        *([entry(devices)] for devices in ("0:" * 2000, " " + _LONG, [_LONG, _LONG], _NUMBER, -_NUMBER, [_NUMBER])),
        *([entry("all", device_filter=found)] for found in (_LONG, _NUMBER)),
        *([entry("all", {name: 1})] for name in (_LONG, _NUMBER, "1g.10gb+" + _LONG, "1 g.10gb+" + _LONG)),
        *([entry("all", {"1g.10gb": count})] for count in (_LONG, _NUMBER)),
        *([entry("all", mig_devices)] for mig_devices in ([_LONG], [{_LONG: 1}], [{"profile": _LONG}])),
        [entry("all", [{"profile": "1g.10gb." + _LONG}])],
        [entry("all", [{"profile": "3g.40gb", "start": _NUMBER}])],
        [entry("all", [{"profile": "3g.40gb", "compute_instances": ["1c.3g.40gb+" + _LONG]}])],
    ],
    ids=short,
)
def test_quoted_input_is_truncated(written: t.Any) -> None:
    with pytest.raises(LayoutError) as error:
        layout.parse(written).resolve(node())
    assert len(str(error.value)) < LONGEST


@pytest.mark.parametrize(
    "operation, text",
    [
        (Operation(ops.SET_MODE, enabled=True), "turn MIG mode on"),
        (Operation(ops.SET_MODE, enabled=False), "turn MIG mode off"),
        (Operation(ops.RESET), "reset the GPU"),
        (
            Operation(ops.CREATE_GI, profile(A100, "3g.40gb"), Placement(4, 4)),
            "create GPU instance 3g.40gb at 4:4",
        ),
        (
            Operation(ops.DESTROY_GI, profile(A100, "3g.40gb"), Placement(4, 4), 1),
            "destroy GPU instance 3g.40gb at 4:4",
        ),
        (
            Operation(ops.CREATE_CI, profile(A100, "3g.40gb"), Placement(4, 4), slices=2),
            "create compute instance 2c.3g.40gb in 3g.40gb at 4:4",
        ),
        (
            Operation(ops.DESTROY_CI, profile(A100, "3g.40gb"), Placement(4, 4), 1, 0, 3),
            "destroy compute instance 3g.40gb in 3g.40gb at 4:4",
        ),
    ],
)
def test_descriptions_of_operations(operation: Operation, text: str) -> None:
    assert messages.operation(operation) == text
