# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Add the nvidia runtime to the configuration of a container runtime through nvidia-ctk, and remove it.

nvidia-ctk neither reports whether it changes anything nor has an undo. It is therefore run on a copy of the owner's
configuration, read back by the runtime itself, and compared with the files on the node. The owner's configuration is saved in a directory
that only root can read, because it may contain passwords.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import stat
import tempfile
import typing as t

from ..common import files, toml
from .container_runtimes import Runtime
from .runtime_check import last_line, loading_problem
from .runtime_service import Run

Content = t.Optional[bytes]  # None: there is no such file

# In a separate mount namespace, programs see the copy under the real path, which matters for imports.
_SANDBOX = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", 'mount --bind "$0" "$1"; shift; exec "$@"']
_PRIVATE = 0o600


class ConfigError(Exception):
    """The configuration cannot be changed. Nothing was changed."""


class RuntimeOptions(t.NamedTuple):
    default_runtime: bool
    cdi_devices: bool


class File(t.NamedTuple):
    """The desired state of a file."""

    path: str
    content: Content
    mode: t.Optional[int]  # None: that of the file, 0600 for a new one

    def write(self) -> None:
        path = os.path.realpath(self.path)
        if self.content is None:
            files.remove(path)
            return
        found = _stat(path)
        mode = self.mode or (stat.S_IMODE(found.st_mode) if found else _PRIVATE)
        files.write(path, self.content, mode, (found.st_uid, found.st_gid) if found else None)

    def is_current(self) -> bool:
        found = _stat(self.path)
        if found is None or self.content is None:
            return found is None and self.content is None
        right_mode = self.mode is None or stat.S_IMODE(found.st_mode) == self.mode
        return right_mode and files.read(self.path) == self.content

    def describe(self) -> str:
        if self.content is None:
            return "Remove %s" % self.path
        return "Write %s" % self.path


class Backup:
    """The saved files of the owner, and the configuration that was written."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def exists(self) -> bool:
        return os.path.isdir(self.directory)

    def read(self, name: str) -> Content:
        return files.read(os.path.join(self.directory, name))

    def save(self, **contents: Content) -> None:
        """The first time atomically: after an interruption, our own files must not count as the owner's."""
        parent = os.path.dirname(self.directory)
        os.makedirs(parent, mode=0o755, exist_ok=True)
        directory = self.directory if self.exists() else tempfile.mkdtemp(prefix=".gpufleet-", dir=parent)
        for name, content in contents.items():
            File(os.path.join(directory, name), content, _PRIVATE).write()
        if directory != self.directory:
            os.rename(directory, self.directory)

    def is_generated(self, config: Content) -> bool:
        """Whether this collection wrote the configuration: the last one, or after an interruption the one before."""
        return config is not None and config in (self.read("after"), self.read("previous"))

    @property
    def last_written_path(self) -> str:
        """A file whose modification time is that of our last change."""
        return os.path.join(self.directory, "after")

    def remove(self) -> None:
        """Remove the directory, and its parent if that is then empty."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(self.directory))


class PreviousFiles(t.NamedTuple):
    """The files before a change, and what was saved then; None if nothing was."""

    files: t.List[File]
    saved: t.Optional[t.Dict[str, Content]]

    def restore(self, backup: Backup) -> None:
        for file in self.files:
            file.write()
        if self.saved is None:
            backup.remove()
        else:
            backup.save(**self.saved)


class Change(t.NamedTuple):
    """The files to write, and those of the owner to save first."""

    files: t.List[File]
    save: t.Dict[str, Content]

    def apply(self, backup: Backup) -> PreviousFiles:
        """Write the files. Returns what restores them."""
        saved = {name: backup.read(name) for name in _SAVED} if backup.exists() else None
        previous = PreviousFiles(
            [File(file.path, files.read(file.path), _mode(file.path)) for file in self.files], saved
        )
        if self.files and self.save:
            backup.save(**self.save)
        for file in self.files:
            file.write()
        return previous


_SAVED = ("before", "after", "drop_in", "previous")


def _mode(path: str) -> t.Optional[int]:
    found = _stat(path)
    return stat.S_IMODE(found.st_mode) if found else None


def _stat(path: str) -> t.Optional[os.stat_result]:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _owner_config(name: str, runtime: Runtime, backup: Backup) -> Content:
    """The configuration without what we added to it. What differs from what we wrote is the owner's."""
    current = files.read(runtime.config)
    if current is None or not backup.exists():
        return current
    before = backup.read("before")
    if backup.is_generated(current):
        return before
    return without_docker(current, before) if name == "docker" else without_import(current, before, runtime.drop_in)


def plan_present(name: str, runtime: Runtime, backup: Backup, options: RuntimeOptions, run: Run) -> Change:
    """Plan the changes that add the nvidia runtime. Changes nothing."""
    before = _owner_config(name, runtime, backup)
    drop_in = None
    if backup.exists():
        drop_in = backup.read("drop_in")
    elif runtime.drop_in:
        drop_in = files.read(runtime.drop_in)
    config, added = _configure(name, runtime, options, before, drop_in, run)
    current = files.read(runtime.config)
    if name == "docker" and config and current and _daemon(config) == _daemon(current):
        config = current  # its owner edited it: only order and spaces differ
    desired = [File(runtime.config, config, None)]
    if runtime.drop_in:
        desired.append(File(runtime.drop_in, added, _PRIVATE))
    save = {"before": before, "after": config, "drop_in": drop_in}
    if backup.exists():
        save["previous"] = backup.read("after")
    return Change([file for file in desired if not file.is_current()], save)


def plan_absent(name: str, runtime: Runtime, backup: Backup) -> Change:
    """Plan the changes that remove the nvidia runtime. Changes nothing."""
    if not backup.exists():
        return Change([], {})
    desired = [File(runtime.config, _owner_config(name, runtime, backup), None)]
    if runtime.drop_in:
        desired.append(File(runtime.drop_in, backup.read("drop_in"), None))
    return Change([file for file in desired if not file.is_current()], {})


def _configure(
    name: str, runtime: Runtime, options: RuntimeOptions, config: Content, drop_in: Content, run: Run
) -> t.Tuple[Content, Content]:
    """Return the configuration and the drop-in that nvidia-ctk generates from the owner's, read back by the runtime."""
    folder = os.path.dirname(runtime.config)
    if name == "docker":
        # Like docker, and unlike nvidia-ctk: an empty file is one without settings.
        config = config if config and _daemon(config) else b"{}"
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as work:
        copy = os.path.join(work, "copy")
        created = not os.path.isdir(folder)
        if created:
            os.mkdir(folder, 0o755)  # the mount point
            os.mkdir(copy)
        else:
            shutil.copytree(folder, copy, symlinks=True)

        def sandboxed(argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
            return run([*_SANDBOX, copy, folder, *argv])

        staged = os.path.join(copy, os.path.basename(runtime.config))
        added = os.path.join(copy, os.path.relpath(runtime.drop_in, folder)) if runtime.drop_in else ""

        def stage() -> None:
            # nvidia-ctk creates the file, without which Debian's containerd 1.6 cannot print its configuration.
            _replace(staged, config if config is not None or name != "containerd" else b"")
            if added:
                _replace(added, drop_in)

        def generate(source: str) -> t.Tuple[Content, Content]:
            stage()
            rc, out, err = sandboxed(_nvidia_ctk(name, runtime._replace(source=source), options))
            if rc != 0:
                raise ConfigError((err or out).strip() or "nvidia-ctk ended with status %d" % rc)
            made = files.read(staged)
            if name == "docker" and options.cdi_devices and made is not None:
                made = with_docker_cdi(made)
                _replace(staged, made)
            if readable:
                _read_back(name, runtime, sandboxed)
            return made, files.read(added) if added else None

        try:
            stage()
            readable, sources = _read_with_runtime(name, runtime, config, sandboxed)
            try:
                return generate(sources[0])
            except ConfigError:
                if len(sources) == 1:
                    raise
                with contextlib.suppress(ConfigError):
                    return generate(sources[1])
                raise
        finally:
            if created:
                os.rmdir(folder)


def _read_with_runtime(name: str, runtime: Runtime, config: Content, run: Run) -> t.Tuple[bool, t.List[str]]:
    """Let the runtime read the owner's configuration. Returns whether it can, and the sources for nvidia-ctk.

    containerd prints its newest version, and 2.3.0 to 2.3.4 reject a drop-in of a higher version than the file that
    imports it (containerd commits 21248d007, 2026-02-12, and a8ed54668, 2026-08-11). From a file, nvidia-ctk keeps the
    version. Its drop-in then lacks settings of other imported files: other releases load the complete one instead.
    """
    if not runtime.reader:
        return False, [runtime.source]
    rc, out, err = run(runtime.reader)
    if name != "containerd":
        return rc == 0, [runtime.source]
    if rc != 0:
        raise ConfigError("containerd cannot load it: %s" % last_line(err or out))
    own, printed = _version(config), _version(out.encode())
    higher = own is not None and printed is not None and own < printed
    return True, ["file", runtime.source] if higher else [runtime.source]


def _read_back(name: str, runtime: Runtime, run: Run) -> None:
    rc, out, err = run(runtime.reader)
    if rc != 0:
        raise ConfigError("%s cannot load what nvidia-ctk generates: %s" % (name, last_line(err or out)))
    problem = loading_problem(out) if name == "containerd" else ""
    if problem:
        raise ConfigError("containerd loads what nvidia-ctk generates, but %s" % problem)


def _version(config: Content) -> t.Optional[int]:
    """The version that a configuration of containerd declares; None if it does not."""
    try:
        found = toml.loads((config or b"").decode(errors="replace")).get("version")
    except toml.TomlError:
        return None
    return found if isinstance(found, int) else None


def _replace(path: str, content: Content) -> None:
    """A link in the copy points to the real file, so it is replaced, not followed."""
    files.remove(path)
    if content is not None:
        files.write(path, content, _PRIVATE)


def _nvidia_ctk(name: str, runtime: Runtime, options: RuntimeOptions) -> t.List[str]:
    argv = ["nvidia-ctk", "runtime", "configure", "--runtime=" + name, "--config-source=" + runtime.source]
    argv += ["--config=" + runtime.config]
    if runtime.drop_in:
        argv += ["--drop-in-config=" + runtime.drop_in]
    argv += ["--set-as-default=" + str(options.default_runtime).lower()]
    # Up to 1.20.0, nvidia-ctk drops docker's other features with this option: with_docker_cdi does it instead.
    argv += ["--enable-cdi=" + str(options.cdi_devices and name != "docker").lower()]
    return argv


def with_docker_cdi(config: bytes) -> bytes:
    """Enable CDI device names in docker's configuration."""
    settings = _daemon(config)
    features = settings.get("features") or {}
    if features.get("cdi") is True:
        return config
    settings["features"] = dict(features, cdi=True)
    return _json(settings)


def without_docker(config: bytes, before: Content) -> bytes:
    """Remove the runtime and the settings that docker's configuration did not have before."""
    settings, previous = _daemon(config), _daemon(before or b"{}")
    if "nvidia" not in (settings.get("runtimes") or {}):
        return config
    for key, name in (("runtimes", "nvidia"), ("features", "cdi")):
        if name in (settings.get(key) or {}) and name not in (previous.get(key) or {}):
            del settings[key][name]
            if not settings[key] and key not in previous:
                del settings[key]
    if settings.get("default-runtime") == "nvidia" and previous.get("default-runtime") != "nvidia":
        del settings["default-runtime"]
    return _json(settings)


def _daemon(config: bytes) -> t.Dict[str, t.Any]:
    """The settings in a configuration of docker, which may be empty."""
    try:
        settings = json.loads(config) if config.strip() else {}
    except ValueError as error:
        raise ConfigError("The configuration of docker is not valid JSON: %s" % error) from error
    if not isinstance(settings, dict):
        raise ConfigError("The configuration of docker is not a JSON object")
    for key, example in _OBJECTS.items():
        if not isinstance(settings.get(key, {}), (dict, type(None))):
            raise ConfigError("%s in the configuration of docker is not an object. Write it as %s" % (key, example))
    return settings


_OBJECTS = {"features": '{"cdi": true}', "runtimes": '{"NAME": {"path": "/PATH"}}'}


def _json(settings: t.Dict[str, t.Any]) -> bytes:
    return (json.dumps(settings, indent=4, sort_keys=True) + "\n").encode()


def without_import(config: bytes, before: Content, drop_in: str) -> bytes:
    """Remove the drop-in's directory from the imports, unless it was imported before."""
    item = re.escape('"%s/*.toml"' % os.path.dirname(drop_in)).encode()
    if re.search(item, before or b""):
        return config
    line = re.search(rb"^imports\s*=\s*\[[^\]\n]*" + item + rb"[^\]\n]*\][^\n]*\n?", config, re.MULTILINE)
    if not line:
        return config
    shorter = re.sub(rb",\s*" + item + rb"|" + item + rb"\s*,?\s*", b"", line.group(0), count=1)
    if re.search(rb"\[\s*\]", shorter):
        shorter = b""
    return config[: line.start()] + shorter + config[line.end() :]
