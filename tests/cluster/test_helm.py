# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""helm, which waits for a hook of a chart."""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from conftest import TOP, UNSIMULATED, node
from gpulab import control_plane, controller

NAME = "hooks"
HOOK = """
apiVersion: batch/v1
kind: Job
metadata: {name: cleanup, annotations: {helm.sh/hook: pre-delete}}
spec:
  template:
    metadata: {labels: {app: cleanup, unsimulated: "true"}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: gpufleet.invalid/none}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: installed}
"""
PULL = {"reason": "ImagePullBackOff", "message": "Back-off pulling image gpufleet.invalid/none"}
WAITING = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": {"waiting": PULL}}
STATUS = {"status": {"phase": "Pending", "containerStatuses": [WAITING]}}


@pytest.fixture(name="helm")
def fixture_helm(plane: control_plane.ControlPlane, tmp_path: Path) -> t.Iterator[t.Callable[..., t.Any]]:
    def helm(**options: t.Any) -> subprocess.Popen[str]:
        given = {"options": {"name": NAME, "release_namespace": NAME, **options}}
        command = [str(Path(sys.executable).with_name("ansible")), "--inventory=localhost,", "localhost"]
        return subprocess.Popen(
            [*command, "--connection=local", "--module-name=gpufleet.node.gpu_chart_helm", "-a", json.dumps(given)],
            env={
                **plane.environment("run"),
                **controller.environment(),
                "ANSIBLE_COLLECTIONS_PATH": str(TOP / ".cache" / "collections"),
                "ANSIBLE_HOME": str(tmp_path / "ansible"),
                "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
                "ANSIBLE_NOCOLOR": "1",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    chart = tmp_path / "chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: hooks, version: 1.0.0}")
    (chart / "templates" / "all.yaml").write_text(HOOK)
    plane.kubectl("create", "namespace", NAME)
    plane.kubectl("create", "--filename=-", given=json.dumps(node(NAME + "-1", NAME)))
    installed = helm(chart_ref=str(chart))
    output = installed.communicate()[0]
    assert installed.returncode == 0, output
    yield helm
    plane.kubectl("delete", "node", NAME + "-1")
    plane.kubectl("delete", "namespace", NAME, "--wait=false")


def test_a_hook_that_cannot_start(plane: control_plane.ControlPlane, helm: t.Callable[..., t.Any]) -> None:
    """Its reason is shown while helm waits, and again when helm fails. The release remains, which is an error too."""
    removal = helm(state="absent", wait_timeout="30s")
    pods = ["pods", "--namespace", NAME, "--selector", UNSIMULATED]
    plane.kubectl("wait", *pods, "--for=create", "--timeout=30s")
    (pod,) = plane.kubectl("get", *pods, "--output=name").split()
    plane.kubectl("patch", pod, "-n", NAME, "--subresource=status", "--type=merge", "-p", json.dumps(STATUS))
    output = removal.communicate()[0]
    before, failed, message = output.partition("FAILED!")
    assert failed, output
    reason = "container main of pod %s: ImagePullBackOff" % pod.partition("/")[2]
    assert "waiting for helm" in before and reason in before
    assert reason in message and "timed out" in message
    again = helm(state="absent").communicate()[0]
    assert "Complete it with: helm uninstall hooks --namespace hooks" in again
