# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Requests of action plugins. Those on a real API server are in tests/cluster."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.cluster import client as cluster_client
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import requests
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.requests import ByClient, ByModule
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Final, Unreadable

Data = t.Dict[str, t.Any]
NODES = [{"verb": "read", "kind": "Node"}]


@pytest.fixture(autouse=True)
def _own_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible has a process for each task."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(tempfile, "tempdir", None)


def of_task(
    transport: str = "local", become: bool = False, check_mode: bool = False, environment: t.Optional[Data] = None
) -> t.Union[ByModule, ByClient]:
    action = SimpleNamespace(
        _connection=SimpleNamespace(transport=transport),
        _play_context=SimpleNamespace(become=become),
        _task=SimpleNamespace(check_mode=check_mode),
        _compute_environment_string=lambda out: out.update(environment or {}),
    )
    return requests.of_task(action, lambda *_, **__: {})


@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ({}, ByClient),
        ({"transport": "ssh"}, ByModule),
        ({"become": True}, ByModule),
        ({"environment": {"KUBECONFIG": "other"}}, ByModule),
    ],
)
def test_the_client_is_used_on_the_controller_only(task: Data, wanted: type) -> None:
    assert isinstance(of_task(**task), wanted)


def test_the_environment_of_the_task() -> None:
    """Its values need not be strings."""
    of_task(environment={"K8S_AUTH_CONTEXT": "other", "NUMBER": 5})
    assert (os.environ["K8S_AUTH_CONTEXT"], os.environ["NUMBER"]) == ("other", "5")


@pytest.mark.parametrize("check_mode", [False, True])
def test_changes_in_check_mode_are_dry_runs(monkeypatch: pytest.MonkeyPatch, check_mode: bool) -> None:
    sent: t.List[Data] = []
    changed = SimpleNamespace(to_dict=lambda: {"kind": "Node"})
    resource = SimpleNamespace(
        patch=lambda **given: sent.append(given) or changed, delete=lambda **given: sent.append(given["body"])
    )
    monkeypatch.setattr(cluster_client, "_connect", lambda: SimpleNamespace(resource=lambda *_: resource))
    found = of_task(check_mode=check_mode)
    found.send(
        [
            {"verb": "patch", "kind": "Node", "name": "a", "patch": {"spec": {}}},
            {"verb": "delete", "kind": "Pod", "namespace": "ns", "name": "a", "uid": "1"},
        ]
    )
    assert [each.get("dry_run") or each.get("dryRun") for each in sent] == (
        ["All", ["All"]] if check_mode else [None, None]
    )


def test_files_of_the_client_are_removed(tmp_path: Path) -> None:
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
    folder = tmp_path / "temporary"
    folder.mkdir()
    found = of_task(environment={"K8S_AUTH_KUBECONFIG": tmp_path / "kubeconfig", "TMPDIR": str(folder)})
    with pytest.raises(Unreadable, match="Connection refused"):
        found.send(NODES)
    assert list(folder.rglob("*"))[1:] and not os.listdir(tempfile.gettempdir()) == []
    found.close()
    assert list(folder.iterdir()) == []


def test_a_process_runs_a_task_for_each_item_of_a_loop() -> None:
    for _item in range(2):
        of_task().close()
    assert os.path.isdir(tempfile.gettempdir())


def test_an_invalid_kubeconfig_does_not_pass() -> None:
    with pytest.raises(Final, match="Invalid kube-config"):
        of_task(environment={"K8S_AUTH_KUBECONFIG": "/nonexistent"}).send(NODES)
