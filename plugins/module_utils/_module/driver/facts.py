# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Gather the facts of a node, from the driver if it works, otherwise from kernel, PCI bus and packages.

Values that cannot be read are None, never empty, zero or False.
"""

from __future__ import annotations

import contextlib
import typing as t

from ..._backend import select
from ..._common.data import Data
from ..._common.text import listed
from ..._mig import codes, describe, parallel, retry
from ..._mig.backend import BackendError, Versions
from ..common.commands import runner
from .node import NodeReader

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..._mig.backend import Backend
    from ..._mig.model import Gpu
    from .node import PciGpu


def run(module: AnsibleModule) -> None:
    module.exit_json(ansible_facts={"nvidia": gather(NodeReader(runner(module)), select.open_backend)})


def gather(
    node: NodeReader, open_backend: t.Callable[[], Backend], more: t.Callable[[Gpu], Data] = lambda _gpu: {}
) -> Data:
    """All available facts; ``more`` returns further keys of a GPU that could be read."""
    source, versions, gpus, problem = _query(open_backend, more)
    kernel = node.kernel_module()
    version = versions.driver
    if version is None and kernel.loaded is not None:
        source, version = "proc", kernel.loaded
    if version is None:
        version = kernel.installed or next((package.version for package in node.packages() or ()), None)
        source = "package" if version else None
    switches = node.nvswitches()
    installation = node.installation()
    return {
        "driver": {
            "version": version,
            "source": source,
            "problem": problem,
            "installation": {"method": installation.method, "evidence": list(installation.evidence)},
        },
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
        "nvswitches": None
        if switches is None
        else [
            {"pci_bus_id": switch.pci_bus_id, "pci_device_id": _device_id(switch.pci_device_id)} for switch in switches
        ],
        "gpus": _with_device_files(node, _merged(gpus, node.gpus())),
    }


def _with_device_files(node: NodeReader, gpus: t.Optional[t.List[Data]]) -> t.Optional[t.List[Data]]:
    for gpu in gpus or ():
        for device in gpu["mig"]["devices"] or ():
            device["device_files"] = node.device_files(gpu["pci_bus_id"], device["gi_id"], device["ci_id"])
    return gpus


def _query(
    open_backend: t.Callable[[], Backend], more: t.Callable[[Gpu], Data]
) -> t.Tuple[t.Optional[str], Versions, t.Optional[t.List[Data]], t.Optional[str]]:
    """The name, versions and GPUs of the backend, and the problem if the backend or the versions cannot be read."""
    try:
        with contextlib.closing(open_backend()) as backend:
            backend.prefetch()
            versions, problem = _versions(backend)
            return (
                backend.name,
                versions,
                parallel.over(retry.read(backend.count), lambda index: _read(backend, index, more)),
                problem,
            )
    except BackendError as error:
        return None, Versions(), None, str(error)


def _versions(backend: Backend) -> t.Tuple[Versions, t.Optional[str]]:
    """The versions, or why they cannot be read. The GPUs are reported in either case."""
    try:
        return retry.read(backend.versions), None
    except BackendError as error:
        if error.code == codes.TIMEOUT:  # each GPU would time out too
            raise
        return Versions(), str(error)


def _merged(listed: t.Optional[t.List[Data]], bus: t.Optional[t.Sequence[PciGpu]]) -> t.Optional[t.List[Data]]:
    """The driver's GPUs, then those that are only on the PCI bus; None if neither can be read.

    For a lost GPU the driver reports only its index. It lists GPUs in order of bus id, so the
    unmatched GPUs on both sides are the same ones if their numbers are equal.
    """
    if listed is None or bus is None:
        return listed if bus is None else [_on_the_bus(gpu) for gpu in bus]
    claimed = {gpu["pci_bus_id"] for gpu in listed}
    others = [gpu for gpu in bus if gpu.pci_bus_id not in claimed]
    unidentified = [gpu for gpu in listed if gpu["pci_bus_id"] is None]
    # A GPU that is passed through to a virtual machine does not belong to the kernel module.
    candidates = ([gpu for gpu in others if gpu.name is not None] or others) if unidentified else []
    if len(candidates) == len(unidentified):
        for gpu, found in zip(unidentified, candidates):
            gpu.update(_identity_on_the_bus(found))
    elif candidates:
        for gpu in unidentified:
            gpu["problem"] += " (on the PCI bus, it may be %s)" % " or ".join(found.pci_bus_id for found in candidates)
    return listed + [_on_the_bus(gpu) for gpu in others if gpu not in candidates]


def _read(backend: Backend, index: int, more: t.Callable[[Gpu], Data]) -> Data:
    """One GPU, without its instances if it cannot be read, for example for lack of root privileges."""
    try:
        gpu = retry.read(lambda: backend.read(index))
        return dict(_known(gpu, describe.instances(gpu)), problem=_without_uuid(gpu), **more(gpu))
    except BackendError as error:
        problem = str(error)
        if error.code == codes.TIMEOUT:  # a retry would time out too
            return _gpu(index=index, problem=problem)
    try:
        return dict(_known(backend.identify(index), None), problem=problem)
    except BackendError:
        return _gpu(index=index, problem=problem)


def _without_uuid(gpu: Gpu) -> t.Optional[str]:
    """The MIG devices whose UUIDs the driver does not report, as a problem of the GPU."""
    missing = [
        "compute instance %d of GPU instance %d" % (ci.id, gi.id)
        for gi in gpu.instances
        for ci in gi.compute_instances
        if ci.uuid is None
    ]
    if not missing:
        return None
    return "The driver lists no MIG device of %s, so its UUID is unknown. Gather the facts again" % listed(
        missing, ", "
    )


def _known(gpu: Gpu, instances: t.Optional[t.List[Data]]) -> Data:
    return _gpu(
        **describe.identity(gpu),
        pci_device_id=_device_id(gpu.pci_device_id),
        pci_subsystem_id=_device_id(gpu.pci_subsystem_id),
        serial=gpu.serial,
        memory_mib=gpu.memory_mib,
        architecture=gpu.architecture,
        compute_capability=gpu.compute_capability,
        mig={
            "capable": gpu.mig_capable,
            "current": gpu.mode_current,
            "pending": gpu.mode_pending,
            "instances": instances,
            "devices": None if instances is None else describe.mig_devices(instances),
        },
    )


def _on_the_bus(gpu: PciGpu) -> Data:
    return _gpu(**_identity_on_the_bus(gpu))


def _identity_on_the_bus(gpu: PciGpu) -> Data:
    return {
        "pci_bus_id": gpu.pci_bus_id,
        "pci_device_id": _device_id(gpu.pci_device_id),
        "pci_subsystem_id": _device_id(gpu.pci_subsystem_id),
        "uuid": gpu.uuid,
        "name": gpu.name,
    }


def _gpu(**known: t.Any) -> Data:
    """A GPU with all keys, so that queries need no checks for missing ones."""
    unknown: Data = dict.fromkeys(
        (
            "index",
            "uuid",
            "pci_bus_id",
            "pci_device_id",
            "pci_subsystem_id",
            "name",
            "serial",
            "memory_mib",
            "architecture",
            "compute_capability",
            "problem",
        )
    )
    unknown["mig"] = dict.fromkeys(("capable", "current", "pending", "instances", "devices"))
    return dict(unknown, **known)


def _device_id(number: t.Optional[int]) -> t.Optional[str]:
    return None if number is None else "0x%08X" % number
