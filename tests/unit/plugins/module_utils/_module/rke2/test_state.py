# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The state of a node: RKE2, and other Kubernetes distributions."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import state as rke2_state

SHOWN = "rke2 version v1.35.7+rke2r1 (d1092839cf08cb901b1d40461b0fa6e7ae6f8fc4)\ngo version go1.24.6 X:boringcrypto\n"


class Programs:
    """Answers by command line; everything else is not installed."""

    def __init__(self, **answers: str) -> None:
        self.answers = {key.replace("_", " "): value for key, value in answers.items()}

    def __call__(self, argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
        line = " ".join(argv)
        found = next((answer for key, answer in self.answers.items() if key in line), None)
        return (1, "", "") if found is None else (0, found, "")


def test_version() -> None:
    assert rke2_state.version(SHOWN) == "v1.35.7+rke2r1"
    assert rke2_state.version("") is None


def test_the_state_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server" / "db" / "etcd").mkdir(parents=True)
    monkeypatch.setattr(rke2_state, "_system_problems", lambda _command: [])
    programs = Programs(**{"rke2_--version": SHOWN, "quiet_rke2-server": "", "command_-v": "/usr/bin/x\n"})
    found = rke2_state.read(str(tmp_path), {"type": "server"}, programs)
    found.pop("foreign")
    found.pop("archive_problems")
    assert found == {
        "recorded": {"type": "server"}, "version": "v1.35.7+rke2r1", "active": "server", "has_cluster": True,
        "nvidia_program": "/usr/bin/x", "network_manager": False, "problems": [],
    }  # fmt: skip


def test_the_program_of_the_packages(tmp_path: Path) -> None:
    programs = Programs(**{"/usr/bin/rke2_--version": SHOWN})
    assert rke2_state.read(str(tmp_path), {"prefix": "/usr"}, programs)["version"] == "v1.35.7+rke2r1"
    assert rke2_state.read(str(tmp_path), {}, programs)["version"] is None


def test_other_installations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rke2_state, "OTHERS", {"K3s": [str(tmp_path / "k3s")]})
    monkeypatch.setattr(rke2_state, "KUBERNETES", {"rke2": [str(tmp_path / "rke2"), "/etc/rancher/rke2"]})
    assert rke2_state.foreign(str(tmp_path / "data")) == []
    for name in ("k3s", "rke2"):
        (tmp_path / name).touch()
    assert rke2_state.foreign(str(tmp_path / "data")) == [
        "K3s is installed (%s/k3s)" % tmp_path,
        "RKE2 is installed (%s/rke2), but not by this role" % tmp_path,
    ]


def test_data_of_another_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rke2_state, "OTHERS", {})
    monkeypatch.setattr(rke2_state, "KUBERNETES", {"rke2": []})
    (tmp_path / "agent" / "images").mkdir(parents=True)
    assert rke2_state.foreign(str(tmp_path)) == []
    (tmp_path / "server" / "tls").mkdir(parents=True)
    assert rke2_state.foreign(str(tmp_path)) == ["RKE2 is installed (%s/server/tls), but not by this role" % tmp_path]


def test_problems_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enabled = rke2_state._system_problems(Programs(**{"nm-cloud-setup": ""}))
    assert any("nm-cloud-setup.service is enabled" in problem for problem in enabled)
    assert all("systemd" in problem for problem in rke2_state._system_problems(Programs()))
    monkeypatch.setattr(rke2_state, "PREFIX", "/proc")  # a separate file system
    (problem,) = rke2_state.archive_problems()
    assert problem.startswith("/proc is read-only, or a separate file system")
    monkeypatch.setattr(rke2_state, "PREFIX", str(tmp_path))
    assert rke2_state.archive_problems() == []


def test_problems_of_templates(tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "etc" / "containerd"
    folder.mkdir(parents=True)
    (folder / "config.toml.tmpl").write_text("version = 2\n")
    programs = Programs(**{"command_-v": "/usr/bin/nvidia-container-runtime\n"})
    problem = rke2_state.read(str(tmp_path), {}, programs)["problems"][-1]
    assert "is a complete containerd configuration without the runtime nvidia" in problem
