# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules of the role rke2, from arguments to results."""

from __future__ import annotations

import hashlib
import json

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import files, record
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import service as service
from ansible_collections.gpufleet.node.plugins.modules import (
    rke2_artifacts,
    rke2_node,
    rke2_server,
    rke2_service,
    rke2_state,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.module_support import run


def test_artifacts(tmp_path):
    sums, file = tmp_path / "sha256sum-amd64.txt", tmp_path / "a"
    missing = run(rke2_artifacts.main, checksums=str(sums), files=[str(file)])
    assert missing["problems"] == ["%s is missing" % sums]
    assert missing["files"] == [{"path": str(file), "sha256": "", "found": "", "current": False}]
    assert run(rke2_artifacts.main, checksums=str(sums), files=[])["problems"] == []
    file.write_bytes(b"x")
    sums.write_text("%s  a\n" % hashlib.sha256(b"x").hexdigest())
    found = run(rke2_artifacts.main, checksums=str(sums), files=[str(file)])
    assert (found["changed"], found["problems"], found["files"][0]["current"]) == (False, [], True)


def test_a_list_that_cannot_be_read(tmp_path):
    found = run(rke2_artifacts.main, checksums=str(tmp_path), files=["/x"])
    assert found["failed"] and found["msg"].startswith("%s cannot be read" % tmp_path)


def test_a_server_that_does_not_answer(tmp_path):
    arguments = {"url": "https://127.0.0.1:1", "data_path": str(tmp_path), "token": "swordfish"}
    assert run(rke2_server.main, **arguments)["problems"] == []
    found = run(rke2_server.main, required=True, **arguments)
    assert found["problems"][0].startswith("the server https://127.0.0.1:1 does not respond (Connection refused)")
    assert "swordfish" not in str(found)


def test_the_token_of_this_server(tmp_path):
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "token").write_text("K10%s::server:right\n" % ("a" * 64))
    assert run(rke2_server.main, data_path=str(tmp_path), token="right")["problems"] == []
    (problem,) = run(rke2_server.main, data_path=str(tmp_path), token="swordfish")["problems"]
    assert "rke2 token rotate" in problem and "swordfish" not in problem


def test_the_state_of_a_node(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "PATH", str(tmp_path / "gpufleet.fact"))
    state = run(rke2_state.main, data_path=str(tmp_path / "data"))["state"]
    assert (state["recorded"], state["has_cluster"], state["active"]) == ({}, False, "")
    (tmp_path / "gpufleet.fact").write_text("{")
    assert "is damaged" in run(rke2_state.main, data_path=str(tmp_path))["msg"]


def test_a_state_that_only_root_can_read(tmp_path, monkeypatch):
    def refuse(_path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(record, "PATH", str(tmp_path / "gpufleet.fact"))
    monkeypatch.setattr(files, "read", refuse)
    drop_in = tmp_path / "agent" / "etc" / "containerd" / "config.toml.d" / "10.toml"
    drop_in.parent.mkdir(parents=True)
    drop_in.touch()
    found = run(rke2_state.main, data_path=str(tmp_path))
    assert found["failed"] and found["msg"].endswith("Permission denied. Run as root (become: true)")


@pytest.mark.parametrize("check", [True, False])
def test_the_service(check, tmp_path, monkeypatch):
    """In check mode, nothing is started."""
    started = []
    monkeypatch.setattr(service.Rke2Service, "reasons", lambda self: ["it does not run"])
    monkeypatch.setattr(service.Rke2Service, "start", lambda self, timeout: started.append(timeout) or ["foo"])
    monkeypatch.setattr(service.Rke2Service, "name", lambda self: "gpu-1")
    monkeypatch.setattr(service.Rke2Service, "nvidia_problem", lambda self: "")
    found = run(rke2_service.main, check, type="agent", data_path=str(tmp_path), timeout=7)
    assert found["changed"] and found["reasons"] == ["it does not run"]
    assert found["diff"] == {"prepared": "Start rke2-agent.service: it does not run\n"}
    assert started == ([] if check else [7])
    assert found["node_name"] == ("" if check else "gpu-1")
    assert bool(found.get("warnings")) is not check


def test_a_service_that_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(service.Rke2Service, "reasons", lambda self: [])
    monkeypatch.setattr(service.Rke2Service, "nvidia_problem", lambda self: "It does not have the runtime nvidia.")
    found = run(rke2_service.main, type="agent", data_path=str(tmp_path))
    assert found["failed"] and found["msg"] == "It does not have the runtime nvidia."
    monkeypatch.setattr(service.Rke2Service, "problems", lambda self: ["x"])
    checked = run(rke2_service.main, type="agent", data_path=str(tmp_path), state="checked")
    assert (checked["changed"], checked["problems"]) == (False, ["x"])


@pytest.mark.parametrize("check", [True, False])
def test_labels_and_taints_are_set_with_kubectl(check, tmp_path):
    node = {"metadata": {"labels": {"a": "1"}}, "spec": {"taints": [{"key": "old", "effect": "NoSchedule"}]}}
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text(
        "#!/bin/sh\necho \"$*\" >>%s\ncase $* in *get*) echo '%s';; esac\n" % (tmp_path / "calls", json.dumps(node))
    )
    kubectl.chmod(0o755)
    found = run(
        rke2_node.main, check, name="gpu-1", data_path=str(tmp_path), kubeconfig="/k", labels=["a=2"],
        taints=["new=x:NoExecute"], former_taints=["old:NoSchedule"],
    )  # fmt: skip
    assert found["changed"] and found["changes"] == ["Label a=2", "Taint new=x:NoExecute", "Taint old:NoSchedule-"]
    calls = [line.partition("--request-timeout 30s ")[2] for line in (tmp_path / "calls").read_text().splitlines()]
    problem = "Labels or taints differ: %s. Run site.yml --tags rke2" % ", ".join(found["changes"])
    assert found["problems"] == ([problem] if check else [])
    assert calls[0] == "get --output json -- node gpu-1"
    assert calls[1:] == (
        []
        if check
        else ["label --overwrite -- node gpu-1 a=2", "taint --overwrite -- node gpu-1 new=x:NoExecute old:NoSchedule-"]
    )


def test_a_node_that_the_cluster_does_not_have(tmp_path):
    (tmp_path / "bin").mkdir()
    kubectl = tmp_path / "bin" / "kubectl"
    kubectl.write_text("#!/bin/sh\necho 'nodes \"gpu-1\" not found' >&2\nexit 1\n")
    kubectl.chmod(0o755)
    found = run(rke2_node.main, name="gpu-1", data_path=str(tmp_path), kubeconfig="/k")
    assert found["msg"] == 'The labels and taints of the node gpu-1 cannot be changed: nodes "gpu-1" not found' + (
        ". A node registers only when RKE2 starts: if somebody deleted it, restart rke2-agent (or rke2-server) on it"
    )
