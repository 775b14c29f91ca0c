# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A process of its own, which runs the module nvidia_mig on one simulated node: a job on stdin, its outcome on stdout.

Only this process loads the simulator's NVML. It runs nothing unless the NVML that programs here find is that one.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import runpy
import sys
import typing as t

from ansible.module_utils import basic
from ansible.module_utils.common import warnings

Data = t.Dict[str, t.Any]

_MODULE = "ansible_collections.gpufleet.node.plugins.modules.nvidia_mig"
_PID = os.getppid()  # of the simulated work: it lives longer than this process
_NO_BUSY = "rehearse_busy: %s matches no GPU instance of the start (%s)"
_FIRST_BUSY = (
    "rehearse_busy: %s does not say which of the %d that match have work: the first %d are taken; name gpu and start"
)


def main() -> None:
    job = json.load(sys.stdin)
    sys.stdout.write(_without_pid(json.dumps(rehearse(job)), [entry["name"] for entry in job["busy"]]))


def rehearse(job: Data) -> Data:
    from nvsim import description, library

    if not hasattr(ctypes.CDLL("libnvidia-ml.so.1"), "nvsim_create"):
        raise SystemExit("the NVML library that programs find is not the simulator's, so nothing was run")
    try:
        requested = [
            description.RequestedGpu(_product(gpu["names"]), gpu["uuid"], gpu["bus_id"]) for gpu in job["gpus"]
        ]
        described = description.describe(requested, job["driver"], activation=job["activation"], seed=job["seed"])
    except library.NodeError as error:
        return {"unknown": str(error)}
    node = library.Node(job["folder"])
    node.create(described)
    out: Data = {"notes": _start(node, job)}
    problems = [problem for entry in job["busy"] for problem in _attach(node, entry, out["notes"])]
    out["before"] = _facts(node)
    if problems or job["options"] is None:
        return {**out, "problems": problems, "after": out["before"]}
    planned = module(job["options"], check_mode=True)
    if not planned.get("failed"):
        out["applied"] = _apply(node, job)
    return {**out, "problems": [], "planned": planned, "after": _facts(node)}


def _product(names: t.Sequence[str]) -> str:
    """The product with the first of the names that the simulator knows; one may be a PCI device id."""
    from nvsim import description, library

    boards, products = description.load_boards(), description.load_products()["products"]
    for name in names:
        for key, product in products.items():
            if product["pci"].lower() == name.lower():
                return str(key)
        with contextlib.suppress(library.NodeError):
            return description.find(name, boards, products)
    return description.find(names[-1], boards, products)


def _start(node: t.Any, job: Data) -> t.List[str]:
    """Bring the node to the layout that the rehearsal starts from. A note if that is impossible."""
    if not job["start"]:
        return []
    options = {**job["paths"], "layout": job["start"], "reset": True}
    result = module(options)
    if result.get("reboot_required") or result.get("reset_required"):
        node.reboot()
        result = module(options)
    if result.get("failed"):
        return ["it starts from empty GPUs, because the layout to start from does not fit: %s" % result["msg"]]
    return []


def _apply(node: t.Any, job: Data) -> Data:
    """The result of the change, and of the reboot that may complete it."""
    result = module(job["options"])
    needs = result.get("reset_required") or result.get("reboot_required")
    if result.get("failed") or not needs or not job["reboot"] or job["busy"]:
        return result
    node.reboot()
    return {**module(job["options"]), "rebooted": True}


def _attach(node: t.Any, entry: Data, notes: t.List[str]) -> t.List[str]:
    """Let a process use the instances that an entry of rehearse_busy names, or a GPU without MIG; problems.

    Adds a note if more instances match than have work.
    """
    gpus = [gpu for gpu in node.show()["gpus"] if entry["gpu"] in (None, gpu["index"])]
    found = [(gpu["index"], gi) for gpu in gpus for gi in gpu["gpu_instances"] if _named(entry, gi)]
    if entry["profile"] is None and not found:
        found = [(gpu["index"], None) for gpu in gpus]
    if entry["count"] is not None:
        if len(found) > entry["count"]:
            notes.append(_FIRST_BUSY % (entry["text"], len(found), entry["count"]))
        found = found[: entry["count"]]
    for index, gi in found:
        cis = [None] if gi is None else [ci["id"] for ci in gi["compute_instances"]]
        for ci in cis:
            node.attach(_PID, index, None if gi is None else gi["id"], ci, name=entry["name"])
    if found and len(found) == (entry["count"] or len(found)):
        return []
    known = [
        "%s at %d on GPU %d" % (gi["profile"], gi["start"], gpu["index"]) for gpu in gpus for gi in gpu["gpu_instances"]
    ]
    return [_NO_BUSY % (entry["text"], ", ".join(known) or "none")]


def _named(entry: Data, gi: Data) -> bool:
    return entry["profile"] in (None, gi["profile"]) and entry["start"] in (None, gi["start"])


def _facts(node: t.Any) -> t.List[Data]:
    """The GPUs in the format of the facts, as far as layouts and resources need them."""
    return [
        {
            "index": gpu["index"],
            "uuid": gpu["uuid"],
            "pci_bus_id": gpu["pci_bus_id"],
            "pci_device_id": "0x%08X" % gpu["pci_device_id"],
            "pci_subsystem_id": "0x%08X" % gpu["pci_subsystem_id"],
            "name": gpu["name"],
            "problem": None,
            "mig": {
                "capable": bool(gpu["mig_capable"]),
                "current": bool(gpu["mode_current"]) if gpu["mig_capable"] else None,
                "pending": bool(gpu["mode_pending"]) if gpu["mig_capable"] else None,
                "instances": [_instance(gi) for gi in gpu["gpu_instances"]],
            },
        }
        for gpu in node.show()["gpus"]
    ]


def _without_pid(text: str, names: t.Sequence[str]) -> str:
    """The outcome as JSON, in which simulated work has only its name."""
    for name in (json.dumps(name)[1:-1] for name in names):
        text = text.replace("PID %d (%s)" % (_PID, name), name)
    return text


def _instance(gi: Data) -> Data:
    cis = [{"id": ci["id"], "profile": ci["profile"], "slices": ci["size"]} for ci in gi["compute_instances"]]
    return {**{key: gi[key] for key in ("id", "profile", "start", "size")}, "compute_instances": cis}


def module(options: Data, check_mode: bool = False) -> Data:
    """The result of the module nvidia_mig, also if it fails."""
    arguments = {**options, "_ansible_check_mode": check_mode, "_ansible_diff": False}
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode()
    basic._ANSIBLE_PROFILE = "legacy"  # of arguments, from ansible-core 2.19 on
    warnings._global_warnings.clear()  # of an earlier run in this process
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        runpy.run_module(_MODULE, run_name="__main__")
    result = t.cast(Data, json.loads(printed.getvalue()))
    return {**result, "warnings": [_text(warning) for warning in result.get("warnings", ())]}


def _text(warning: t.Any) -> str:
    """The text of a warning, which is a dictionary from ansible-core 2.19 on."""
    return str(warning["event"]["msg"] if isinstance(warning, dict) else warning)


if __name__ == "__main__":
    main()
