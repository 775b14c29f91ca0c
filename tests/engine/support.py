# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated nodes for the engine's tests, used in the test process.

A node is created once and copied for each case. The simulated NVML is loaded before pynvml
searches for the library, so that the environment need not be set before Python starts.
nvidia-smi is the real one.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.command import CommandResult
from ansible_collections.gpufleet.node.plugins.module_utils._backend.nvml import NvmlBackend
from ansible_collections.gpufleet.node.plugins.module_utils._backend.smi import SmiBackend
from ansible_collections.gpufleet.node.plugins.module_utils._mig import retry
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge import Outcome
from ansible_collections.gpufleet.node.plugins.module_utils._mig.converge_node import converge_node
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import DesiredInstance, Gpu, Placement, Target
from ansible_collections.gpufleet.node.plugins.module_utils._mig.plan import mode_first_plan, plan_gpu

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "simulator"))

from nvsim.description import RequestedGpu, describe
from nvsim.library import Node, NodeError, library

SMI_VERSIONS = ("535.261.03", "550.163.01")

# One GPU instance of a layout: name, start (None: anywhere), compute instances (None: one over all of it).
Spec = t.Tuple[str, t.Optional[int], t.Optional[t.Tuple[int, ...]]]


class Layout(t.NamedTuple):
    """The current or desired layout of a GPU. With ``mode`` False, it is empty."""

    mode: bool
    instances: t.Tuple[Spec, ...] = ()


def gi(name: str, start: t.Optional[int] = None, cis: t.Optional[t.Tuple[int, ...]] = None) -> Spec:
    return name, start, cis


OFF = Layout(False)
EMPTY = Layout(True)


def on(*instances: Spec) -> Layout:
    return Layout(True, instances)


def need_simulator() -> None:
    try:
        library()
    except NodeError as problem:
        pytest.skip(str(problem))


def smi(version: str) -> str:
    """Return the path of the real nvidia-smi of a version."""
    path = TOP / ".cache" / "nvidia-smi" / version / "nvidia-smi"
    if not path.is_file():
        pytest.skip("nvidia-smi %s is missing: run scripts/fetch-nvidia-smi" % version)
    return str(path)


class Simulated(Node):
    """A node in a directory, with the two backends."""

    def use(self, uid: int = 0) -> None:
        """Select this node for the next initialization of NVML in this process.

        NVML releases a node at its last shutdown, and a test may have made that call fail.
        """
        while library().nvmlShutdown() == 0:
            pass
        os.environ["NVSIM_STATE"] = str(self.state)
        os.environ["NVSIM_UID"] = str(uid)

    def copy(self, directory: Path) -> "Simulated":
        other = Simulated(directory)
        other.directory.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.state, other.state)
        other.clear_trace()
        return other

    def nvml(self, uid: int = 0) -> NvmlBackend:
        """The NVML backend. A reset changes the node directly, and returns the result that nvidia-smi would return."""
        self.use(uid)
        return NvmlBackend(self._reset)

    def nvidia_smi(self, version: str, uid: int = 0) -> SmiBackend:
        return SmiBackend(self.runner(version, uid))

    def runner(self, version: str, uid: int = 0) -> t.Callable[[t.Sequence[str]], CommandResult]:
        command, environment = smi(version), dict(self.environment(uid), LC_ALL="C")

        def run(argv: t.Sequence[str]) -> CommandResult:
            done = subprocess.run(
                [command] + list(argv[1:]), env=environment, capture_output=True, text=True, check=False
            )
            return CommandResult(done.returncode, done.stdout, done.stderr)

        return run

    def _reset(self, argv: t.Sequence[str]) -> CommandResult:
        """Reset without a process: translate the node's result to nvidia-smi's messages and codes."""
        for gpu in self.show()["gpus"]:
            if gpu["uuid"] == argv[-1]:
                try:
                    self.reset(gpu["index"])
                except NodeError as problem:
                    words = {19: "In use by another client", 3: "Not Supported"}.get(problem.code, "Unknown Error")
                    return CommandResult(255, "GPU reset unavailable: %s\n" % words, "")
                return CommandResult(0, "GPU %s was successfully reset.\nAll done.\n" % gpu["pci_bus_id"], "")
        return CommandResult(6, "No devices were found\n", "")

    def read(self) -> t.List[Gpu]:
        """Read the GPUs without faults."""
        driver = self.nvml()
        driver.open()
        try:
            return [driver.read(index) for index in range(driver.count())]
        finally:
            driver.close()


@functools.lru_cache(maxsize=None)
def template(
    directory: Path,
    products: t.Tuple[str, ...],
    layouts: t.Tuple[Layout, ...],
    driver: str = "550.163.01",
    activation: str = "auto",
    quirks: t.Tuple[str, ...] = (),
) -> Simulated:
    """Create a node with these GPUs and layouts."""
    need_simulator()
    name = "-".join(str(part) for part in (driver, activation, abs(hash((products, layouts, quirks)))))
    node = Simulated(directory / "templates" / name)
    node.create(describe([RequestedGpu(product) for product in products], driver, None, "auto", quirks))
    nvml = node.nvml()
    nvml.open()
    try:
        for index, layout in enumerate(layouts):
            _build(nvml, index, layout)
    finally:
        nvml.close()
    if activation != "auto":
        described = describe([RequestedGpu(product) for product in products], driver, None, activation, quirks)
        assert not any(layout.mode for layout in layouts), "only nodes with the mode off"
        node.create(described)
    return node


def _build(nvml: NvmlBackend, index: int, layout: Layout) -> None:
    if layout.mode:
        assert nvml.set_mode(index, True) == 0
    board = nvml.read(index).board
    for kind, start, cis in layout.instances:
        profile = next(profile for profile in board.profiles if profile.name == kind)
        place = next(place for place in profile.placements if start in (None, place.start))
        gi_id = nvml.create_gpu_instance(index, profile.id, Placement(*place))
        for size in (profile.slices,) if cis is None else cis:
            offered = nvml.compute_profiles(index, gi_id)
            best = max((ci for ci in offered if ci.slices == size), key=lambda ci: ci.multiprocessors)
            nvml.create_compute_instance(index, gi_id, best.id, None)


def target(gpu: Gpu, layout: Layout) -> Target:
    """Return the layout with the GPU's own profiles."""
    desired = []
    for name, start, cis in layout.instances:
        profile = next((profile for profile in gpu.board.profiles if profile.name == name), None)
        if profile is None:
            raise LayoutError("%s has no profile %s" % (gpu.label, name))
        desired.append(DesiredInstance(profile, start, tuple(sorted(cis or (), reverse=True))))
    return Target(layout.mode, tuple(desired))


def run(driver: t.Any, layouts: t.Sequence[Layout], reset: bool = False) -> t.Tuple[Outcome, ...]:
    """Run like the module: open, read, plan all GPUs, converge, close."""

    def first(gpu: Gpu, layout: Layout) -> t.Any:
        if layout.mode and not gpu.profiles_known:
            return mode_first_plan(gpu, reset)
        return again(gpu)

    def again(gpu: Gpu) -> t.Any:
        return plan_gpu(gpu, target(gpu, layouts[gpu.index]), reset=reset)

    driver.open()
    try:
        gpus = [retry.read(lambda index=index: driver.read(index)) for index in range(driver.count())]
        plans = [first(gpu, layout) for gpu, layout in zip(gpus, layouts)]
        return converge_node(driver, plans, again, reset)
    finally:
        driver.close()


def mode_and_instances(gpu: Gpu) -> t.Tuple[t.Any, ...]:
    """Return all state of a GPU that a user could lose, including UUIDs."""
    return gpu.mode_current, gpu.mode_pending, gpu.instances


def matches(gpu: Gpu, layout: Layout) -> bool:
    """Return whether the GPU matches the layout, without the engine's own comparison."""
    if bool(gpu.mode_current) != layout.mode or gpu.mode_current != gpu.mode_pending:
        return False
    have = [
        (
            gpu.profile(item.profile_id).name,
            item.placement.start,
            tuple(sorted(ci.slices for ci in item.compute_instances)),
        )
        for item in gpu.instances
    ]
    for name, start, cis in sorted(layout.instances, key=lambda spec: spec[1] is None):  # pinned ones first
        profile = next(profile for profile in gpu.board.profiles if profile.name == name)
        sizes = (profile.slices,) if cis is None else tuple(sorted(cis))
        found = [item for item in have if item[0] == name and start in (None, item[1]) and item[2] == sizes]
        if not found:
            return False
        have.remove(found[0])
    return not have
