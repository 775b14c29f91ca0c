# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_container_runtime. No content of a configuration is returned: it may hold passwords."""

from __future__ import annotations

import typing as t

from ..common.commands import Run, runner
from . import runtime_check, runtime_config, runtime_service
from .config_files import Backup, ConfigChange, PreviousFiles
from .container_runtimes import RUNTIMES, Runtime
from .docker_config import ConfigError
from .nvidia_ctk import RuntimeOptions

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True, "choices": sorted(RUNTIMES)},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent", "checked"]},
        "default_runtime": {"type": "bool", "default": False},
        "cdi_devices": {"type": "bool", "default": True},
    }
}
BACKUP_DIRECTORY = "/var/lib/gpufleet/nvidia-container-toolkit"


class _Target(t.NamedTuple):
    """A container runtime of this node, and what the module needs to change it."""

    name: str
    runtime: Runtime
    backup: Backup
    options: RuntimeOptions
    command: Run

    def planned(self) -> ConfigChange:
        return runtime_config.plan_present(self.name, self.runtime, self.backup, self.options, self.command)

    def service(self) -> runtime_service.Service:
        return runtime_service.service(self.name, self.command)

    def check(self) -> runtime_check.Health:
        return runtime_check.check(self.name, self.runtime, self.command)


def run(module: AnsibleModule) -> None:
    given = module.params
    name, state = given["name"], given["state"]
    options = RuntimeOptions(given["default_runtime"], given["cdi_devices"])
    target = _Target(name, RUNTIMES[name], Backup("%s/%s" % (BACKUP_DIRECTORY, name)), options, runner(module))
    missing = [each for each in (target.runtime.programs[0], "nvidia-ctk") if not module.get_bin_path(each)]
    if state == "checked":
        health = target.check()
        problems = [*health.problems, *([] if missing else _differences(target))]
        module.exit_json(changed=False, problems=problems, cri_healthy=health.cri_healthy)
    if missing and state == "present" and module.check_mode:
        _exit(module, True, ["Configure %s after the installation of %s" % (name, " and ".join(missing))])
    try:
        if state == "present":
            change, actions = _present(target, missing)
        else:
            change = runtime_config.plan_absent(name, target.runtime, target.backup)
            actions = [file.describe() for file in change.files]
        stops = bool(actions) and _stops_containers(target)
        problem = "" if module.check_mode else _apply(target, state, change, bool(actions))
    except ConfigError as error:
        module.fail_json(
            msg="The configuration of %s cannot be changed, and is unchanged. %s" % (name, error), changed=False
        )
    except OSError as error:
        module.fail_json(msg="The configuration of %s cannot be changed: %s" % (name, error))
    if problem:
        module.fail_json(msg=problem, changed=True)
    _exit(module, bool(actions), actions, stops)


def _present(target: _Target, missing: t.Sequence[str]) -> t.Tuple[ConfigChange, t.List[str]]:
    """The changes of files, and all actions. Without a change, a service that has not read the files is restarted."""
    if missing:
        raise ConfigError("%s is not installed" % " and ".join(missing))
    change = target.planned()
    actions = [file.describe() for file in change.files]
    # Administrators edit docker's configuration too, and decide when docker reads their changes.
    service = target.service()
    restart = service.is_older_than(target.runtime.drop_in or target.backup.last_written_path)
    if not restart and service.is_older_than(target.runtime.config):  # the owner may have repaired it since
        restart = not target.check().cri_healthy
    if restart:
        actions.append("Restart %s, which was started before its configuration was written" % target.name)
    return change, actions


def _apply(target: _Target, state: str, change: ConfigChange, needed: bool) -> str:
    """Write the files and restart the service. Returns why it does not run with them, or nothing."""
    previous = change.apply(target.backup) if needed else None
    if state == "absent":
        target.backup.remove()
    if previous is None:
        return ""
    problem = _restart(target, state)
    return problem + _restore(target, previous) if problem and state == "present" else problem


def _stops_containers(target: _Target) -> bool:
    """Whether a restart stops containers: with docker, unless its setting live-restore is on."""
    if target.name != "docker" or not target.service().active:
        return False
    _rc, out, _err = target.command(["docker", "info", "--format", "{{.LiveRestoreEnabled}}"])
    return out.strip() != "true"


def _restart(target: _Target, state: str) -> str:
    """Restart the service with its new configuration. Returns why it does not run with it, in a sentence, or nothing."""
    found = target.service()
    if not found.installed or (state == "absent" and found.stopped):
        return ""
    reason = runtime_service.restart(target.name, target.command)
    if reason:
        config = {"present": "new", "absent": "restored"}[state]
        return _NO_START % (target.name, config, reason, target.name)
    if state == "absent":
        return ""
    health = target.check()
    return "" if health.cri_healthy else ". ".join(health.problems)


def _restore(target: _Target, previous: PreviousFiles) -> str:
    """Restore the files of before: those of this run, or those of the owner if an earlier run was interrupted."""
    name = target.name
    try:
        if previous.files:
            previous.restore(target.backup)
        else:
            runtime_config.plan_absent(name, target.runtime, target.backup).apply(target.backup)
            target.backup.remove()
    except (ConfigError, OSError) as error:
        return ". The former configuration could not be restored: %s" % error
    reason = runtime_service.restart(name, target.command)
    if reason:
        return ". The former configuration was restored, but %s does not start with it either: %s" % (name, reason)
    return ". The former configuration was restored, and %s runs with it" % name


_NO_START = "%s does not start with the %s configuration: %s. See journalctl -u %s"


def _differences(target: _Target) -> t.List[str]:
    """A problem if the configuration is not what the module would write."""
    try:
        change = target.planned()
    except (ConfigError, OSError) as error:
        return ["The configuration of %s cannot be compared. %s" % (target.name, error)]
    files = ", ".join(file.path for file in change.files)
    text = "The configuration of %s differs from the variables: %s. Apply them with site.yml --tags toolkit"
    return [text % (target.name, files)] if files else []


def _exit(module: AnsibleModule, changed: bool, actions: t.List[str], stops: bool = False) -> t.NoReturn:
    prepared = "".join(action + "\n" for action in actions)
    module.exit_json(
        changed=changed, actions=actions, stops_containers=stops, diff={"prepared": prepared} if prepared else {}
    )
    raise AssertionError
