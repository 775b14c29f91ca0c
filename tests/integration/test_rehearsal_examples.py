# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of docs/examples/rehearsal in a repository of their own: workflows of hosted CI, and a Molecule scenario."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[2]
EXAMPLES = TOP / "docs" / "examples" / "rehearsal"
SIMULATOR = "~/.ansible/collections/ansible_collections/gpufleet/node/simulator"


def github() -> t.Tuple[str, str, t.Dict[str, str]]:
    """The commands that install, those that rehearse, and the environment of these."""
    steps = yaml.safe_load((EXAMPLES / "github-actions.yml").read_text())["jobs"]["rehearse"]["steps"]
    install, rehearse = (step for step in steps if "run" in step)
    assert "${{" not in install["run"] + rehearse["run"]  # which only GitHub would evaluate
    return install["run"], rehearse["run"], rehearse["env"]


def gitlab() -> t.Tuple[str, str, t.Dict[str, str]]:
    job = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())["rehearse"]
    assert "GIT_DEPTH" in job["variables"]
    return "\n".join(job["before_script"]), "\n".join(job["script"]), job["variables"]


def run(folder: Path, commands: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = "%s:%s:%s" % (Path(sys.executable).parent, TOP / "simulator" / "bin", os.environ["PATH"])
    return subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env={
            "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".cache" / "collections"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "HOME": str(folder.parent),
            "LC_ALL": "C.UTF-8",
            "PATH": path,
            "PYTHONPATH": str(TOP / "simulator"),  # as if nvsim were installed
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(name="repository")
def fixture_repository(tmp_path: Path) -> Path:
    """A repository with the example, and one commit."""
    folder = tmp_path / "repository"
    shutil.copytree(EXAMPLES, folder)
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    git = "git -c user.name=a -c user.email=a@example.com -c commit.gpgsign=false"
    done = run(folder, "git init -q . && git add . && %s commit -qm change && git rev-parse HEAD" % git)
    assert done.returncode == 0, done.stdout
    return done.stdout.split()[-1]


@pytest.mark.parametrize("commands", [github, gitlab], ids=["github", "gitlab"])
def test_a_workflow_shows_a_change_and_fails_for_what_the_nodes_could_not_run(
    repository: Path, commands: t.Callable[[], t.Tuple[str, str, t.Dict[str, str]]]
) -> None:
    """Also the second time in the same checkout: for a layout that does not fit, and for a file that is no inventory.

    The commands that install need the Internet, and are compared with what the repository has.
    """
    install, rehearse, environment = commands()
    assert SIMULATOR in install and "nvidia-ml-py" in install and "-r requirements.yml" in install
    assert (TOP / "simulator").is_dir()
    former = run(repository, "git rev-parse HEAD").stdout.strip()
    variables = repository / "inventory" / "group_vars" / "gpu_nodes.yml"
    text = variables.read_text()
    variables.write_text(text.replace("3g.40gb: 1, 1g.10gb: 4", "3g.40gb: 2"))
    commit(repository)
    environment = {**environment, "FORMER_COMMIT": former}
    done = run(repository, rehearse, **environment)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^gpu-a100-01  2x A100-SXM4-80GB  2 +8 +2 +-  +changes$", done.stdout, re.MULTILINE), done.stdout
    variables.write_text(text.replace("1g.10gb: 4", "1g.10gb: 5"))
    done = run(repository, rehearse, **environment)
    assert done.returncode != 0 and "does not fit" in done.stdout
    variables.write_text(text)
    (repository / "inventory" / "more.yml").write_text("gpu_nodes:\n  hosts:\n    gpu-a100-03: {\n")
    done = run(repository, rehearse, **environment)
    assert done.returncode != 0 and "Completely failed to parse inventory source" in done.stdout, done.stdout


def test_the_molecule_scenario(repository: Path) -> None:
    done = run(repository, "molecule test")
    assert done.returncode == 0, done.stdout
    for action in ("create", "converge", "idempotence", "verify", "destroy"):
        assert "default > %s: Executed: Successful" % action in done.stdout
