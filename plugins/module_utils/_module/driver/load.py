# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Load the installed driver's kernel module, and decide whether a reboot is required and can help."""

from __future__ import annotations

import os
import re
import typing as t

from ..common import record
from ..common.commands import runner
from .node import NodeReader

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "version": {"type": "str", "required": True},
        "load": {"type": "bool", "default": True},
        "options": {"type": "dict", "default": {}},
    }
}
ROLE = "nvidia_driver"
# Kernel modules that bind to the GPUs instead.
CONFLICTING_MODULES = ("nouveau", "nova_core")

PARAMETERS = "/proc/driver/nvidia/params"

# The kernel does not accept the module's signature.
_REJECTED = re.compile(
    r"Key was rejected|Required key not available|module is rejected|Operation not permitted", re.IGNORECASE
)
_LOG = "Read journalctl -k -g 'nvidia|NVRM|nouveau' on the node"


class Decision(t.NamedTuple):
    required: bool
    helps: bool
    reason: str


def decide(
    installed: str,
    loaded: t.Optional[str],
    boot_id: str,
    modprobe: str = "",
    conflicting: t.Optional[str] = None,
    secure_boot: t.Optional[str] = None,
    rebooted: t.Optional[t.Mapping[str, str]] = None,
    outdated: t.Sequence[str] = (),
) -> Decision:
    """Whether a reboot is required to load the installed driver, and whether it can help.

    ``rebooted`` is the role's last reboot, if any: the driver version that it was for, and the id of the boot before
    it. A reboot does not help if the node was already rebooted for the same driver, or if the kernel rejects the
    module. ``outdated`` are the options that the loaded module does not have.
    """
    if loaded == installed and not outdated:
        return Decision(False, False, "driver %s is installed and loaded" % installed)
    state = "kernel module %s is loaded" % loaded if loaded else "its kernel module is not loaded"
    if loaded == installed:
        state = "its kernel module is loaded with other options (%s)" % ", ".join(outdated)
    state = "driver %s is installed, but %s" % (installed, state + (", and %s is" % conflicting if conflicting else ""))
    output = " (%s)" % " ".join(modprobe.split()) if modprobe.strip() else ""
    if loaded is None and _REJECTED.search(modprobe):
        return Decision(
            True,
            False,
            "%s: the kernel rejects its signature%s, and Secure Boot is %s. A reboot does not help. Enroll the key that "
            "DKMS signs with (mokutil --import, then confirm at the console during a reboot), use signed modules "
            "(nvidia_driver_module_build: prebuilt), or disable Secure Boot"
            % (state, output, secure_boot or "in an unknown state"),
        )
    if rebooted and rebooted.get("version") == installed and rebooted.get("boot_id") != boot_id:
        return Decision(
            True,
            False,
            "%s%s, although the node was rebooted for this driver. It is not rebooted again. Secure Boot is %s. %s, and "
            "reboot the node yourself once the cause is removed"
            % (state, output, secure_boot or "in an unknown state", _LOG),
        )
    return Decision(True, True, "%s%s. The node must be rebooted" % (state, output))


def run(module: AnsibleModule) -> None:
    """The module nvidia_driver_load."""
    version: str = module.params["version"]
    node = NodeReader(runner(module))
    loaded = node.kernel_module().loaded
    conflicting = next((name for name in CONFLICTING_MODULES if os.path.isdir("/sys/module/" + name)), None)
    output = ""
    loading = module.params["load"] and loaded is None and conflicting is None
    if loading and module.check_mode:
        module.exit_json(changed=True, loaded_version=None, running=False, reboot_required=False, **_unknown(version))
    if loading:
        _status, _output, output = module.run_command([module.get_bin_path("modprobe", required=True), "nvidia"])
        loaded = node.kernel_module().loaded  # if it failed, another run may have loaded it meanwhile
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        boot_id = handle.read().strip()
    try:
        rebooted = record.read(ROLE).get("rebooted")
        outdated = outdated_options(_parameters(), module.params["options"])
        decision = decide(version, loaded, boot_id, output, conflicting, node.secure_boot(), rebooted, outdated)
        if rebooted and not decision.required and not module.check_mode:
            record.update(ROLE, {"rebooted": {}}, {})
    except record.RecordError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=bool(loading and loaded or rebooted and not decision.required),
        loaded_version=loaded,
        running=loaded == version,
        reboot_required=decision.required,
        reboot_helps=decision.helps,
        reason=decision.reason,
        boot_id=boot_id,
    )


def outdated_options(parameters: str, options: t.Mapping[str, t.Any]) -> t.List[str]:
    """The options that differ in the loaded module. Options that the module does not list are skipped."""
    current = dict(line.split(": ", 1) for line in parameters.splitlines() if ": " in line)
    names = {option: option.split("_", 1)[-1] for option in options}  # listed without NVreg_
    return [
        "%s is %s" % (option, current[name])
        for option, name in sorted(names.items())
        if name in current and current[name].strip('"') != str(options[option])
    ]


def _parameters() -> str:
    try:
        with open(PARAMETERS, encoding="utf-8") as handle:
            return handle.read()
    except OSError:  # not loaded
        return ""


def _unknown(version: str) -> t.Dict[str, t.Any]:
    return {
        "reboot_helps": False,
        "reason": "driver %s is installed, and its kernel module would be loaded" % version,
        "boot_id": None,
    }
