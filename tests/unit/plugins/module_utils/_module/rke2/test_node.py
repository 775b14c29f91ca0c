# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Labels and taints of a node."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2.node import label_arguments, taint_arguments

GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}


def test_labels() -> None:
    current = {"a": "1", "b": "2", "c": "3", "theirs": "x"}
    assert label_arguments(current, ["a=1"]) == []
    assert label_arguments(current, ["a=2", "d="], ["b=2", "c=4"]) == ["a=2", "d=", "b-"]  # c has another value now
    assert label_arguments({}, [], ["b=2"]) == []


def test_taints() -> None:
    assert taint_arguments([GPU], ["nvidia.com/gpu:NoSchedule"]) == []
    assert taint_arguments([GPU], ["nvidia.com/gpu=a:NoSchedule"]) == ["nvidia.com/gpu=a:NoSchedule"]
    assert taint_arguments([GPU], ["a=b:NoExecute"], ["nvidia.com/gpu:NoSchedule"]) == [
        "a=b:NoExecute",
        "nvidia.com/gpu:NoSchedule-",
    ]
    assert taint_arguments([GPU], [], ["nvidia.com/gpu=x:NoSchedule"]) == []  # somebody changed it
    assert taint_arguments([GPU], []) == []
