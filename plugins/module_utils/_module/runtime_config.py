# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Add the nvidia runtime to the configuration of a container runtime through nvidia-ctk, and remove it.

nvidia-ctk neither reports whether it changes anything nor has an undo. It is therefore run on a copy of the owner's
configuration, and the result is compared with the files on the node. The owner's configuration is saved in a directory
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

from . import files
from .container_runtimes import Runtime

Run = t.Callable[[t.Sequence[str]], t.Tuple[int, str, str]]
Content = t.Optional[bytes]  # None: there is no such file

# In a separate mount namespace, nvidia-ctk and containerd see the copy under the real path, which matters for imports.
# nvidia-ctk does not report why containerd rejects a configuration, so containerd checks it first.
_SANDBOX = """
mount --bind "$1" "$2"
[ "$0" != containerd ] || containerd config dump >/dev/null
shift 2
exec "$@"
"""
_PRIVATE = 0o600


class ConfigError(Exception):
    """The configuration cannot be changed. Nothing was changed."""


class Settings(t.NamedTuple):
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


class Memory:
    """The saved files of the owner, and the configuration that was written."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def exists(self) -> bool:
        return os.path.isdir(self.directory)

    def read(self, name: str) -> Content:
        return files.read(os.path.join(self.directory, name))

    def keep(self, **contents: Content) -> None:
        """The first time atomically: after an interruption, our own files must not count as the owner's."""
        parent = os.path.dirname(self.directory)
        os.makedirs(parent, mode=0o755, exist_ok=True)
        directory = self.directory if self.exists() else tempfile.mkdtemp(prefix=".gpufleet-", dir=parent)
        for name, content in contents.items():
            File(os.path.join(directory, name), content, _PRIVATE).write()
        if directory != self.directory:
            os.rename(directory, self.directory)

    def wrote(self, config: Content) -> bool:
        """Whether this collection wrote the configuration: the last one, or after an interruption the one before."""
        return config is not None and config in (self.read("after"), self.read("previous"))

    @property
    def last_write(self) -> str:
        """A file whose modification time is that of our last change."""
        return os.path.join(self.directory, "after")

    def forget(self) -> None:
        """Remove the directory, and its parent if that is then empty."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(self.directory))


class Change(t.NamedTuple):
    """The files to write, and those of the owner to save first."""

    files: t.List[File]
    keep: t.Dict[str, Content]

    def apply(self, memory: Memory) -> None:
        if self.files and self.keep:
            memory.keep(**self.keep)
        for file in self.files:
            file.write()


def _stat(path: str) -> t.Optional[os.stat_result]:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _owners(name: str, runtime: Runtime, memory: Memory) -> Content:
    """The configuration without what we added to it. What differs from what we wrote is the owner's."""
    current = files.read(runtime.config)
    if current is None or not memory.exists():
        return current
    before = memory.read("before")
    if memory.wrote(current):
        return before
    return without_docker(current, before) if name == "docker" else without_import(current, before, runtime.drop_in)


def plan_present(name: str, runtime: Runtime, memory: Memory, settings: Settings, run: Run) -> Change:
    """Plan the changes that add the nvidia runtime. Changes nothing."""
    before = _owners(name, runtime, memory)
    drop_in = None
    if memory.exists():
        drop_in = memory.read("drop_in")
    elif runtime.drop_in:
        drop_in = files.read(runtime.drop_in)
    config, added = _configure(name, runtime, settings, before, drop_in, run)
    current = files.read(runtime.config)
    if name == "docker" and config and current and _daemon(config) == _daemon(current):
        config = current  # its owner edited it: only order and spaces differ
    wanted = [File(runtime.config, config, None)]
    if runtime.drop_in:
        wanted.append(File(runtime.drop_in, added, _PRIVATE))
    keep = {"before": before, "after": config, "drop_in": drop_in}
    if memory.exists():
        keep["previous"] = memory.read("after")
    return Change([file for file in wanted if not file.is_current()], keep)


def plan_absent(name: str, runtime: Runtime, memory: Memory) -> Change:
    """Plan the changes that remove the nvidia runtime. Changes nothing."""
    if not memory.exists():
        return Change([], {})
    wanted = [File(runtime.config, _owners(name, runtime, memory), None)]
    if runtime.drop_in:
        wanted.append(File(runtime.drop_in, memory.read("drop_in"), None))
    return Change([file for file in wanted if not file.is_current()], {})


def _configure(
    name: str, runtime: Runtime, settings: Settings, config: Content, drop_in: Content, run: Run
) -> t.Tuple[Content, Content]:
    """Return the configuration and the drop-in that nvidia-ctk generates from the owner's."""
    folder = os.path.dirname(runtime.config)
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as work:
        copy = os.path.join(work, "copy")
        created = not os.path.isdir(folder)
        if created:
            os.mkdir(folder, 0o755)  # the mount point
            os.mkdir(copy)
        else:
            shutil.copytree(folder, copy, symlinks=True)
        try:
            staged = os.path.join(copy, os.path.basename(runtime.config))
            _replace(staged, config)
            added = os.path.join(copy, os.path.relpath(runtime.drop_in, folder)) if runtime.drop_in else ""
            if added:
                _replace(added, drop_in)
            argv = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", _SANDBOX, name, copy, folder]
            rc, out, err = run([*argv, *_nvidia_ctk(name, runtime, settings)])
        finally:
            if created:
                os.rmdir(folder)
        if rc != 0:
            raise ConfigError((err or out).strip() or "nvidia-ctk ended with status %d" % rc)
        made = files.read(staged)
        if name == "docker" and settings.cdi_devices and made is not None:
            made = with_docker_cdi(made)
        return made, files.read(added) if added else None


def _replace(path: str, content: Content) -> None:
    """A link in the copy points to the real file, so it is replaced, not followed."""
    files.remove(path)
    if content is not None:
        files.write(path, content, _PRIVATE)


def _nvidia_ctk(name: str, runtime: Runtime, settings: Settings) -> t.List[str]:
    argv = ["nvidia-ctk", "runtime", "configure", "--runtime=" + name, "--config-source=" + runtime.source]
    argv += ["--config=" + runtime.config]
    if runtime.drop_in:
        argv += ["--drop-in-config=" + runtime.drop_in]
    argv += ["--set-as-default=" + str(settings.default_runtime).lower()]
    # Up to 1.20.0, nvidia-ctk drops docker's other features with this option: with_docker_cdi does it instead.
    argv += ["--enable-cdi=" + str(settings.cdi_devices and name != "docker").lower()]
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
    settings, former = _daemon(config), _daemon(before or b"{}")
    if "nvidia" not in (settings.get("runtimes") or {}):
        return config
    for key, name in (("runtimes", "nvidia"), ("features", "cdi")):
        if name in (settings.get(key) or {}) and name not in (former.get(key) or {}):
            del settings[key][name]
            if not settings[key] and key not in former:
                del settings[key]
    if settings.get("default-runtime") == "nvidia" and former.get("default-runtime") != "nvidia":
        del settings["default-runtime"]
    return _json(settings)


def _daemon(config: bytes) -> t.Dict[str, t.Any]:
    try:
        settings = json.loads(config)
    except ValueError as error:
        raise ConfigError("The configuration of docker is not valid JSON: %s" % error) from error
    if not isinstance(settings, dict):
        raise ConfigError("The configuration of docker is not a JSON object")
    return settings


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
