# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_cdi: keeps the CDI specification of a node in line with its GPUs and MIG devices."""

from __future__ import annotations

import contextlib
import glob
import os
import typing as t

from ..._backend.select import open_backend
from ..._mig import parallel, retry
from ..._mig.backend import BackendError
from ..common import commands, env_file, files, systemd
from . import cdi_devices

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from ..._mig.model import Gpu

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

# The driver's files of the capabilities of GPU instances and compute instances.
CAPABILITIES = (
    "/proc/driver/nvidia/capabilities/gpu*/mig/gi*/access",
    "/proc/driver/nvidia/capabilities/gpu*/mig/gi*/ci*/access",
)

_MODE_VARIABLE = "NVIDIA_CTK_CDI_GENERATE_MODE"
_IDS_VARIABLE = "NVIDIA_CTK_CDI_GENERATE_DEVICE_IDS"
_OUTPUT_VARIABLE = "NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"
# What nvidia-ctk reports if all GPUs are in MIG mode and none has a MIG device.
_NO_DEVICES = "empty device edits"

CURRENT, OUTDATED, INCOMPLETE = "current", "outdated", "incomplete"
NO_DEVICES, NO_DRIVER, NO_TOOLKIT = "no_devices", "no_driver", "no_toolkit"
_MESSAGES = {
    CURRENT: "%s lists the GPUs and MIG devices of the node",
    OUTDATED: "%s does not list the GPUs and MIG devices of the node",
    NO_DEVICES: "The node has no device for containers: all GPUs are in MIG mode, and none has a MIG device",
    NO_DRIVER: "No NVIDIA driver is loaded. nvidia-cdi-refresh.service writes the CDI specification at the next boot with "
    "a driver",
    NO_TOOLKIT: "nvidia-ctk is not installed",
}
_REFRESHED = {
    OUTDATED: "%s did not list the GPUs and MIG devices of the node, and has been %s",
    INCOMPLETE: "Device nodes were missing, and have been created. %s has been %s",
}

_LEFT_OUT = "nvidia-ctk leaves out of the CDI specification: %s"
_NODES = (
    "Check that the driver's kernel modules are loaded, nvidia-uvm too, and that nvidia-modprobe, which creates the device "
    "nodes, is installed. Then run this again"
)


def _explained(warnings: t.Sequence[str]) -> str:
    nodes = [each for each in warnings if "/dev/" in each]
    return ". It warns: %s" % "; ".join(nodes) if nodes else ""


class GenerateError(Exception):
    """nvidia-ctk cannot describe the GPUs."""

    def __init__(
        self, reason: str, remedy: str = "Check that nvidia-smi works on the node, and run this again"
    ) -> None:
        super().__init__("%s. %s" % (reason, remedy))


class Generated(t.NamedTuple):
    """The reason why there is no specification, or its content; what it lacks; the warnings of nvidia-ctk."""

    reason: str
    content: t.Optional[bytes]
    missing: cdi_devices.Missing = cdi_devices.NOTHING
    warnings: t.Sequence[str] = ()


class Cdi:
    """The specification on this node."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.run = commands.runner(module)
        self.settings = env_file.parse(files.text(SETTINGS))
        self.path: str = module.params["output"] or self.settings.get(_OUTPUT_VARIABLE) or DEFAULT_OUTPUT

    def generate(self) -> t.Tuple[str, t.Optional[bytes]]:
        """Return the reason why there is no specification, or its content as nvidia-ctk generates it now."""
        program = self.module.get_bin_path("nvidia-ctk")
        if not program:
            return NO_TOOLKIT, None
        if not os.path.exists(DRIVER):
            return NO_DRIVER, None
        kind = "json" if self.path.endswith(".json") else "yaml"
        rc, out, err = self._nvidia_ctk("--quiet", "cdi", "generate", "--format=" + kind)
        message = err.decode(errors="replace").strip()
        if rc == 0 and out.strip():
            return "", out
        if _NO_DEVICES in message:
            return NO_DEVICES, None
        raise GenerateError(message.rstrip(".") or "it ended with status %d, without a specification" % rc)

    def _nvidia_ctk(self, *arguments: str) -> t.Tuple[int, bytes, bytes]:
        result: t.Tuple[int, bytes, bytes] = self.module.run_command(
            [self.module.get_bin_path("nvidia-ctk"), *arguments],
            environ_update=dict(self.settings, **{_OUTPUT_VARIABLE: ""}),
            encoding=None,
        )
        return result

    def inspect(self) -> Generated:
        """Generate the specification, and compare it with the devices. Settings may exclude devices."""
        reason, content = self.generate()
        if reason in (NO_TOOLKIT, NO_DRIVER) or self.settings.get(_MODE_VARIABLE, "auto") not in ("", "auto", "nvml"):
            return Generated(reason, content)
        gpus = [] if self.settings.get(_IDS_VARIABLE) else self._gpus()
        if content is None:
            nothing = cdi_devices.Specified(frozenset(cdi_devices.CONTROL), set())
            return Generated(reason, content, cdi_devices.missing(nothing, gpus))
        rc, out, err = self._nvidia_ctk("cdi", "generate", "--format=json")
        try:
            missing = cdi_devices.missing(cdi_devices.parse(out), gpus)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise GenerateError("its output with --format=json (status %d) cannot be read: %s" % (rc, error)) from error
        return Generated(reason, content, missing, cdi_devices.warnings(err.decode(errors="replace")))

    def _gpus(self) -> t.List[Gpu]:
        """The GPUs with their instances; none, with a warning, if they cannot be read."""
        try:
            with contextlib.closing(open_backend()) as backend:
                backend.prefetch()
                return parallel.over(retry.read(backend.count), lambda index: retry.read(lambda: backend.read(index)))
        except BackendError as error:
            self.module.warn("The CDI specification cannot be compared with the GPUs: %s" % error)
            return []

    def create_nodes(self, missing: cdi_devices.Missing) -> None:
        """Create device nodes with NVIDIA's tools, which also load the kernel module of unified memory."""
        if missing.control:
            create = ("system", "create-device-nodes", "--control-devices")
            if self._nvidia_ctk(*create, "--load-kernel-modules")[0] != 0:
                self._nvidia_ctk(*create)  # for the modules that are loaded
        modprobe = self.module.get_bin_path("nvidia-modprobe")
        if not modprobe:
            return
        for minor in missing.minors:
            self.module.run_command([modprobe, "-c", str(minor)])
        for pattern in CAPABILITIES if missing.minors else ():
            for path in sorted(glob.glob(pattern)):
                self.module.run_command([modprobe, "-f", path])

    def refresh(self, content: bytes) -> None:
        """Prefer the toolkit's own service. It does nothing if it does not find the driver's kernel module on disk."""
        if self.unit_states():
            self.run(["systemctl", "restart", SERVICE])
            self.run(["systemctl", "start", PATH])
        if files.read(self.path) != content:
            files.write(self.path, content, 0o644)

    def unit_states(self) -> t.List[str]:
        """Return the active states of the installed units: the service's first, and the path unit's."""
        states = []
        for unit in (SERVICE, PATH):
            unit_state = systemd.properties(self.run, unit, "LoadState", "ActiveState")
            if unit_state.get("LoadState") == "loaded":
                states.append(unit_state.get("ActiveState", ""))
        return states

    def stop_units(self) -> bool:
        """Stop the units, which would fail in a loop without devices. Return whether that changed anything."""
        if all(state == "inactive" for state in self.unit_states()):
            return False
        if not self.module.check_mode:
            self.run(["systemctl", "stop", PATH])  # first, because it can start the service
            self.run(["systemctl", "stop", SERVICE])
            self.run(["systemctl", "reset-failed", PATH, SERVICE])
        return True


def run(module: AnsibleModule) -> None:
    cdi = Cdi(module)
    try:
        if module.params["state"] == "absent":
            changed = files.remove(cdi.path, module.check_mode)
            module.exit_json(changed=changed, path=cdi.path)
        changed, reason, missing = _update(module, cdi)
    except GenerateError as error:
        module.fail_json(
            msg="nvidia-ctk cdi generate fails, and without its output containers do not get the GPUs: %s" % error
        )
    except OSError as error:
        module.fail_json(msg="Cannot write the CDI specification %s: %s" % (cdi.path, error))
    refreshed = changed and not module.check_mode and reason in _REFRESHED
    if refreshed:
        message = _REFRESHED[reason] % (cdi.path, "written" if os.path.exists(cdi.path) else "removed")
    elif reason == INCOMPLETE:
        message = _LEFT_OUT % str(missing)
    else:
        message = _MESSAGES[reason].replace("%s", cdi.path)
    fine = refreshed or reason in (CURRENT, NO_DEVICES, NO_DRIVER)
    problems = [] if fine else [message + ". Run site.yml --tags toolkit"]
    module.exit_json(changed=changed, reason=reason, msg=message, problems=problems, path=cdi.path)


def _update(module: AnsibleModule, cdi: Cdi) -> t.Tuple[bool, str, cdi_devices.Missing]:
    """Update the specification. Returns whether anything changes, the reason, and what the specification lacks."""
    before = files.read(cdi.path)
    found = cdi.inspect()
    incomplete = any(found.missing)
    if incomplete and not module.check_mode:
        cdi.create_nodes(found.missing)
        found = cdi.inspect()
        if any(found.missing):
            raise GenerateError(_LEFT_OUT % str(found.missing) + _explained(found.warnings), _NODES)
    changed, reason = (True, INCOMPLETE) if incomplete else _compare(module, cdi, before, found)
    if found.content is not None:
        warnings = cdi_devices.actionable(found.warnings) if changed else []
        if warnings:
            module.warn("nvidia-ctk cdi generate warns: %s" % "; ".join(warnings))
        if before != found.content and not module.check_mode:
            cdi.refresh(found.content)
    return changed, reason, found.missing


def _compare(module: AnsibleModule, cdi: Cdi, before: t.Optional[bytes], found: Generated) -> t.Tuple[bool, str]:
    """Whether anything changes, and why. Without a device for containers, removes the specification."""
    if found.content is not None:
        return (False, CURRENT) if before == found.content else (True, OUTDATED)
    if found.reason != NO_DEVICES:
        return False, found.reason
    stopped = cdi.stop_units()
    removed = files.remove(cdi.path, module.check_mode)
    return stopped or removed, NO_DEVICES if before is None else OUTDATED
