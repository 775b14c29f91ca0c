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
    *("changelogs", "docs", "inventory", "meta", "playbooks", "plugins", "roles", "simulator"),
}


def build(directory: Path) -> Path:
    command = [sys.executable, TOP / "scripts" / "build.py", directory]
    return Path(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip())


@pytest.fixture(name="artifact", scope="session")
def fixture_artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("artifact"))


@pytest.fixture(name="collections", scope="session")
def fixture_collections(artifact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the artifact is installed."""
    folder = tmp_path_factory.mktemp("installed")
    install = [BIN / "ansible-galaxy", "collection", "install", artifact, "--no-deps", "--collections-path", folder]
    subprocess.run(install, env={**os.environ, "ANSIBLE_HOME": str(folder / "ansible")}, check=True)
    return folder


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
def test_playbooks_of_the_installed_artifact(collections: Path, fleet: Fleet, tmp_path: Path, kubernetes: bool) -> None:
    paths = [collections]
    if kubernetes:
        dependency = tmp_path / "ansible_collections" / "kubernetes"
        dependency.parent.mkdir()
        dependency.symlink_to((TOP / ".cache" / "collections" / "ansible_collections" / "kubernetes").resolve())
        paths.append(tmp_path)
    # Without PYTHONPATH, in which the tests have the checkout.
    fleet.environment = {"ANSIBLE_COLLECTIONS_PATH": ":".join(map(str, paths)), "PYTHONPATH": ""}

    fleet.node("node", "--board", "A100-80GB", nvidia_mig_layout=LAYOUT, nvidia_mig_reset=True)
    run = fleet.play("gpufleet.node.mig")
    assert fleet.instances("node") == [INSTANCES]
    for playbook, *arguments in (["gpufleet.node.site", "--check"], ["gpufleet.node.verify"]):
        run = fleet.play(playbook, *arguments)
        assert run.count("node", "changed") == 0


@pytest.mark.parametrize("archived", [False, True], ids=["folder", "source_archive"])
def test_the_simulator_of_the_installed_artifact(collections: Path, tmp_path: Path, archived: bool) -> None:
    source = collections / "ansible_collections" / "gpufleet" / "node" / "simulator"
    if archived:
        sdist = [sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path]
        subprocess.run(sdist, cwd=source, check=True)
        (source,) = tmp_path.glob("*.tar.gz")
    before = sorted(source.rglob("*"))
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", target, source], check=True)
    assert sorted(source.rglob("*")) == before

    def nvsim(*arguments: str | Path) -> str:
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(target)}
        command = [target / "bin" / "nvsim", *arguments]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    nvsim("create", tmp_path / "node", "--board", "A30-24GB:2")
    client = "import pynvml as nv; nv.nvmlInit(); nv.nvmlDeviceSetMigMode(nv.nvmlDeviceGetHandleByIndex(1), 1)"
    nvsim("run", tmp_path / "node", "--", sys.executable, "-c", client)
    modes = re.findall(r"NVIDIA A30  MIG (\w+)", nvsim("show", tmp_path / "node"))
    assert modes == ["off", "on"]
