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
        "drains": {"type": "bool", "default": False},
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
        if check_mode and given["drains"]:  # which check mode skips, and which may end the processes
            warnings += ["Would fail now: " + reason for reason in blocked]
            blocked = []
        needs_reset = needs_reset_or_reboot(plan, bool(blocked) and not given["skip_busy"], given["reboot"])
        why = refusal(plan, blocked, needs_reset, given["undo"], check_mode)
        if why is not None:
            return {
                "failed": True,
                "msg": "%s: %s" % (variables["inventory_hostname"], why),
                "changing": [] if plan.get("busy") or given["undo"] else changing(plan, blocked),
                "warnings": warnings,
            }
        return {
            **steps(plan, blocked if given["skip_busy"] else [], given["interrupted"], check_mode),
            "changing": changing(plan, blocked),
            "preview": preview(plan, given["layout"], variables["ansible_facts"]["nvidia"]) if check_mode else [],
            "warnings": warnings,
        }


def needs_reset_or_reboot(plan: Data, blocked: bool, reboot: bool) -> bool:
    """Whether a GPU stays as it is until others reset it or reboot the node.

    ``blocked``: processes prevent that on the GPUs in use. ``reboot``: the role may reboot the node if all are idle.
    """
    in_use = {each["uuid"] for each in plan["deferred"]}
    needs = [gpu["uuid"] in in_use for gpu in plan["gpus"] if gpu["reset_required"]]
    return any(blocked if busy else not reboot for busy in needs)


def refusal(plan: Data, blocked: list[str], needs_reset: bool, undo: bool, check_mode: bool) -> str | None:
    """Why the role must not begin the change, and in check mode why it would fail afterwards."""
    if blocked and plan.get("busy"):
        return "\n".join([*blocked, _REMEDY])  # the plan has shown the maps
    reasons = ". ".join(plan.get("warnings", ()))
    if needs_reset and undo:
        return "MIG mode cannot be disabled: %s. Nothing was changed." % reasons
    if needs_reset and check_mode:
        return "The MIG mode of some GPUs changes only with a reset or reboot: %s." % reasons
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


def changing(plan: Data, blocked: list[str]) -> list[str]:
    """The UUIDs of the GPUs that change, also those in use, unless processes stay and block them."""
    released = set() if blocked else {each["uuid"] for each in plan["deferred"]}
    return [gpu["uuid"] for gpu in plan["gpus"] if gpu["changed"] or gpu["uuid"] in released]


def preview(plan: Data, layout: list[Data], facts: Data) -> list[str]:
    """The slice map of the GPUs whose profiles the node does not list yet, and the reason why it is not in the plan."""
    unplanned = {gpu["index"] for gpu in plan["gpus"] if gpu.get("mode_first")}
    gpus = [gpu for gpu in facts["gpus"] or () if gpu["index"] in unplanned]
    if not gpus:
        return []
    from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import map as layout_map  # large

    reason = _REASON % ("nvidia-smi" if plan["backend"] == "nvidia_smi" else "The driver")
    return [reason, *layout_map.of(layout, gpus=gpus).splitlines()]
