# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_mig.

Everything is read and planned before the first write; check mode stops there.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

from ..._backend import lock, select, signals
from ..._common.text import listed
from ..._mig import layout
from ..._mig.backend import BackendError
from ..._mig.errors import MigError
from ..._mig.plan_node import NodePlan, message, plan_node
from . import results

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..._mig.backend import Backend
    from ..._mig.layout import Layout
    from .results import GpuResult

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "layout": {"type": "list", "elements": "dict"},
        "config_file": {"type": "path"},
        "config_name": {"type": "str"},
        "reset": {"type": "bool", "default": False},
        "disturb": {"type": "bool", "default": True},
        "busy": {"type": "str", "default": "fail", "choices": ["fail", "skip"]},
        "lock_path": {"type": "path", "default": lock.DEFAULT_PATH},
        "lock_wait": {"type": "int", "default": 120},
        "clients_record": {"type": "path"},
        "whole_node": {"type": "bool", "default": False},
        "backend": {"type": "str", "default": select.AUTO, "choices": list(select.NAMES)},
    },
    "mutually_exclusive": [("layout", "config_file")],
    "required_one_of": [("layout", "config_file")],
    "required_by": {"config_name": "config_file"},
}


_OWN_RESET = (
    "%s: MIG mode changes only if the driver resets the GPU itself, as it does if the GPU is idle, but not in some "
    "virtual machines. There, allow the reset with reset: true (in the role nvidia_mig_reset), or reboot"
)
_LEFT = (
    "%s is not in the layout, and has %d GPU instances. It keeps them until the next reboot, and has none after that. Name it "
    "in the layout to restore them at every boot, or to remove them now: {devices: %d, mig_enabled: false}"
)


def run(module: AnsibleModule) -> None:
    """A signal ends the run before the first write, or after the change is complete. Stopped clients are started."""
    record = module.params["clients_record"]
    with contextlib.closing(signals.Ending()) as ending:
        try:
            if record is not None and os.path.exists(record):
                ending.interrupt()
            _run(module, ending)
        except signals.Interrupted as signal:
            ending.defer()
            problems = _start_clients(module)
            module.fail_json(msg=". ".join(["Stopped by %s. No GPU was changed" % signal, *problems]), changed=False)


def _run(module: AnsibleModule, ending: signals.Ending) -> None:
    params = module.params
    skip_busy = params["busy"] == "skip"
    try:
        desired = _layout(params["layout"], params["config_file"], params["config_name"], module.warn)
        with lock.locked(
            params["lock_path"],
            params["lock_wait"],
            create=not module.check_mode,
            command="Ansible module nvidia_mig",
            progress=module.warn,
        ), contextlib.closing(select.open_backend(params["backend"])) as backend:
            node = plan_node(backend, desired, params["disturb"], params["reset"])
            _warn_about_others(module, node)
            if module.check_mode and not params["reset"]:
                _warn_about_resets(module, node)
            refused = bool(node.busy) and not skip_busy
            found = _converge(backend, node, params["reset"], module.check_mode or refused, ending)
    except lock.LockError as error:
        module.fail_json(
            msg="%s (options lock_wait and lock_path, in the role nvidia_mig_lock_wait and nvidia_mig_lock_path)"
            % error,
            changed=False,
        )
    except (MigError, BackendError) as error:
        module.fail_json(msg=str(error), changed=False)
    if ending.received:
        words = "Received %s during the change, which was not interrupted" % ", ".join(ending.received)
        module.warn(". ".join([words, *_start_clients(module)]))
    returned = results.merged_result(found, backend.name, skip_busy)
    for result in found:
        if result.notice is not None and (not refused or result.gpu["reset_required"]):  # a refusal names the others
            module.warn(result.notice)
    if refused:
        _fail_busy(module, node, returned)
    failures = [result.error for result in found if result.error is not None]
    if failures:
        module.fail_json(msg=listed(failures, "\n"), **returned)
    module.exit_json(**returned)


def _warn_about_others(module: AnsibleModule, node: NodePlan) -> None:
    """GPUs outside the layout that cannot be read, or that lose their instances at the next reboot."""
    for lost in node.lost:
        module.warn("%s cannot be read, and is not in the layout: %s" % (lost.label, lost.error))
    for other in node.unselected if module.params["whole_node"] else ():
        if other.instances:
            module.warn(_LEFT % (other.label, len(other.instances), other.index))


def _warn_about_resets(module: AnsibleModule, node: NodePlan) -> None:
    """Whether the driver resets a GPU itself shows only when its mode is requested."""
    # A request that cancels a pending change needs no reset.
    plans = [plan for plan in node.plans if plan.set_mode not in (None, plan.gpu.mode_current)]
    switched = [plan.gpu.label for plan in plans if not plan.gpu.resetless]
    if switched:
        module.warn(_OWN_RESET % listed(switched))


def _fail_busy(module: AnsibleModule, node: NodePlan, planned: t.Dict[str, t.Any]) -> None:
    """Ansible shows the diff only of tasks that do not fail, so the message contains it."""
    parts = [message((error.plan.gpu, error) for error in node.busy)]
    shown = {key: planned[key] for key in ("deferred", "disruption", "backend")}
    if module.check_mode:
        shown["diff"] = planned["diff"]
        keys = ("index", "uuid", "changed", "mode_first", "reset_required")
        shown["gpus"] = [{key: gpu[key] for key in keys} for gpu in planned["gpus"]]
        if module._diff:
            parts.extend(planned["changed_lines"])
    module.fail_json(msg="\n".join(parts), changed=False, busy=True, **shown)


def _layout(
    entries: t.Any, config_file: t.Optional[str], config_name: t.Optional[str], warn: t.Callable[[str], None]
) -> Layout:
    if config_file is None:
        parsed = layout.parse(entries)
        for text in parsed.warnings:
            warn(text)
        return parsed
    from ..._mig import mig_parted
    from ..common import config

    document = config.read(config_file, warn)
    try:
        return mig_parted.parse(
            document, config_name, lambda text: warn("config_file %.255s: %s" % (config_file, text))
        )
    except MigError as error:
        raise MigError("config_file %.255s: %s" % (config_file, error)) from error


def _converge(
    backend: Backend, node: NodePlan, reset: bool, check_mode: bool, ending: signals.Ending
) -> t.List[GpuResult]:
    found = [results.busy_result(error, check_mode) for error in node.busy]
    if check_mode or not any(plan.changes or plan.blocked for plan in node.plans):
        found.extend(results.planned_result(plan) for plan in node.plans)
    else:
        from ..._mig.converge_node import converge_node  # large, and needed by few runs

        ending.defer()
        found.extend(map(results.applied_result, converge_node(backend, node.plans, node.replan, reset)))
    return sorted(found, key=lambda result: result.gpu["index"])


def _start_clients(module: AnsibleModule) -> t.List[str]:
    """After a signal, start the clients that the role stopped: no task follows that would. Returns the problems."""
    from . import services  # only needed here

    record = module.params["clients_record"]
    return [] if record is None else services.start_recorded(module, record)
