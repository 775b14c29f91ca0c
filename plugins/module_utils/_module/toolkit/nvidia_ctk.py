# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Generate a container runtime's configuration with nvidia-ctk, on a copy that the runtime itself reads back."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import typing as t

from ..common import files, toml
from ..common.commands import Run
from . import docker_config
from .config_files import PRIVATE, Content
from .container_runtimes import Runtime
from .docker_config import ConfigError
from .runtime_check import last_line, loading_problem

# In a separate mount namespace, programs see the copy under the real path, which matters for imports.
_SANDBOX = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", 'mount --bind "$0" "$1"; shift; exec "$@"']


class RuntimeOptions(t.NamedTuple):
    default_runtime: bool
    cdi_devices: bool


class Owners(t.NamedTuple):
    """The files without what this collection added."""

    config: Content
    drop_in: Content


def generate(
    name: str, runtime: Runtime, options: RuntimeOptions, owners: Owners, run: Run
) -> t.Tuple[Content, Content]:
    """Return the configuration and the drop-in that nvidia-ctk generates from the owner's, read back by the runtime."""
    with _copied(os.path.dirname(runtime.config)) as copy:
        trial = _Trial(name, runtime, options, owners, copy, run)
        trial.reset()
        readable, sources = _read_with_runtime(name, runtime, owners.config, trial.run_in_sandbox)
        try:
            return trial.generate(sources[0], readable)
        except ConfigError:
            if len(sources) == 1:
                raise
            with contextlib.suppress(ConfigError):
                return trial.generate(sources[1], readable)
            raise


@contextlib.contextmanager
def _copied(folder: str) -> t.Iterator[str]:
    """A copy of the folder. If it is missing, it exists meanwhile, as the mount point."""
    created = not os.path.isdir(folder)
    with tempfile.TemporaryDirectory(prefix="gpufleet-") as work:
        copy = os.path.join(work, "copy")
        if created:
            os.mkdir(folder, 0o755)
            os.mkdir(copy)
        else:
            shutil.copytree(folder, copy, symlinks=True)
        try:
            yield copy
        finally:
            if created:
                os.rmdir(folder)


class _Trial(t.NamedTuple):
    """What nvidia-ctk makes of the owner's files, in a copy of their folder."""

    name: str
    runtime: Runtime
    options: RuntimeOptions
    owners: Owners
    copy: str
    run: Run

    def run_in_sandbox(self, argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
        return self.run([*_SANDBOX, self.copy, os.path.dirname(self.runtime.config), *argv])

    def _staged(self, path: str) -> str:
        return os.path.join(self.copy, os.path.relpath(path, os.path.dirname(self.runtime.config)))

    def reset(self) -> None:
        config = self.owners.config
        if config is None and self.name == "containerd":
            config = b""  # nvidia-ctk creates the file, without which Debian's containerd 1.6 prints no configuration
        if self.name == "docker" and not (config and docker_config.parse(config)):
            config = b"{}"  # like docker, and unlike nvidia-ctk: an empty file is one without settings
        _replace(self._staged(self.runtime.config), config)
        if self.runtime.drop_in:
            _replace(self._staged(self.runtime.drop_in), self.owners.drop_in)

    def generate(self, source: str, readable: bool) -> t.Tuple[Content, Content]:
        self.reset()
        rc, out, err = self.run_in_sandbox(_nvidia_ctk(self.name, self.runtime._replace(source=source), self.options))
        if rc != 0:
            raise ConfigError((err or out).strip() or "nvidia-ctk ended with status %d" % rc)
        staged = self._staged(self.runtime.config)
        made = files.read(staged)
        if self.name == "docker" and self.options.cdi_devices and made is not None:
            made = docker_config.with_cdi(made)
            _replace(staged, made)
        if readable:
            _read_back(self.name, self.runtime, self.run_in_sandbox)
        return made, files.read(self._staged(self.runtime.drop_in)) if self.runtime.drop_in else None


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
        files.write(path, content, PRIVATE)


def _nvidia_ctk(name: str, runtime: Runtime, options: RuntimeOptions) -> t.List[str]:
    argv = ["nvidia-ctk", "runtime", "configure", "--runtime=" + name, "--config-source=" + runtime.source]
    argv += ["--config=" + runtime.config]
    if runtime.drop_in:
        argv += ["--drop-in-config=" + runtime.drop_in]
    argv += ["--set-as-default=" + str(options.default_runtime).lower()]
    # Up to 1.20.0, nvidia-ctk drops docker's other features with this option: docker_config does it instead.
    argv += ["--enable-cdi=" + str(options.cdi_devices and name != "docker").lower()]
    return argv
