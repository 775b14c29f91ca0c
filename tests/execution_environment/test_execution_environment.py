# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The execution environment of awx/, built from its definition, and playbooks in it on a node of the lab.

Without a registry and Galaxy, images with the names in the definition are built from Debian packages, and the
collections are this checkout's artifact and the kubernetes.core of the tests.
"""

from __future__ import annotations

import json
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
sys.path.insert(0, str(TOP / "tests" / "lab"))

from gpulab import images, nodes, repositories, serve
from gpulab.places import BUILDING, LABNS, LOOPBACK, PORT, SSH_KEY, call, podman, succeeds

BIN = Path(sys.executable).parent
AWX = TOP / "awx"
COLLECTIONS = TOP / ".cache" / "collections"
IMAGE = "localhost/gpufleet-execution-environment:latest"
BASE = "docker.io/library/debian:trixie-slim"
HELM = "docker.io/alpine/helm:3.22.0"
NODE = "gpufleet-environment-1"
# AWX runs jobs as root of the container. Without control groups, because these need CAP_SYS_RESOURCE on some machines.
CONTAINER = ("--user=root", "--network=host", "--cgroups=disabled")
PIP_SETTING = re.compile(r"^\S+\.(index-url|extra-index-url|trusted-host|proxy|cert)='(.*)'$", re.MULTILINE)


def layout(devices: t.Mapping[str, int]) -> t.Dict[str, t.Any]:
    return {"nvidia_mig_layout": [{"devices": "all", "mig_enabled": True, "mig_devices": devices}]}


# --- The image --------------------------------------------------------------------------------------------------------


def build_collections(target: Path, work: Path) -> t.List[Path]:
    """Build the artifacts of this checkout and of kubernetes.core, whose package lacks its tests."""
    call(sys.executable, TOP / "scripts" / "build.py", target)
    core = shutil.copytree(COLLECTIONS / "ansible_collections" / "kubernetes" / "core", work / "core")
    manifest = json.loads((core / "MANIFEST.json").read_text())["collection_info"]
    (core / "galaxy.yml").write_text(yaml.safe_dump({key: value for key, value in manifest.items() if value}))
    call(BIN / "ansible-galaxy", "collection", "build", "--output-path", target, core)
    return sorted(target.iterdir())


def definition(work: Path) -> Path:
    """Copy the definition, with the collections from files."""
    copy = shutil.copytree(AWX / "execution-environment", work / "definition")
    built = build_collections(work / "collections", work)
    (copy / "requirements.yml").write_text(
        yaml.safe_dump({"collections": [{"name": "collections/" + path.name, "type": "file"} for path in built]})
    )
    path = copy / "execution-environment.yml"
    content = yaml.safe_load(path.read_text())
    content["additional_build_files"] = [{"src": str(each), "dest": "collections"} for each in built]
    path.write_text(yaml.safe_dump(content))
    return path


def base_images(work: Path) -> None:
    if not succeeds(LABNS, "podman", "image", "exists", BASE):
        archive = work / "root.tar"
        images.mmdebstrap("trixie", ["apt"], [], archive)
        images.store("import", "--quiet", archive, BASE)
    if not succeeds(LABNS, "podman", "image", "exists", HELM):
        program = work / "helm" / "usr" / "bin" / "helm"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        call("tar", "--create", "--file", work / "helm.tar", "--directory", work / "helm", "usr")
        images.store("import", "--quiet", work / "helm.tar", HELM)


def machine_settings(work: Path) -> t.Iterator[str]:
    """Options of ``podman build`` by which apt and pip reach their archives as on this machine."""
    serve.start(repositories.ROOT)
    (work / "apt.conf").write_text('Acquire::http::Proxy "http://%s:%d";\n' % (LOOPBACK, PORT))
    pip = dict(PIP_SETTING.findall(call(sys.executable, "-m", "pip", "config", "list")))
    if "cert" in pip:
        shutil.copy(pip["cert"], work / "certificates.pem")
        pip["cert"] = "/run/certificates.pem"
        yield "--volume=%s:%s:ro" % (work / "certificates.pem", pip["cert"])
    (work / "pip.conf").write_text("[global]\n" + "".join("%s = %s\n" % setting for setting in pip.items()))
    yield "--volume=%s:/etc/pip.conf:ro" % (work / "pip.conf")
    yield "--volume=%s:/etc/apt/apt.conf.d/90-lab:ro" % (work / "apt.conf")
    yield "--network=host"


@pytest.fixture(name="image", scope="session")
def fixture_image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image. It stays in the lab's store, with the layers that the next build uses again."""
    work = tmp_path_factory.mktemp("image")
    BUILDING.mkdir(parents=True, exist_ok=True)
    interrupted = podman("ps", "--all", "--external", "--quiet", "--filter", "name=-working-container").split()
    if interrupted:  # containers of a build that was killed
        podman("rm", "--force", *interrupted)
    base_images(work)
    call(BIN / "ansible-builder", "create", "--file", definition(work), "--context", work / "context")
    images.store(
        *("build", "--file", work / "context" / "Containerfile", "--tag", IMAGE),
        "--isolation=chroot",  # without control groups, see above
        "--build-arg=ANSIBLE_GALAXY_CLI_COLLECTION_OPTS=--offline",
        *machine_settings(work),
        work / "context",
    )
    return IMAGE


# --- The node and its inventory ---------------------------------------------------------------------------------------


@pytest.fixture(name="address", scope="session")
def fixture_address() -> t.Iterator[str]:
    """The address of a node with one GPU."""
    (node,) = nodes.up([nodes.NodeSpec(NODE, boards=["A100-80GB:1"], driver="550.163.01")])
    yield node.address
    nodes.remove([NODE])


def instances() -> t.List[str]:
    """Profiles of the node's GPU instances."""
    shown = call(*nodes.command_on(NODE, "/opt/gpufleet-lab/bin/nvsim", "show", "/var/lib/nvsim", "--json"))
    (gpu,) = json.loads(shown)["gpus"]
    return sorted(instance["profile"] for instance in gpu["gpu_instances"])


@pytest.fixture(name="project")
def fixture_project(address: str, tmp_path: Path) -> Path:
    """The private data directory of ansible-runner: the example of a project, and the node as inventory."""
    shutil.copytree(AWX / "project", tmp_path / "project")
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "ssh_key").write_text(SSH_KEY.read_text())
    hosts = {
        NODE: {
            "ansible_host": address,
            "ansible_user": "root",
            # The directory of a test can be too long for the path of a control socket.
            "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
            " -o ControlPath=none",
            "ansible_python_interpreter": "/usr/bin/python3",
            "gpu_node_roles": ["nvidia_mig"],
            "nvidia_mig_reset": True,
        }
    }
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts}}))
    return tmp_path


def run(*command: t.Union[str, Path], cwd: Path, **environment: str) -> str:
    # ansible-navigator passes ANSIBLE_* to the container, where the paths of this machine do not exist.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    done = subprocess.run(
        [LABNS, *command],
        cwd=cwd,
        env={**kept, "HOME": str(cwd), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# --- ansible-runner ---------------------------------------------------------------------------------------------------


def runner(image: str, project: Path, playbook: str, variables: t.Mapping[str, t.Any]) -> t.List[t.Dict[str, t.Any]]:
    """Run a playbook of the project as AWX does, and return its events."""
    (project / "env" / "extravars").write_text(json.dumps(variables))
    run(
        *("ansible-runner", "run", project, "--playbook", playbook, "--ident", playbook),
        *("--process-isolation", "--process-isolation-executable", "podman", "--container-image", image),
        *("--container-option=" + option for option in CONTAINER),
        cwd=project,
    )
    artifacts = project / "artifacts" / playbook
    assert (artifacts / "status").read_text() == "successful"
    assert (artifacts / "rc").read_text() == "0"
    events = [json.loads(path.read_text()) for path in (artifacts / "job_events").glob("*.json")]
    return sorted(events, key=lambda event: t.cast(int, event["counter"]))


def test_jobs_of_ansible_runner(image: str, project: Path) -> None:
    desired = layout({"1g.10gb": 7})
    events = runner(image, project, "mig.yml", desired)
    assert instances() == ["1g.10gb"] * 7
    names = {event["event"] for event in events}
    assert {"playbook_on_start", "playbook_on_task_start", "runner_on_ok", "playbook_on_stats"} <= names
    stats = events[-1]["event_data"]
    assert set(stats["changed"]) == {NODE}
    assert stats["failures"] == stats["dark"] == {}

    stats = runner(image, project, "verify.yml", desired)[-1]["event_data"]
    assert set(stats["ok"]) >= {NODE}
    assert stats["changed"] == stats["failures"] == stats["dark"] == {}


# --- ansible-navigator ------------------------------------------------------------------------------------------------


@pytest.fixture(name="message_queues")
def fixture_message_queues() -> t.Iterator[None]:
    """ansible-navigator requires this directory, which a machine that is a container may lack."""
    path = Path("/dev/mqueue")
    missing = not path.exists()
    path.mkdir(exist_ok=True)
    yield
    if missing:
        path.rmdir()


class Navigator(t.NamedTuple):
    project: Path
    variables: t.Mapping[str, t.Any]

    def run(self, playbook: str, *options: str, changed: bool = False, **environment: str) -> None:
        """Run a playbook of the collection, and compare its recap."""
        output = run(
            *("ansible-navigator", "run", playbook, "--mode", "stdout", "--playbook-artifact-enable", "false"),
            *("--log-file", self.project / "navigator.log", *options),
            *("--inventory", self.project / "inventory", "--private-key", self.project / "env" / "ssh_key"),
            *("--extra-vars", json.dumps(self.variables)),
            cwd=self.project,
            **environment,
        )
        recap = r"^%s +: ok=\d+ +changed=%s +unreachable=0 +failed=0" % (NODE, "[1-9]" if changed else "0")
        assert re.search(recap, output, re.MULTILINE), output


@pytest.mark.usefixtures("message_queues")
def test_playbooks_of_ansible_navigator(image: str, project: Path) -> None:
    """With the environment, and without it."""
    (project / "env" / "ssh_key").chmod(0o600)
    navigator = Navigator(project, layout({"3g.40gb": 2}))
    inside = ["--execution-environment-image", image, "--pull-policy", "never"]
    inside += ["--container-options=" + option for option in CONTAINER]
    navigator.run("gpufleet.node.mig", *inside, changed=True)
    assert instances() == ["3g.40gb"] * 2
    navigator.run("gpufleet.node.verify", *inside)
    navigator.run("gpufleet.node.verify", "--execution-environment=false", ANSIBLE_COLLECTIONS_PATH=str(COLLECTIONS))
