# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import multiprocessing.connection
import os
import sys
import tempfile
import time
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import client

Data = t.Dict[str, t.Any]
OBJECTS = "gpufleet.node.gpu_cluster_objects"
HERE = {"ansible_python_interpreter": sys.executable}


def action(
    transport: str = "local", become: bool = False, check_mode: bool = False, environment: t.Optional[Data] = None
) -> t.Any:
    return SimpleNamespace(
        _templar=SimpleNamespace(template=lambda value: value),
        _connection=SimpleNamespace(transport=transport),
        _play_context=SimpleNamespace(become=become),
        _task=SimpleNamespace(check_mode=check_mode),
        _compute_environment_string=lambda out: out.update(environment or {"K8S_AUTH_CONTEXT": "other"}),
    )


@pytest.mark.parametrize(
    ("module", "variables", "connection", "here"),
    [
        (OBJECTS, HERE, {}, True),
        (OBJECTS, HERE, {"transport": "ssh"}, False),
        (OBJECTS, HERE, {"become": True}, False),
        (OBJECTS, {"ansible_python_interpreter": "/usr/bin/python3.99"}, {}, False),
        (OBJECTS, {}, {}, False),
        (OBJECTS, HERE, {"environment": {"KUBECONFIG": "other"}}, False),
        ("kubernetes.core.k8s", HERE, {}, False),
    ],
)
def test_only_modules_that_ansible_would_start_with_the_same_python(
    module: str, variables: Data, connection: Data, here: bool
) -> None:
    assert client.runs_here(action(**connection), module, variables) == here


def test_the_result_of_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(module: t.Any) -> None:
        context = os.environ.get("K8S_AUTH_CONTEXT")
        module.exit_json(changed=False, results=[module.params, module.check_mode, context])

    monkeypatch.setattr(client._MODULES[OBJECTS], "run", run)
    wanted = {"api_version": "v1", "kind": "Node", "label_selectors": [], "field_selectors": []}
    found = client.run(action(check_mode=True), OBJECTS, {"objects": [{"kind": "Node"}]})
    (params, check_mode, context) = found["results"]
    assert wanted.items() <= params["objects"][0].items()
    assert (check_mode, context, os.environ.get("K8S_AUTH_CONTEXT")) == (True, "other", None)


def test_values_of_the_environment_need_not_be_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(module: t.Any) -> None:
        module.exit_json(found=os.environ["NUMBER"])

    monkeypatch.setattr(client._MODULES[OBJECTS], "run", run)
    assert client.run(action(environment={"NUMBER": 5}), OBJECTS, {"objects": []}) == {"found": "5"}


def test_an_unexpected_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client._MODULES[OBJECTS], "run", lambda _module: {}["x"])
    assert client.run(action(), OBJECTS, {"objects": []}) == {"failed": True, "msg": "KeyError: 'x'"}


def test_the_process_ends_with_the_task(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A request may take longer than the time limit of the task."""
    started = tmp_path / "started"
    (tmp_path / "temporary").mkdir()

    def run(module: t.Any) -> None:
        Path(tempfile.gettempdir(), "key").touch()
        started.touch()
        time.sleep(60)

    def recv(_connection: object) -> t.NoReturn:
        while not started.exists():
            time.sleep(0.01)
        raise KeyboardInterrupt

    monkeypatch.setattr(client._MODULES[OBJECTS], "run", run)
    monkeypatch.setattr(multiprocessing.connection.Connection, "recv", recv)
    with pytest.raises(KeyboardInterrupt):
        client.run(action(environment={"TMPDIR": str(tmp_path / "temporary")}), OBJECTS, {"objects": []})
    for child in multiprocessing.active_children():
        child.join(30)
    assert not list((tmp_path / "temporary").iterdir()) and not multiprocessing.active_children()


def test_a_module_that_ends_without_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client._MODULES[OBJECTS], "run", lambda _module: os._exit(1))
    assert client.run(action(), OBJECTS, {"objects": []})["failed"]


def test_files_of_the_client_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It writes certificates and keys of the kubeconfig to temporary files."""
    server = {"server": "https://127.0.0.1:1", "certificate-authority-data": "eA=="}
    user = {"client-certificate-data": "eA==", "client-key-data": "eA=="}
    config = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": server}],
        "users": [{"name": "x", "user": user}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    (tmp_path / "temporary").mkdir()
    run = client._MODULES[OBJECTS].run

    def listing(module: t.Any) -> None:
        try:
            run(module)
        finally:
            module.result["written"] = os.listdir(tempfile.gettempdir())

    monkeypatch.setattr(client._MODULES[OBJECTS], "run", listing)
    given = {"K8S_AUTH_KUBECONFIG": str(tmp_path / "kubeconfig"), "TMPDIR": str(tmp_path / "temporary")}
    result = client.run(action(environment=given), OBJECTS, {"objects": [{"kind": "Node"}]})
    assert "Connection refused" in result["msg"] and result["written"]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_the_error_of_a_module() -> None:
    """The real one, without a cluster."""
    action_ = action()
    action_._compute_environment_string = lambda out: out.update(K8S_AUTH_KUBECONFIG="/nonexistent")
    result = client.run(action_, OBJECTS, {"objects": [{"kind": "Node"}]})
    assert result["failed"] and "Invalid kube-config" in result["msg"]
