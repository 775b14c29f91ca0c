# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The engine's files are complete, even if Ansible packed them and Python has not loaded them yet."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import engine

PLUGINS = Path(__file__).resolve().parents[6] / "plugins"
PACKAGE = "ansible_collections/gpufleet/node/plugins/module_utils"
PACKED = (*engine.PARTS, "_module", "_module/common", "_module/mig")
SOURCES = sorted(path for part in PACKED for path in (PLUGINS / "module_utils" / part).glob("*.py"))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """The collection's files as Ansible packs them into a module: in an archive, each package with an __init__."""
    archive = tmp_path / "payload.zip"
    with zipfile.ZipFile(archive, "w") as payload:
        for path in SOURCES:
            payload.write(path, "%s/%s" % (PACKAGE, path.relative_to(PLUGINS / "module_utils")))
        for package in (PurePosixPath(PACKAGE), *(PurePosixPath(PACKAGE, part) for part in PACKED)):
            for parent in (package, *list(package.parents)[:-1]):
                if str(parent / "__init__.py") not in payload.namelist():
                    payload.writestr(str(parent / "__init__.py"), "")
    return archive


def test_all_files_of_the_archive_are_installed_even_if_not_loaded(packed: Path) -> None:
    script = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import engine\n"
        "print(json.dumps({name: text.decode() for name, text in engine.sources().items()}))"
    )
    printed = subprocess.run(
        [sys.executable, "-I", "-c", script, packed], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    found: t.Dict[str, str] = json.loads(printed)
    wanted = {path for path in SOURCES if path.parent.name in engine.PARTS and path.stem != "__init__"}  # only maps
    assert found == {"%s/%s" % (path.parent.name, path.name): path.read_text() for path in wanted}


def test_bytecode_is_installed_for_a_file_system_that_is_read_only_at_boot(tmp_path: Path) -> None:
    target = tmp_path / "lib" / engine.PACKAGE
    engine.replace(str(target), engine.sources())
    script = "import sys; sys.path.insert(0, sys.argv[1]); import gpufleet_mig._boot.restore as r; print(r.__cached__)"
    times = {path: path.stat().st_mtime_ns for path in target.rglob("*.pyc")}
    cached = subprocess.run(
        [sys.executable, "-I", "-c", script, target.parent], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    assert Path(cached) in times
    assert {path: path.stat().st_mtime_ns for path in target.rglob("*.pyc")} == times  # current, so not written again
    assert engine.read(str(target)) == engine.sources()
