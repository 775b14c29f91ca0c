# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The plan of the role nvidia_driver for a node, and the problems of the running driver, from the node's facts."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from . import plan as driver_plan
from . import tables


def plan_for_node(facts: t.Mapping[str, t.Any], settings: Data) -> Data:
    """The plan for a node. ``settings`` are the role's variables. Raises Refusal if the driver cannot be installed."""
    nvidia = facts["nvidia"]
    node = {
        "kernel": facts["kernel"],
        "architecture": facts["architecture"],
        "gpus": nvidia["gpus"],
        "nvswitches": nvidia["nvswitches"],
        "secure_boot": nvidia["secure_boot"],
    }
    desired = {name.removeprefix("nvidia_driver_"): value for name, value in settings.items()}
    return driver_plan.plan_driver(tables.load_table(tables.system_name(facts)), node, desired)


# What packages of the role would replace half of, by the method of the facts, and how it is removed.
_FOREIGN = {
    "run_file": (
        "NVIDIA's installer (a .run file) installed the driver (%s)",
        "Remove it with nvidia-uninstall, or with the .run file and --uninstall",
    ),
    "vgpu_packages": ("NVIDIA's vGPU driver is installed (%s)", "Remove its package"),
    "other_packages": ("a driver of another repository is installed (%s)", "Remove its packages"),
    "files": (
        "libraries of the driver belong to no package (%s)",
        "Remove the driver as it was installed, or delete these files and its kernel modules",
    ),
}


def installation_problems(nvidia: Data) -> t.List[str]:
    """Why packages cannot be installed beside the driver of a node, from the facts of nvidia_driver_facts."""
    installation = nvidia["driver"]["installation"]
    if installation["method"] not in _FOREIGN:
        return []
    what, remedy = _FOREIGN[installation["method"]]
    return [
        "%s, and packages would replace only a part of it. %s, or leave nvidia_driver out of gpu_node_roles"
        % (what % ", ".join(installation["evidence"]), remedy)
    ]


def running_problems(nvidia: Data, planned: t.Optional[Data] = None) -> t.List[str]:
    """Problems of the driver that runs on a node, from the facts of nvidia_driver_facts.

    Without a plan, as for a driver that another tool installed, every node with NVSwitches needs the fabric manager.
    """
    module, fabric_manager = nvidia["kernel_module"], nvidia["fabric_manager"]
    problems = []
    if nvidia["driver"]["problem"]:
        remedy = "Load it with modprobe nvidia, or reboot the node"
        if not module["installed_version"]:
            remedy = "Install it with site.yml --tags driver"
        problems.append("no driver answers (%s). %s" % (nvidia["driver"]["problem"], remedy))
    if module["versions_match"] is False:
        problems.append(
            "the running driver is %s, the installed driver is %s. Reboot the node"
            % (module["loaded_version"], module["installed_version"])
        )
    if planned["fabric_manager"] if planned else nvidia["nvswitches"]:
        if fabric_manager["active"] is False:
            problems.append(
                "the node has NVSwitches, but nvidia-fabricmanager.service does not run; CUDA fails without it. "
                "See journalctl -u nvidia-fabricmanager"
            )
        elif planned and fabric_manager["enabled"] is False:
            problems.append(
                "the node has NVSwitches, but nvidia-fabricmanager.service is not enabled, so that CUDA fails after a "
                "reboot. Run site.yml --tags driver"
            )
        elif fabric_manager["active"] is None:
            problems.append(
                "the node has NVSwitches, but systemctl does not report the state of nvidia-fabricmanager.service"
            )
    if nvidia["nvswitches"] is None:
        problems.append("its PCI bus cannot be read, so NVSwitches cannot be detected. Check that /sys is readable")
    problems += ["GPU %s: %s" % (_name(gpu), gpu["problem"]) for gpu in nvidia["gpus"] or () if gpu["problem"]]
    if not nvidia["driver"]["problem"]:
        problems += [
            "GPU %s (%s) belongs to the kernel module, but the driver does not list it. See dmesg for NVRM"
            % (gpu["pci_bus_id"], gpu["name"])
            for gpu in nvidia["gpus"] or ()
            # Without a name, it is passed through to a virtual machine.
            if gpu["index"] is None and gpu["name"] and not gpu["problem"]
        ]
    return problems


def _name(gpu: Data) -> str:
    return " ".join(str(part) for part in (gpu["index"], gpu["pci_bus_id"]) if part is not None)
