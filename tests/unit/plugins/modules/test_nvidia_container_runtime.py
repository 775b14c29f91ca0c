# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_container_runtime with simulated nvidia-ctk, containerd and systemctl."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit import (
    config_files,
    container_runtime,
    runtime_check,
)
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit.container_runtimes import Runtime
from ansible_collections.gpufleet.node.plugins.modules import nvidia_container_runtime

from .module_support import cycle, run

PASSWORD = "registry-password"
OWNERS = '# The owner\'s\nversion = 2\npassword = "%s"\n' % PASSWORD
IMPORT = 'imports = ["%s/conf.d/*.toml"]\n'

# Like nvidia-ctk: an import in the configuration, without its comments, and the complete configuration in the drop-in;
# or docker's settings with one more runtime.
NVIDIA_CTK = """#!%(python)s
import json, os, subprocess, sys
options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[3:])
if os.path.exists(%(fail)r):
    sys.exit("nvidia-ctk: invalid configuration")
config = options["config"]
text = open(config).read() if os.path.exists(config) else ""
if options["runtime"] == "docker":
    settings = json.loads(text) if os.path.exists(config) else {}
    settings.setdefault("runtimes", {})["nvidia"] = {"path": "nvidia-container-runtime", "args": []}
    if options["set-as-default"] == "true":
        settings["default-runtime"] = "nvidia"
    assert options["enable-cdi"] == "false"
    text = json.dumps(settings, indent=4)
else:
    drop_in = options["drop-in-config"]
    former = open(drop_in).read() if os.path.exists(drop_in) else ""
    os.makedirs(os.path.dirname(drop_in), exist_ok=True)
    kept = [line for line in text.splitlines(True) if not line.startswith(("#", "imports"))]
    printed = subprocess.run(["containerd", "config", "dump"], stdout=subprocess.PIPE, text=True).stdout.splitlines()[0]
    own = [line for line in kept if line.startswith("version")] or [printed + "\\n"]
    with open(drop_in, "w") as file:
        file.write(printed + "\\n" if options["config-source"] == "command" else own[0])
        file.write("".join(line for line in kept if line not in own) + former.replace("nvidia\\n", "") + "nvidia\\n")
        file.write(options["set-as-default"] + "\\n")
    text = %(imports)r + "".join(kept or own)
with open(config, "w") as file:
    file.write(text)
"""
# Like containerd: prints its newest version, and, from 2.3.0 to 2.3.4, rejects a drop-in of a higher version than that
# of the file that imports it. 1.6 cannot print a configuration that does not exist.
CONTAINERD = """#!/bin/sh
[ "$*" = "config dump" ] || exit 64
version=$(sed -n 's/^version = //p' %(config)s)
added=$(sed -n 's/^version = //p;q' %(drop_in)s 2>/dev/null)
[ -e %(config)s ] || { echo "containerd: no such file" >&2; exit 1; }
! grep -q broken %(config)s || { echo "containerd: invalid configuration" >&2; exit 1; }
[ "${added:-0}" -le "${version:-9}" ] ||
    { echo "containerd: drop-in config version $added higher than root config version $version" >&2; exit 1; }
echo "version = $(cat %(work)s/newest)"
echo '[plugins."io.containerd.cri.v1.runtime".containerd]'
echo 'default_runtime_name = "runc"'
cat %(work)s/runc
grep -q nvidia %(drop_in)s 2>/dev/null && cat %(work)s/nvidia
exit 0
"""
RUNTIME = """[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.%s.options]
BinaryName = "%s"
SystemdCgroup = %s
"""
# With a file "fails", the service does not start as long as its content is in the configuration or the drop-in.
SYSTEMCTL = """#!/bin/sh
case "$1" in
show) cat %(work)s/state ;;
restart)
    echo "$2" >>%(work)s/restarts
    if [ -e %(work)s/fails ] && grep -qsFf %(work)s/fails %(config)s %(drop_in)s %(daemon)s; then
        echo ActiveState=failed >%(work)s/state
        echo "Job for $2.service failed." >&2
        exit 1
    fi
    monotonic=$(awk '{printf "%%.0f", ($1 + 1) * 1e6}' /proc/uptime)
    printf 'ActiveState=active\\nUnitFileState=enabled\\nExecMainStartTimestampMonotonic=%%s\\n' $monotonic >%(work)s/state
    ;;
esac
"""
JOURNALCTL = """#!/bin/sh
echo 'level=info msg="starting cri plugin" config="password = registry-password"'
echo "containerd: cannot use this"
"""
CTR = """#!/bin/sh
echo "io.containerd.cri.v1 runtime - ok"
state=ok
[ ! -e %(work)s/sick ] || ! grep -qsFf %(work)s/sick %(config)s %(drop_in)s || state=error
echo "io.containerd.grpc.v1 cri - $state"
"""
DOCKER = """#!/bin/sh
case "$*" in *LiveRestore*) cat %(work)s/live-restore ;; *) echo '{"nvidia": {}}' ;; esac
"""


class Node:
    def __init__(self, work):
        self.work = work
        self.folder = work / "etc" / "containerd"
        self.config = self.folder / "config.toml"
        self.drop_in = self.folder / "conf.d" / "99-nvidia.toml"
        self.daemon = work / "etc" / "docker" / "daemon.json"
        self.backup = work / "var" / "gpufleet-toolkit"

    def program(self, name, text):
        path = self.work / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def own(self, path, text, mode=0o640):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def started(self, seconds_ago):
        """When the service was started; None if it does not run."""
        text = "ActiveState=inactive\n"
        if seconds_ago is not None:
            text = "ActiveState=active\nUnitFileState=enabled\nExecMainStartTimestampMonotonic=%d\n" % (
                (time.monotonic() - seconds_ago) * 1e6
            )
        (self.work / "state").write_text(text)

    def restarts(self):
        path = self.work / "restarts"
        return path.read_text().split() if path.exists() else []

    def run(self, name="containerd", **options):
        result = run(nvidia_container_runtime.main, name=name, **options)
        assert PASSWORD not in json.dumps(result)
        return result

    def files(self):
        """All files except the programs, with modes."""
        found = {}
        for top in ("etc", "var"):
            for path in sorted((self.work / top).rglob("*")):
                if path.is_file():
                    found[str(path.relative_to(self.work))] = (path.stat().st_mode & 0o777, path.read_text())
        return found


@pytest.fixture
def node(tmp_path, monkeypatch):
    made = Node(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "etc").mkdir()
    runtimes = {
        "containerd": Runtime(
            ["containerd"], str(made.config), str(made.drop_in), "command", ["containerd", "config", "dump"]
        ),
        "docker": Runtime(["dockerd", "docker"], str(made.daemon), "", "file"),
    }
    monkeypatch.setattr(container_runtime, "RUNTIMES", runtimes)
    monkeypatch.setattr(container_runtime, "BACKUP_DIRECTORY", str(made.backup))
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path / "bin", os.environ["PATH"]))
    made.program(
        "nvidia-ctk",
        NVIDIA_CTK % {"python": sys.executable, "fail": str(tmp_path / "fail"), "imports": IMPORT % made.folder},
    )
    places = {name: getattr(made, name) for name in ("config", "daemon", "drop_in", "work")}
    for name, text in (
        ("containerd", CONTAINERD),
        ("systemctl", SYSTEMCTL),
        ("journalctl", JOURNALCTL),
        ("ctr", CTR),
        ("docker", DOCKER),
    ):
        made.program(name, text % dict(places, python=sys.executable))
    made.program("dockerd", "#!/bin/sh\n")
    (tmp_path / "newest").write_text("2")
    for name, program in (("runc", ""), ("nvidia", "/usr/bin/nvidia-container-runtime")):
        (tmp_path / name).write_text(RUNTIME % (name, program, "true"))
    monkeypatch.setattr(runtime_check, "PAUSE", 0)
    if os.geteuid() != 0:
        made.program("unshare", '#!/bin/sh\nexec /usr/bin/unshare --map-root-user "$@"\n')
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces are not allowed here")
    made.started(None)
    return made


# --- containerd -------------------------------------------------------------------------------------------------------


def test_differences_are_problems(node):
    node.own(node.config, OWNERS)
    node.run()
    assert node.run(state="checked")["problems"] == []
    node.started(None)
    (stopped,) = node.run(state="checked")["problems"]
    assert "not running" in stopped
    _stopped, differs = node.run(state="checked", default_runtime=True)["problems"]
    assert differs.startswith("The configuration of containerd differs from the variables: %s" % node.folder)
    (node.work / "fail").touch()
    assert "cannot be compared" in node.run(state="checked")["problems"][1]


def test_create_change_and_remove(node):
    node.own(node.config, OWNERS)
    before = node.files()
    for values in ({}, {"default_runtime": True}, {"state": "absent"}):
        cycle(node.run, node.files, **values)
    assert node.files() == before


def test_the_nvidia_runtime_is_added_once(node):
    node.own(node.config, OWNERS)
    checked = node.run(check=True)
    assert list(node.files()) == ["etc/containerd/config.toml"]
    result = node.run()
    assert result["changed"] and checked["changed"]
    assert result["actions"] == checked["actions"] == ["Write %s" % node.config, "Write %s" % node.drop_in]
    assert result["diff"] == {"prepared": "Write %s\nWrite %s\n" % (node.config, node.drop_in)}
    files = node.files()
    assert files["etc/containerd/config.toml"][0] == 0o640
    assert files["etc/containerd/conf.d/99-nvidia.toml"][0] == 0o600
    assert files["var/gpufleet-toolkit/containerd/before"] == (0o600, OWNERS)
    assert files["var/gpufleet-toolkit/containerd/after"][0] == 0o600
    assert node.backup.joinpath("containerd").stat().st_mode & 0o777 == 0o700

    again = node.run()
    assert (again["changed"], again["actions"]) == (False, [])
    assert node.files() == files


def test_the_administrators_configuration_is_restored(node):
    node.own(node.config, OWNERS)
    before = node.files()
    node.run()
    assert node.run(state="absent", check=True)["actions"] == ["Write %s" % node.config, "Remove %s" % node.drop_in]
    assert node.run(state="absent")["changed"]
    assert node.files() == before
    assert not node.backup.exists()
    assert not node.run(state="absent")["changed"]


def test_without_a_previous_configuration_the_file_is_removed(node):
    result = node.run()
    assert result["changed"]
    assert node.config.stat().st_mode & 0o777 == 0o600
    assert node.run(state="absent")["changed"]
    assert node.files() == {}


def test_check_mode_leaves_no_directory(node):
    assert node.run(check=True)["changed"]
    assert not node.folder.exists()


def test_a_later_change_of_the_administrator_is_kept_and_applied(node):
    node.own(node.config, OWNERS)
    node.run()
    node.config.write_text(node.config.read_text() + "later = true\n")
    assert node.run()["changed"]
    assert "later = true" in node.drop_in.read_text()
    assert "later = true" in (node.backup / "containerd" / "before").read_text()
    assert not node.run()["changed"]
    node.run(state="absent")
    assert node.config.read_text() == 'version = 2\npassword = "%s"\nlater = true\n' % PASSWORD


def test_undo_removes_only_the_roles_part_of_a_modified_configuration(node):
    node.own(node.config, OWNERS)
    node.run()
    node.config.write_text(node.config.read_text() + "later = true\n")
    assert node.run(state="absent")["changed"]
    assert node.config.read_text() == 'version = 2\npassword = "%s"\nlater = true\n' % PASSWORD
    assert not node.drop_in.exists()


def test_existing_imports_are_kept(node):
    node.own(node.config, (IMPORT % node.folder) + OWNERS)
    node.run()
    node.config.write_text(node.config.read_text() + "later = true\n")
    node.run(state="absent")
    assert node.config.read_text().startswith(IMPORT % node.folder)


def test_a_drop_in_of_the_administrator_is_never_lost(node):
    """The administrator ran nvidia-ctk before the role."""
    node.own(node.config, (IMPORT % node.folder) + OWNERS)
    node.own(node.drop_in, 'password = "%s"\nmine = true\nnvidia\n' % PASSWORD, 0o644)
    before = node.files()
    node.run()
    assert "mine = true" in node.drop_in.read_text()
    assert node.drop_in.stat().st_mode & 0o777 == 0o600
    assert not node.run()["changed"]
    node.run(default_runtime=True)
    node.run(state="absent")
    after = node.files()
    assert {path: text for path, (_mode, text) in after.items()} == {
        path: text for path, (_mode, text) in before.items()
    }


def test_a_link_is_followed(node):
    node.own(node.work / "etc" / "real.toml", OWNERS)
    node.folder.mkdir()
    node.config.symlink_to(node.work / "etc" / "real.toml")
    node.run()
    assert node.config.is_symlink()
    assert "imports" in (node.work / "etc" / "real.toml").read_text()
    node.run(state="absent")
    assert (node.work / "etc" / "real.toml").read_text() == OWNERS


@pytest.mark.parametrize("cause", ["broken configuration", "nvidia-ctk"])
def test_a_rejected_configuration_is_unchanged(node, cause):
    node.own(node.config, OWNERS + ("broken\n" if cause.startswith("broken") else ""))
    if cause == "nvidia-ctk":
        (node.work / "fail").touch()
    before = node.files()
    result = node.run()
    assert result["failed"] and not result["changed"]
    assert ("invalid configuration" if cause.startswith("broken") else "nvidia-ctk: invalid configuration") in result[
        "msg"
    ]
    assert node.files() == before


def test_a_service_older_than_its_configuration_must_be_restarted(node):
    node.own(node.config, OWNERS)
    node.run()
    node.started(60)
    result = node.run()
    assert result["changed"]
    assert "which was started before" in result["actions"][0]
    assert node.restarts() == ["containerd", "containerd"]
    assert not node.run()["changed"]
    assert node.restarts() == ["containerd", "containerd"]


def test_a_service_whose_owner_has_repaired_its_configuration_is_restarted(node):
    node.own(node.config, OWNERS)
    node.run()
    # What it read at its start is broken. Another start makes it healthy.
    broken = (
        '#!/bin/sh\n[ $(wc -l <%s/restarts) -gt 1 ] && state=ok\necho "io.containerd.grpc.v1 cri - ${state:-error}"\n'
    )
    node.program("ctr", broken % node.work)
    assert not node.run()["changed"]  # no file has changed since
    os.utime(node.config, times=(time.time() + 10, time.time() + 10))
    assert node.run()["changed"] and node.restarts() == ["containerd", "containerd"]
    assert not node.run()["changed"]


@pytest.mark.parametrize("program", ["containerd", "nvidia-ctk"])
def test_a_missing_program(node, program, monkeypatch):
    (node.work / "bin" / program).unlink()
    monkeypatch.setenv("PATH", str(node.work / "bin"))
    assert node.run(check=True)["changed"]
    result = node.run()
    assert result["failed"] and "%s is not installed" % program in result["msg"]
    assert node.files() == {}


# --- What was generated is read back, and the service runs with it -----------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
def test_the_drop_in_keeps_the_version_of_the_file_that_imports_it(node, version):
    """containerd 2.3.0 to 2.3.4 print version 4, and reject it in a drop-in of a file of version 2 or 3."""
    (node.work / "newest").write_text("4")
    node.own(node.config, OWNERS.replace("version = 2", "version = %d" % version))
    assert node.run()["changed"]
    assert node.drop_in.read_text().startswith("version = %d\n" % version)
    assert not node.run()["changed"]


def test_other_releases_load_the_complete_drop_in_if_imported_files_have_settings(node):
    """containerd 2.0 to 2.2 and 2.4 accept the higher version."""
    (node.work / "newest").write_text("4")
    node.own(node.config, OWNERS)
    complete = (node.work / "bin" / "containerd").read_text()
    complete = complete.replace('"${added:-0}" -le "${version:-9}"', "1 = 1")
    without = "grep -q 'version = 2' %s || exec cat %s/nvidia" % (node.drop_in, node.work)
    node.program("containerd", complete.replace("grep -q nvidia", without + "\ngrep -q nothing"))
    assert node.run()["changed"]
    assert node.drop_in.read_text().startswith("version = 4\n")


def test_without_a_configuration_the_newest_version_is_used(node):
    """Debian's containerd 1.6 cannot print a configuration if there is no file."""
    (node.work / "newest").write_text("4")
    assert node.run()["changed"]
    assert node.config.read_text().endswith("version = 4\n")
    assert node.drop_in.read_text().startswith("version = 4\n")


@pytest.mark.parametrize(
    ("runc", "nvidia", "words"),
    [
        ((), ("kata", "", "true"), "does not have the runtime nvidia, only: kata, runc"),
        ((), ("nvidia", "/usr/bin/runc", "true"), "its runtime nvidia runs /usr/bin/runc: set BinaryName"),
        (("crun", "", "true"), (), "lacks the default runtime runc"),
        ((), ("nvidia", "nvidia-container-runtime", "false"), "lacks SystemdCgroup"),
    ],
)
def test_a_generated_configuration_without_usable_runtimes_is_not_written(node, runc, nvidia, words):
    for name, runtime in (("runc", runc), ("nvidia", nvidia)):
        if runtime:
            (node.work / name).write_text(RUNTIME % runtime)
    if runc:
        (node.work / "nvidia").write_text(RUNTIME % ("nvidia", "nvidia-container-runtime", "true"))
    node.own(node.config, OWNERS)
    before = node.files()
    result = node.run()
    assert result["failed"] and words in result["msg"] and "is unchanged" in result["msg"]
    assert node.files() == before
    assert node.restarts() == []


def test_a_generated_configuration_that_the_service_rejects_is_not_written(node):
    """nvidia-ctk ignores the source, as releases after 1.20.1 may."""
    (node.work / "newest").write_text("4")
    text = (node.work / "bin" / "nvidia-ctk").read_text()
    node.program("nvidia-ctk", text.replace('options["config-source"] == "command"', "True"))
    node.own(node.config, OWNERS)
    before = node.files()
    result = node.run()
    assert "cannot load what nvidia-ctk generates: containerd: drop-in config version 4 higher than" in result["msg"]
    assert node.files() == before
    assert "cannot be compared" in node.run(state="checked")["problems"][1]


@pytest.mark.parametrize("problem", ["fails", "sick"])
@pytest.mark.parametrize("earlier", [False, True])
def test_a_service_that_does_not_work_with_the_new_configuration_gets_the_former_one(node, problem, earlier):
    node.own(node.config, OWNERS)
    if earlier:
        node.run()
    before = node.files()
    (node.work / problem).write_text("true\n")  # the drop-in with default_runtime
    result = node.run(default_runtime=True)
    assert result["failed"]
    reason = "containerd does not start with the new configuration: containerd: cannot use this. "
    assert result["msg"].startswith(reason if problem == "fails" else "containerd has no healthy CRI plugin")
    assert result["msg"].endswith("The former configuration was restored, and containerd runs with it")
    assert node.files() == before
    assert node.run(state="checked")["cri_healthy"]
    again = node.run(default_runtime=True)
    assert again["failed"] and node.files() == before


def test_after_an_interrupted_run_the_owners_configuration_is_the_former_one(node):
    node.own(node.config, OWNERS)
    before = node.files()
    node.run()
    node.started(60)
    (node.work / "fails").write_text("nvidia\n")
    result = node.run()
    assert result["msg"].endswith("The former configuration was restored, and containerd runs with it")
    assert node.files() == before


def test_a_service_that_starts_with_no_configuration(node):
    node.own(node.config, OWNERS)
    (node.work / "fails").write_text("version\n")
    result = node.run()
    assert result["msg"].endswith("containerd does not start with it either: containerd: cannot use this")


def test_a_former_configuration_that_cannot_be_restored_does_not_hide_why_it_had_to_be(node, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    node.own(node.config, OWNERS)
    (node.work / "fails").write_text("nvidia\n")
    monkeypatch.setattr(config_files.PreviousFiles, "restore", full)
    result = node.run()
    assert result["failed"] and result["changed"]
    assert "does not start with the new configuration: containerd: cannot use this" in result["msg"]
    assert "could not be restored: [Errno 28] No space left on device" in result["msg"]


def test_undo_restarts_a_service_unless_it_is_stopped(node):
    node.own(node.config, OWNERS)
    node.run()
    node.started(None)
    assert node.run(state="absent")["changed"]
    assert node.restarts() == ["containerd"]
    node.run()
    (node.work / "fails").write_text("version\n")
    result = node.run(state="absent")
    assert "containerd does not start with the restored configuration: containerd: cannot use this" in result["msg"]
    assert node.config.read_text() == OWNERS


def test_a_runtime_without_a_service_is_not_restarted(node):
    (node.work / "state").write_text("LoadState=not-found\nActiveState=inactive\n")
    assert node.run()["changed"]
    assert node.restarts() == []


@pytest.mark.parametrize("name", ["containerd", "docker"])
def test_a_stopped_service_is_not_healthy(node, name):
    node.run(name)
    assert node.run(name, state="checked")["cri_healthy"]
    node.started(None)
    assert not node.run(name, state="checked")["cri_healthy"]


# --- docker -----------------------------------------------------------------------------------------------------------

DAEMON = {"log-driver": "json-file", "features": {"buildkit": True}, "runtimes": {"mine": {"path": "/usr/sbin/runc"}}}


def test_docker_keeps_existing_settings(node):
    node.own(node.daemon, json.dumps(DAEMON), 0o600)
    assert node.run("docker", default_runtime=True)["changed"]
    written = json.loads(node.daemon.read_text())
    assert written["features"] == {"buildkit": True, "cdi": True}
    assert sorted(written["runtimes"]) == ["mine", "nvidia"]
    assert written["default-runtime"] == "nvidia"
    assert node.daemon.stat().st_mode & 0o777 == 0o600
    assert not node.run("docker", default_runtime=True)["changed"]

    written["later"] = True
    node.daemon.write_text(json.dumps(written))
    assert node.run("docker", state="absent")["changed"]
    assert json.loads(node.daemon.read_text()) == dict(DAEMON, later=True)


def test_docker_is_restarted_after_our_own_changes_only(node):
    node.own(node.daemon, json.dumps(DAEMON), 0o600)
    node.run("docker")
    node.started(60)
    assert "which was started before" in node.run("docker")["actions"][0]
    node.started(0)
    edited = '{"later": true, ' + node.daemon.read_text().strip()[1:]
    node.daemon.write_text(edited)
    hour = time.time() + 3600
    os.utime(node.daemon, (hour, hour))
    assert node.run("docker")["actions"] == []
    assert node.daemon.read_text() == edited


def test_a_restart_of_docker_stops_containers_unless_it_has_live_restore(node):
    node.started(60)
    for setting in ("true", "false"):
        (node.work / "live-restore").write_text(setting + "\n")
        assert node.run("docker", check=True)["stops_containers"] == (setting == "false")
    assert not node.run("containerd", check=True)["stops_containers"]
    node.run("docker")
    assert not node.run("docker", check=True)["stops_containers"]  # nothing would change
    node.started(None)
    assert not node.run("docker", check=True, default_runtime=True)["stops_containers"]


def test_undo_removes_the_runtime_from_docker_settings_that_were_edited_between_two_changes(node):
    node.own(node.daemon, json.dumps(DAEMON), 0o600)
    node.run("docker")
    node.daemon.write_text(json.dumps(dict(json.loads(node.daemon.read_text()), later=True)))
    assert node.run("docker", default_runtime=True)["changed"]
    assert node.run("docker", state="absent")["changed"]
    assert json.loads(node.daemon.read_text()) == dict(DAEMON, later=True)


def test_a_second_run_that_is_cut_off_before_it_writes_does_not_lose_the_owners_settings(node, monkeypatch):
    node.own(node.daemon, json.dumps(DAEMON), 0o600)
    node.run("docker")
    with monkeypatch.context() as patch:
        patch.setattr(config_files.ConfigChange, "apply", lambda change, backup: backup.save(**change.save))
        node.run("docker", default_runtime=True)
    node.run("docker", default_runtime=True)
    assert node.run("docker", state="absent")["changed"]
    assert json.loads(node.daemon.read_text()) == DAEMON


def test_docker_without_settings(node):
    assert node.run("docker", cdi_devices=False)["changed"]
    assert list(json.loads(node.daemon.read_text())) == ["runtimes"]
    assert node.run("docker", state="absent")["changed"]
    assert not node.daemon.exists()


@pytest.mark.parametrize("text", ["", "\n", "{}", '{"features": null}'])
def test_docker_with_an_empty_file(node, text):
    node.own(node.daemon, text)
    assert node.run("docker")["changed"]
    assert json.loads(node.daemon.read_text())["features"] == {"cdi": True}
    assert not node.run("docker")["changed"]
    node.run("docker", state="absent")
    assert node.daemon.read_text() == text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features": ["cdi"]}, 'features in the configuration of docker is not an object. Write it as {"cdi": true}'),
        ({"features": []}, "features in the configuration of docker is not an object"),
        ({"runtimes": "nvidia"}, "runtimes in the configuration of docker is not an object"),
        ([], "is not a JSON object"),
    ],
)
def test_docker_with_settings_of_the_wrong_type(node, settings, words):
    node.own(node.daemon, json.dumps(settings))
    result = node.run("docker")
    assert result["failed"] and words in result["msg"]
    assert node.daemon.read_text() == json.dumps(settings)
    assert words in node.run("docker", state="checked")["problems"][1]


def test_docker_checks_what_was_generated(node, monkeypatch):
    """dockerd has --validate since 23.0. An older one is not called with it."""
    validate = ["dockerd", "--validate"]
    runtimes = dict(container_runtime.RUNTIMES)
    runtimes["docker"] = runtimes["docker"]._replace(reader=validate)
    monkeypatch.setattr(container_runtime, "RUNTIMES", runtimes)
    rejects = '#!/bin/sh\ngrep -q %s %s || exit 0\necho "unable to configure the Docker daemon" >&2\nexit 1\n'
    node.own(node.daemon, "{}")
    node.program("dockerd", rejects % ("nvidia", node.daemon))
    result = node.run("docker")
    assert "docker cannot load what nvidia-ctk generates: unable to configure the Docker daemon" in result["msg"]
    assert node.daemon.read_text() == "{}"
    node.program("dockerd", "#!/bin/sh\necho 'unknown flag: --validate' >&2\nexit 125\n")
    assert node.run("docker")["changed"]


def test_docker_with_settings_that_are_not_json(node):
    node.own(node.daemon, json.dumps(DAEMON))
    node.run("docker")
    node.daemon.write_text("{")
    result = node.run("docker", state="absent")
    assert result["failed"] and "not valid JSON" in result["msg"]
    assert node.daemon.read_text() == "{"
