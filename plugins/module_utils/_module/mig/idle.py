# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module node_idle: lists the processes that use the GPUs of the node."""

from __future__ import annotations

import contextlib
import glob
import os
import typing as t

from ..._backend import names, select
from ..._mig import describe, messages, parallel, retry
from ..._mig.backend import BackendError
from ..._mig.model import Process
from ..common import systemd
from ..common.commands import Run, runner
from . import processes

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..._mig.backend import Backend

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "role": {"type": "str", "required": True},
        "reasons": {"type": "list", "elements": "str", "required": True},
        "drains": {"type": "bool", "default": True},  # of the action
        "units": {
            "type": "list",
            "elements": "str",
            "default": [
                "nvsm*.service",
                "dcgm.service",
                "nvidia-dcgm.service",
                "dcgm-exporter.service",
                "nvidia-dcgm-exporter.service",
            ],
        },
    }
}
# CUDA opens it, and clients of NVML such as DCGM, the persistence daemon and the device plugin do not.
_UVM = "/dev/nvidia-uvm"


def run(module: AnsibleModule) -> None:
    found = gpu_processes(runner(module), module.params["units"], select.open_backend)
    msg = "processes use its GPUs: %s" % messages.processes(found) if found else ""
    module.exit_json(changed=False, clients=describe.clients(found), msg=msg)


def gpu_processes(run: Run, patterns: t.Sequence[str], open_backend: t.Callable[[], Backend]) -> t.List[Process]:
    """The processes that use GPUs and belong to none of these units: names, or patterns of systemctl."""
    try:
        found = _listed(open_backend)
    except BackendError:  # without a driver, or if its library and the kernel module have different versions
        found = _cuda_processes()
    outside = processes.outside_units([each.pid for each in found], systemd.running(run, patterns)) if found else []
    return [each for each in found if each.pid in outside]


def _listed(open_backend: t.Callable[[], Backend]) -> t.List[Process]:
    """The processes that the driver lists. Raises BackendError."""
    with contextlib.closing(open_backend()) as backend:
        backend.prefetch()
        gpus = parallel.over(retry.read(backend.count), lambda index: retry.read(lambda: backend.read(index)))
    return [process for gpu in gpus for process in gpu.processes]


def _cuda_processes() -> t.List[Process]:
    """The processes that use CUDA, according to the kernel."""
    found = set()
    for path in glob.glob(os.path.join(processes.PROCESSES, "[0-9]*", "fd", "*")):
        with contextlib.suppress(OSError):  # it has ended
            if os.readlink(path) == _UVM:
                found.add(int(path.split(os.sep)[-3]))
    return [Process(pid, names.process_name(pid)) for pid in sorted(found)]
