# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: decide which steps of the role nvidia_mig follow its plan."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action

_SERVICES = "gpufleet.node.nvidia_mig_services"
_OF_SERVICES = ("record", "clients", "mode_clients", "layout")
_REMEDY = (
    "To wait for them, set nvidia_mig_busy_wait; to leave these GPUs as they are, nvidia_mig_busy to skip; to stop their "
    "units during the change, nvidia_mig_clients"
)
_REASON = "%s lists the profiles of a GPU only while MIG mode is on. From the PCI device ids, not read from the GPUs:"


class ActionModule(Action):
    ARGUMENTS = {
        "plan": {"type": "dict", "required": True},
        "interrupted": {"type": "bool", "required": True},
        "skip_busy": {"type": "bool", "required": True},
        "busy_wait": {"type": "int", "required": True},
        "undo": {"type": "bool", "default": False},
        "reboot": {"type": "bool", "default": False},
        "record": {"type": "str", "required": True},
        "clients": {"type": "list", "elements": "str", "required": True},
        "mode_clients": {"type": "list", "elements": "str", "required": True},
        "layout": {"type": "list", "elements": "dict", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        given, check_mode = self._arguments, variables["ansible_check_mode"]
        plan: Data = given["plan"]
        services: Data = {"stopped": [], "others": []}
        if plan["disruption"] != "none":
            arguments = {
                **{name: given[name] for name in _OF_SERVICES},
                "state": "stopped",
                "disruption": plan["disruption"],
                "processes": [client["pid"] for each in plan["deferred"] for client in each["clients"]],
            }
            services = self._execute_module(_SERVICES, arguments, task_vars=variables)
            if services.get("failed"):
                return services
        warnings = services.get("warnings", [])
        ends = given["busy_wait"] > 0 or bool(services["stopped"] and not services["others"])
        blocked = [] if ends else [each["reason"] for each in plan["deferred"]]
        why = refusal(plan, blocked, given["undo"] and not given["reboot"])
        if why is not None:
            return {"failed": True, "msg": why, "warnings": warnings}
        return {
            **steps(plan, blocked if given["skip_busy"] else [], given["interrupted"], check_mode),
            "preview": preview(plan, given["layout"], variables["ansible_facts"]["nvidia"]) if check_mode else [],
            "warnings": warnings,
        }


def refusal(plan: Data, blocked: list[str], at_once: bool) -> str | None:
    """Why the role must not begin the change. ``at_once``: it must be complete without a reset or reboot by others."""
    if blocked and plan.get("busy"):
        return "\n".join([*blocked, _REMEDY])  # the plan has shown the maps
    if at_once and (plan.get("reset_required") or plan.get("reboot_required")):
        return "MIG mode cannot be disabled: %s. Nothing was changed." % ". ".join(plan["warnings"])
    return None


def steps(plan: Data, deferred: list[str], interrupted: bool, check_mode: bool) -> Data:
    """The steps that follow the plan. ``deferred``: why GPUs stay unchanged."""
    changes = not check_mode and (interrupted or plan["disruption"] != "none")
    return {
        "deferred": deferred,
        # No client is stopped if all that remains to do is blocked.
        "converge": changes and (interrupted or not deferred or bool(plan["operations"])),
        "verify": changes,
    }


def preview(plan: Data, layout: list[Data], facts: Data) -> list[str]:
    """The slice map of the GPUs whose profiles the node does not list yet, and the reason why it is not in the plan."""
    unplanned = {gpu["index"] for gpu in plan["gpus"] if gpu.get("mode_first")}
    gpus = [gpu for gpu in facts["gpus"] or () if gpu["index"] in unplanned]
    if not gpus:
        return []
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import map as layout_map  # large

    reason = _REASON % ("nvidia-smi" if plan["backend"] == "nvidia_smi" else "The driver")
    return [reason, *layout_map.of(layout, gpus=gpus).splitlines()]
