# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module node_state: reads in one task what a report shows of a node."""

from __future__ import annotations

import os
import platform
import re
import typing as t

from ..._backend import select
from ..._common.data import Data
from ..common.commands import MISSING, Run, runner
from ..driver import facts
from ..driver.node import NodeReader
from ..mig import processes

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..._mig.backend import Backend
    from ..._mig.model import Gpu

ARGUMENTS: t.Dict[str, t.Any] = {"argument_spec": {"drain_record_path": {"type": "path", "required": True}}}
_VERSION = re.compile(r"\bversion v?(\d\S*)")


def run(module: AnsibleModule) -> None:
    run_command = runner(module)
    module.exit_json(
        changed=False,
        nvidia=gpus_and_driver(NodeReader(run_command), select.open_backend),
        toolkit=toolkit(run_command),
        nodename=platform.node(),
        drained=os.path.exists(module.params["drain_record_path"]),
    )


def gpus_and_driver(node: NodeReader, open_backend: t.Callable[[], Backend]) -> Data:
    """The facts, in which each GPU also has its processes; None if they are unknown."""
    found = facts.gather(node, open_backend, lambda gpu: {"processes": gpu_processes(gpu)})
    for gpu in found["gpus"] or ():
        gpu.setdefault("processes", None)
    return found


def gpu_processes(gpu: Gpu) -> t.List[Data]:
    return [
        {
            "pid": process.pid,
            "name": process.name,
            "gi_id": process.gi_id,
            "ci_id": process.ci_id,
            "pod_uid": processes.pod_of(process.pid),
        }
        for process in gpu.processes
    ]


def toolkit(run: Run) -> Data:
    """The version of NVIDIA's container toolkit, or why it is unknown."""
    status, output, errors = run(["nvidia-ctk", "--version"])
    if status == MISSING:
        return {"version": None, "problem": "nvidia-ctk is not installed"}
    found = _VERSION.search(output)
    if status == 0 and found:
        return {"version": found.group(1), "problem": None}
    return {"version": None, "problem": "nvidia-ctk --version: %s" % (errors or output).strip()[:200]}
