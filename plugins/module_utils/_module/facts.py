# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The facts of a node: from the driver where it works, and from what lies around it where it does not."""

from __future__ import annotations

import contextlib
import typing as t

from .._driver import errors, select
from .._driver.base import Versions
from .._driver.errors import DriverError
from . import describe
from .node import Node

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .._driver.base import Driver
    from .._mig.model import Gpu
    from .node import PciGpu, Run

Data = t.Dict[str, t.Any]


def run(module: AnsibleModule) -> None:
    module.exit_json(ansible_facts={"nvidia": gather(Node(_runner(module)), select.open_driver)})


def gather(node: Node, open_driver: t.Callable[[], Driver]) -> Data:
    """Everything that can be known."""
    source, versions, gpus, problem = _ask(open_driver)
    kernel = node.kernel_module()
    version = versions.driver
    if version is None and kernel.loaded is not None:
        source, version = "proc", kernel.loaded
    if version is None:
        version = kernel.installed or next((package.version for package in node.packages()), None)
        source = "package" if version else None
    known = {gpu["pci_bus_id"] for gpu in gpus}
    return {
        "driver": {"version": version, "source": source, "problem": problem},
        "cuda_version": versions.cuda,
        "nvml_version": versions.nvml,
        "kernel_module": {
            "flavour": kernel.flavour,
            "loaded_version": kernel.loaded,
            "installed_version": kernel.installed,
            "versions_match": kernel.loaded == kernel.installed if kernel.loaded and kernel.installed else None,
        },
        "secure_boot": node.secure_boot(),
        "fabric_manager": dict(node.fabric_manager()._asdict()),
        "nvswitches": [
            {"pci_bus_id": switch.pci_bus_id, "pci_device_id": _device_id(switch.pci_device_id)}
            for switch in node.nvswitches()
        ],
        "gpus": gpus + [_on_the_bus(gpu) for gpu in node.gpus() if gpu.pci_bus_id not in known],
    }


def _ask(open_driver: t.Callable[[], Driver]) -> t.Tuple[t.Optional[str], Versions, t.List[Data], t.Optional[str]]:
    """The driver's name, its versions and its GPUs, or why it cannot be asked."""
    try:
        with contextlib.closing(open_driver()) as driver:
            driver.prefetch()
            return driver.name, driver.versions(), [_read(driver, index) for index in range(driver.count())], None
    except DriverError as error:
        return None, Versions(), [], str(error)


def _read(driver: Driver, index: int) -> Data:
    """One GPU; of one that cannot be read, as under a user who is not root, what can be had."""
    try:
        return _known(driver.read(index))
    except DriverError as error:
        problem = str(error)
        if error.code == errors.TIMEOUT:  # what hangs would hang once more
            return _gpu(index=index, problem=problem)
    try:
        return dict(_known(driver.identify(index)), problem=problem)
    except DriverError:
        return _gpu(index=index, problem=problem)


def _known(gpu: Gpu) -> Data:
    instances = describe.instances(gpu)
    return _gpu(
        **describe.identity(gpu),
        pci_device_id=_device_id(gpu.pci_device_id),
        serial=gpu.serial,
        memory_mib=gpu.memory_mib,
        architecture=gpu.architecture,
        compute_capability=gpu.compute_capability,
        mig={
            "capable": gpu.mig_capable,
            "current": gpu.mode_current,
            "pending": gpu.mode_pending,
            "instances": instances,
            "devices": describe.mig_devices(instances),
        },
    )


def _on_the_bus(gpu: PciGpu) -> Data:
    return _gpu(
        pci_bus_id=gpu.pci_bus_id, pci_device_id=_device_id(gpu.pci_device_id), uuid=gpu.uuid, name=gpu.name
    )


def _gpu(**known: t.Any) -> Data:
    """Every GPU has every key, so that queries need no tests for missing ones."""
    unknown: Data = dict.fromkeys(
        (
            "index",
            "uuid",
            "pci_bus_id",
            "pci_device_id",
            "name",
            "serial",
            "memory_mib",
            "architecture",
            "compute_capability",
            "problem",
        )
    )
    unknown["mig"] = {"capable": None, "current": None, "pending": None, "instances": [], "devices": []}
    return dict(unknown, **known)


def _device_id(number: int) -> str:
    return "0x%08X" % number


def _runner(module: AnsibleModule) -> Run:
    def run_command(argv: t.List[str]) -> t.Optional[t.Tuple[int, str]]:
        path = module.get_bin_path(argv[0])
        if path is None:
            return None
        status, output, _errors = module.run_command([path] + argv[1:])
        return status, output

    return run_command
