# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of a plan on a GPU in memory."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge_node import converge_node
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import mode_first_plan, plan_gpu
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    FakeGpu,
    profile,
)

OFF = Target(False)


def target(board, *names):
    """``target(A100, "3g.20gb", "1g.5gb")``; a pair is a name and compute instances."""
    return Target(
        True,
        tuple(
            DesiredInstance(profile(board, name[0]), None, name[1])
            if isinstance(name, tuple)
            else DesiredInstance(profile(board, name))
            for name in names
        ),
    )


def run(driver, desired, reset=False, index=0):
    gpu = driver.gpus[index].snapshot()
    known = gpu.profiles_known or not desired.enabled
    first = plan_gpu(gpu, desired, reset=reset) if known else mode_first_plan(gpu, reset)
    return converge_node(driver, [first], lambda now: plan_gpu(now, desired, reset=reset), reset)[0]


def layout(gpu):
    """Names with compute instance sizes, in order of placement."""
    return [
        (what.name, place.start, tuple(sorted(size for _id, size, _sms, _place in cis.values())))
        for what, place, cis in sorted(gpu.instances.values(), key=lambda item: item[1])
    ]


def mixed(gpu):
    gpu.add("3g.20gb", 4)
    gpu.add("1g.5gb", 0)
    gpu.add("1g.5gb", 1)
    return gpu


def off(board=A100, **kwargs):
    return FakeGpu(board=board, mode=False, **kwargs)
