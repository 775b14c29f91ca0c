# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The artifact: the same bytes twice, accepted by Galaxy's importer, and complete for users who have nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import TOP, Fleet, fixture_fleet  # noqa: F401

BIN = Path(sys.executable).parent
IMPORTER = TOP / ".cache" / "galaxy-importer"
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 3}}]
INSTANCES = ["1g.10gb at 0", "1g.10gb at 1", "1g.10gb at 2", "3g.40gb at 4"]
# What users need; the rest belongs to the project.
SHIPPED = {
    *("CHANGELOG.rst", "COPYING", "FILES.json", "LICENSES", "MANIFEST.json", "README.md"),
    *("changelogs", "docs", "inventory", "meta", "playbooks", "plugins", "roles"),
}


def build(directory: Path) -> Path:
    command = [sys.executable, TOP / "scripts" / "build.py", directory]
    return Path(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


@pytest.fixture(name="artifact", scope="session")
def fixture_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("artifact"))


def test_the_same_files_give_the_same_bytes(artifact: Path, tmp_path: Path) -> None:
    mask = os.umask(0o077)
    try:
        again = build(tmp_path)
    finally:
        os.umask(mask)
    assert again.read_bytes() == artifact.read_bytes()


def test_it_contains_what_users_need(artifact: Path) -> None:
    with tarfile.open(artifact) as archive:
        assert {name.split("/")[0] for name in archive.getnames()} == SHIPPED


def test_links_between_documents_work_on_galaxy(artifact: Path) -> None:
    """A document there has an address of its own. Those of the checkout are tested in tests/unit."""
    with tarfile.open(artifact) as archive:
        documents = {
            name: t.cast("t.IO[bytes]", archive.extractfile(name)).read().decode()
            for name in archive.getnames()
            if name.endswith(".md")
        }
    links = [(name, link) for name, text in documents.items() for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    assert [each for each in links if not each[1].startswith(("https://", "#"))] == []


def test_galaxy_imports_it_without_a_warning(artifact: Path, tmp_path: Path) -> None:
    environment = {"PATH": "%s:%s" % (IMPORTER / "bin", os.environ["PATH"]), "HOME": str(tmp_path)}
    done = subprocess.run(
        [IMPORTER / "bin" / "python", "-m", "galaxy_importer.main", artifact],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Linting collection via ansible-lint" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith(("WARNING", "ERROR"))] == []


@pytest.mark.parametrize("kubernetes", [False, True], ids=["alone", "with_kubernetes.core"])
def test_playbooks_of_the_installed_artifact(artifact: Path, fleet: Fleet, tmp_path: Path, kubernetes: bool) -> None:
    collections = tmp_path / "collections"
    command = [
        BIN / "ansible-galaxy",
        "collection",
        "install",
        artifact,
        "--no-deps",
        "--collections-path",
        collections,
    ]
    subprocess.run(command, env={**os.environ, "ANSIBLE_HOME": str(tmp_path / "ansible")}, check=True)
    if kubernetes:
        dependency = Path("ansible_collections", "kubernetes")
        (collections / dependency).symlink_to((TOP / ".cache" / "collections" / dependency).resolve())
    # Without PYTHONPATH, in which the tests have the checkout.
    fleet.environment = {"ANSIBLE_COLLECTIONS_PATH": str(collections), "PYTHONPATH": ""}

    fleet.node("node", "--board", "A100-80GB", nvidia_mig_layout=LAYOUT, nvidia_mig_reset=True)
    run = fleet.play("gpufleet.node.mig")
    assert fleet.instances("node") == [INSTANCES]
    for playbook, *arguments in (["gpufleet.node.site", "--check"], ["gpufleet.node.verify"]):
        run = fleet.play(playbook, *arguments)
        assert run.count("node", "changed") == 0
