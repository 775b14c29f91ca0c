# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_cdi: keeps the CDI specification of a node in line with its GPUs and MIG devices."""

from __future__ import annotations

import os
import typing as t

from . import env_file, files, systemd

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "output": {"type": "path"},
    }
}

SETTINGS = "/etc/nvidia-container-toolkit/nvidia-cdi-refresh.env"
DRIVER = "/proc/driver/nvidia/version"
DEFAULT_OUTPUT = "/var/run/cdi/nvidia.yaml"
SERVICE = "nvidia-cdi-refresh.service"
PATH = "nvidia-cdi-refresh.path"

_OUTPUT_VARIABLE = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"
# What nvidia-ctk reports if all GPUs are in MIG mode and none has a MIG device.
_NO_DEVICES = "empty device edits"

CURRENT, OUTDATED, NO_DEVICES, NO_DRIVER, NO_TOOLKIT = "current", "outdated", "no_devices", "no_driver", "no_toolkit"
_MESSAGES = {
    CURRENT: "%s lists the GPUs and MIG devices of the node",
    OUTDATED: "%s does not list the GPUs and MIG devices of the node",
    NO_DEVICES: "The node has no device for containers: all GPUs are in MIG mode, and none has a MIG device",
    NO_DRIVER: "No NVIDIA driver is loaded. nvidia-cdi-refresh.service writes the CDI specification at the next boot with "
    "a driver",
    NO_TOOLKIT: "nvidia-ctk is not installed",
}


class GenerateError(Exception):
    """nvidia-ctk cannot describe the GPUs."""


class Cdi:
    """The specification on this node."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        settings = files.read(SETTINGS) or b""
        self.settings = env_file.parse(settings.decode(errors="replace"))
        self.path: str = module.params["output"] or self.settings.get(_OUTPUT_VARIABLE) or DEFAULT_OUTPUT

    def generate(self) -> t.Tuple[str, t.Optional[bytes]]:
        """Return the reason why there is no specification, or its content as nvidia-ctk generates it now."""
        program = self.module.get_bin_path("nvidia-ctk")
        if not program:
            return NO_TOOLKIT, None
        if not os.path.exists(DRIVER):
            return NO_DRIVER, None
        kind = "json" if self.path.endswith(".json") else "yaml"
        rc, out, err = self.module.run_command(
            [program, "--quiet", "cdi", "generate", "--format=" + kind],
            environ_update=dict(self.settings, **{_OUTPUT_VARIABLE: ""}),
            encoding=None,
        )
        message = err.decode(errors="replace").strip()
        if rc == 0 and out.strip():
            return "", out
        if _NO_DEVICES in message:
            return NO_DEVICES, None
        raise GenerateError(message or "it ended with status %d, without a specification" % rc)

    def refresh(self, content: bytes) -> None:
        """Prefer the toolkit's own service. It does nothing if it does not find the driver's kernel module on disk."""
        if self.units():
            self.systemctl("restart", SERVICE)
            self.systemctl("start", PATH)
        if files.read(self.path) != content:
            files.write(self.path, content, 0o644)

    def units(self) -> t.List[str]:
        """Return the active states of the installed units: the service's first, and the path unit's."""
        states = []
        for unit in (SERVICE, PATH):
            _rc, out, _err = self.systemctl("show", "--property=LoadState,ActiveState", unit)
            unit_state = systemd.properties(out)
            if unit_state.get("LoadState") == "loaded":
                states.append(unit_state.get("ActiveState", ""))
        return states

    def silence(self) -> bool:
        """Stop the units, which would fail in a loop without devices. Return whether that changed anything."""
        if all(state == "inactive" for state in self.units()):
            return False
        if not self.module.check_mode:
            self.systemctl("stop", PATH)  # first, because it can start the service
            self.systemctl("stop", SERVICE)
            self.systemctl("reset-failed", PATH, SERVICE)
        return True

    def systemctl(self, *arguments: str) -> t.Tuple[int, str, str]:
        program = self.module.get_bin_path("systemctl")
        if not program:
            return 127, "", ""
        result: t.Tuple[int, str, str] = self.module.run_command([program, *arguments])
        return result


def run(module: AnsibleModule) -> None:
    cdi = Cdi(module)
    try:
        if module.params["state"] == "absent":
            changed = files.remove(cdi.path, module.check_mode)
            module.exit_json(changed=changed, path=cdi.path)
        before = files.read(cdi.path)
        reason, content = cdi.generate()
        if content is not None:
            reason = CURRENT if before == content else OUTDATED
            changed = reason == OUTDATED
            if changed and not module.check_mode:
                cdi.refresh(content)
        elif reason == NO_DEVICES:
            changed = cdi.silence()
            changed = files.remove(cdi.path, module.check_mode) or changed
            reason = reason if before is None else OUTDATED
        else:
            changed = False
    except GenerateError as error:
        module.fail_json(
            msg="nvidia-ctk cdi generate fails, and without its output containers do not get the GPUs: %s. Check that "
            "nvidia-smi works on the node, and run this again." % error
        )
    except OSError as error:
        module.fail_json(msg="Cannot write the CDI specification %s: %s" % (cdi.path, error))
    message = _MESSAGES[reason]
    message = message % cdi.path if "%s" in message else message
    matches = reason in (CURRENT, NO_DEVICES, NO_DRIVER)
    module.exit_json(
        changed=changed,
        matches=matches,
        reason=reason,
        msg=message,
        problems=[] if matches else [message + ". Run site.yml --tags toolkit."],
        path=cdi.path,
    )
