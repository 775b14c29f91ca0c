# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Install the engine of the modules as plain files on a node.

The files are taken from the module's own payload. They are therefore the tested versions, and no
separate tasks are needed to copy them.
"""

from __future__ import annotations

import compileall
import importlib
import importlib.util
import os
import pkgutil
import shutil
import tempfile
import typing as t

from ..._boot import restore

PACKAGE = "gpufleet_mig"
PARTS = ("_common", "_mig", "_backend", "_boot")
_ROOT = restore.__name__.rsplit(".", 2)[0]  # the parent package, whose name depends on the environment

Files = t.Dict[str, bytes]


def sources() -> Files:
    """The engine's files by path below the package, including modules that are not loaded yet."""
    files = {}
    for part in PARTS:
        package = "%s.%s" % (_ROOT, part)
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__):
            name = "%s.%s" % (package, found.name)
            spec: t.Any = importlib.util.find_spec(name)
            text = spec.loader.get_source(name)
            if text is None:
                raise RuntimeError("the source of %s is missing" % name)
            files["%s/%s.py" % (part, found.name)] = text.encode("utf-8")
    return files


def read(path: str) -> Files:
    """The files below the path, without Python's bytecode."""
    files = {}
    for directory, names, leaves in os.walk(path):
        names[:] = [name for name in names if name != "__pycache__"]
        for leaf in leaves:
            full = os.path.join(directory, leaf)
            with open(full, "rb") as handle:
                files[os.path.relpath(full, path)] = handle.read()
    return files


def replace(path: str, files: Files) -> None:
    """Replace everything at the path with the files. Leftovers of an interrupted run are harmless."""
    parent = os.path.dirname(path)
    os.makedirs(parent, mode=0o755, exist_ok=True)
    # In the same directory, so that the rename is atomic, and readers never see a partial engine.
    fresh = tempfile.mkdtemp(prefix=".%s-" % PACKAGE, dir=parent)
    try:
        for name, content in files.items():
            _write(os.path.join(fresh, "new", name), content)
        # At boot, the unit's file system is read-only, and Python could not keep the bytecode.
        compileall.compile_dir(os.path.join(fresh, "new"), ddir=path, quiet=2)
        if os.path.lexists(path):
            os.rename(path, os.path.join(fresh, "old"))
        if files:
            os.rename(os.path.join(fresh, "new"), path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    if not files and not os.listdir(parent):
        os.rmdir(parent)


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path, "wb") as handle:
        os.fchmod(handle.fileno(), 0o644)
        handle.write(content)


def diff(before: Files, after: Files) -> t.Tuple[str, str]:
    """One line for all files, which are an implementation detail of the boot restore."""
    changed = sum(before.get(name) != after.get(name) for name in {*before, *after})
    return (
        "%d files\n" % len(before) if before else "",
        "%d files, %d new, changed or removed\n" % (len(after), changed) if after else "",
    )
