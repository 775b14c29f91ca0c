# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_container_runtime. No content of a configuration is returned: it may hold passwords."""

from __future__ import annotations

import typing as t

from . import runtime_check, runtime_config, runtime_service
from .container_runtimes import RUNTIMES, Runtime

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "host": {"type": "str", "default": ""},
        "name": {"type": "str", "required": True, "choices": sorted(RUNTIMES)},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent", "checked"]},
        "default_runtime": {"type": "bool", "default": False},
        "cdi_devices": {"type": "bool", "default": True},
    }
}
BACKUP_DIRECTORY = "/var/lib/gpufleet-nvidia-container-toolkit"


def run(module: AnsibleModule) -> None:
    given = module.params
    name = given["name"]
    runtime = RUNTIMES[name]
    backup = runtime_config.Backup("%s/%s" % (BACKUP_DIRECTORY, name))
    command = _runner(module)
    options = runtime_config.RuntimeOptions(given["default_runtime"], given["cdi_devices"])
    missing = [each for each in (runtime.programs[0], "nvidia-ctk") if not module.get_bin_path(each)]

    if given["state"] == "checked":
        health = runtime_check.check(name, runtime, command)
        problems = [*health.problems, *([] if missing else _differences(name, backup, options, command))]
        module.exit_json(changed=False, problems=problems, cri_healthy=health.cri_healthy)

    restart = False
    try:
        if given["state"] == "absent":
            change = runtime_config.plan_absent(name, runtime, backup)
        else:
            if missing and module.check_mode:
                _exit(module, True, ["Configure %s once %s is installed" % (name, " and ".join(missing))])
            if missing:
                raise runtime_config.ConfigError("%s is not installed" % " and ".join(missing))
            change = runtime_config.plan_present(name, runtime, backup, options, command)
            # Administrators edit docker's configuration too, and decide when docker reads their changes.
            service = runtime_service.service(name, command)
            restart = service.is_older_than(runtime.drop_in or backup.last_written_path)
            if not restart and service.is_older_than(runtime.config):  # the owner may have repaired it since
                restart = not runtime_check.check(name, runtime, command).cri_healthy
        actions = [file.describe() for file in change.files]
        if restart:
            actions.append("Restart %s, which was started before its configuration was written" % name)
        stops = bool(actions) and _stops_containers(name, command)
        if actions and not module.check_mode:
            previous = change.apply(backup)
            if given["state"] == "absent":
                backup.remove()
            problem = _restart(name, runtime, given["state"], command)
            if problem and given["state"] == "present":
                problem += _restore(name, runtime, backup, previous, command)
            if problem:
                module.fail_json(msg=(given["host"] and given["host"] + ": ") + problem, changed=True)
        elif given["state"] == "absent" and not module.check_mode:
            backup.remove()
    except runtime_config.ConfigError as error:
        module.fail_json(
            msg="The configuration of %s cannot be changed, and is unchanged. %s" % (name, error), changed=False
        )
    except OSError as error:
        module.fail_json(msg="The configuration of %s cannot be changed: %s" % (name, error))
    _exit(module, bool(actions), actions, stops)


def _stops_containers(name: str, command: runtime_service.Run) -> bool:
    """Whether a restart stops containers: with docker, unless its setting live-restore is on."""
    if name != "docker" or not runtime_service.service(name, command).active:
        return False
    _rc, out, _err = command(["docker", "info", "--format", "{{.LiveRestoreEnabled}}"])
    return out.strip() != "true"


def _restart(name: str, runtime: Runtime, state: str, command: runtime_service.Run) -> str:
    """Restart the service with its new configuration. Returns why it does not run with it, in a sentence, or nothing."""
    found = runtime_service.service(name, command)
    if not found.installed or (state == "absent" and found.stopped):
        return ""
    reason = runtime_service.restart(name, command)
    if reason:
        return _NO_START % (name, {"present": "new", "absent": "restored"}[state], reason, name)
    if state == "absent":
        return ""
    health = runtime_check.check(name, runtime, command)
    return "" if health.cri_healthy else " ".join(health.problems)


def _restore(
    name: str,
    runtime: Runtime,
    backup: runtime_config.Backup,
    previous: runtime_config.PreviousFiles,
    command: runtime_service.Run,
) -> str:
    """Restore the files of before: those of this run, or those of the owner if an earlier run was interrupted."""
    if previous.files:
        previous.restore(backup)
    else:
        runtime_config.plan_absent(name, runtime, backup).apply(backup)
        backup.remove()
    reason = runtime_service.restart(name, command)
    if reason:
        return " The former configuration was restored, but %s does not start with it either: %s." % (name, reason)
    return " The former configuration was restored, and %s runs with it." % name


_NO_START = "%s does not start with the %s configuration: %s. See journalctl -u %s."


def _differences(
    name: str, backup: runtime_config.Backup, options: runtime_config.RuntimeOptions, command: runtime_service.Run
) -> t.List[str]:
    """A problem if the configuration is not what the module would write."""
    try:
        change = runtime_config.plan_present(name, RUNTIMES[name], backup, options, command)
    except (runtime_config.ConfigError, OSError) as error:
        return ["The configuration of %s cannot be compared. %s" % (name, error)]
    files = ", ".join(file.path for file in change.files)
    text = "The configuration of %s differs from the variables: %s. Apply them with site.yml --tags toolkit."
    return [text % (name, files)] if files else []


def _exit(module: AnsibleModule, changed: bool, actions: t.List[str], stops: bool = False) -> t.NoReturn:
    prepared = "".join(action + "\n" for action in actions)
    module.exit_json(
        changed=changed, actions=actions, stops_containers=stops, diff={"prepared": prepared} if prepared else {}
    )
    raise AssertionError


def _runner(module: AnsibleModule) -> runtime_service.Run:
    def command(argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
        program = module.get_bin_path(argv[0])
        if not program:
            return 127, "", "%s is not installed" % argv[0]
        result: t.Tuple[int, str, str] = module.run_command([program, *argv[1:]], environ_update={"LC_ALL": "C"})
        return result

    return command
