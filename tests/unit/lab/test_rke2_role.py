# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role rke2's requests to a server and parsing of containerd's configuration, with the stand-in for rke2."""

from __future__ import annotations

import hashlib
import re
import typing as t
from pathlib import Path

import pytest
import yaml
from rke2_standin import certificates, containerd, settings, supervisor

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import toml
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import containerd as rke2_containerd
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import server as rke2_server
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit import runtime_check
from ansible_collections.gpufleet.node.plugins.plugin_utils._rke2 import config

PROGRAM = "/usr/bin/nvidia-container-runtime"
NVIDIA_TABLE = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.\"nvidia\"]\n"


class Server(t.NamedTuple):
    url: str
    ca_hash: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A supervisor with the server's token "right" and the agents' token "agents"."""
    tls = tmp_path_factory.mktemp("tls")
    certificates.authority(tls / "server-ca", "rke2-server-ca")
    pair = certificates.issue(tls / "server-ca", tls / "serving", "rke2", usage="server", names=["127.0.0.1"])
    made = supervisor.Supervisor(tls, {"server": ["right"], "node": ["agents"]}, {}, "server-1")
    port = made.serve("127.0.0.1", pair, port=0)
    hashed = hashlib.sha256((tls / "server-ca.crt").read_bytes()).hexdigest()
    return Server("https://127.0.0.1:%d" % port, hashed)


@pytest.mark.parametrize("token", ["K10{hash}::server:right", "K10{hash}::node:agents"])
def test_tokens_that_the_server_accepts(server: Server, token: str) -> None:
    answers = []

    def fetch(*arguments: t.Any) -> t.Tuple[int, bytes]:
        answers.append(rke2_server.fetch(*arguments))
        return answers[-1]

    assert rke2_server.token_problems(server.url, token.format(hash=server.ca_hash), fetch) == []
    # The API server is not ready, which is reported only to clients with the token.
    assert [status for status, _content in answers if status != 401] == [200, 500]


def test_a_token_that_the_server_rejects(server: Server) -> None:
    token = "K10%s::server:wrong" % server.ca_hash
    (problem,) = rke2_server.token_problems(server.url, token, rke2_server.fetch)
    assert "rejects rke2_token" in problem


def test_a_token_of_another_cluster(server: Server) -> None:
    token = "K10%s::server:right" % ("0" * 64)
    (problem,) = rke2_server.token_problems(server.url, token, rke2_server.fetch)
    assert "belongs to another cluster" in problem


def test_a_server_with_other_certificates_gets_no_token(server: Server, tmp_path: Path) -> None:
    certificates.authority(tmp_path / "other", "other-ca")
    other = (tmp_path / "other.crt").read_bytes()
    assert rke2_server.fetch(server.url + "/cacerts", {}, other) == (0, b"")
    assert rke2_server.fetch(server.url + "/cacerts", {}, b"")[0] == 200


@pytest.mark.parametrize("version", [2, 3])
def test_the_nvidia_runtime_in_what_rke2_renders(version: int, tmp_path: Path) -> None:
    runtime = containerd.Runtime("nvidia", PROGRAM, containerd.RUNC)
    text = containerd.base(containerd.Node(tmp_path, "pause", [runtime]), version)
    assert runtime_check.handlers(toml.loads(text)) == {"runc": "", "nvidia": PROGRAM}


def test_a_template_that_defines_it_again_is_refused_before_containerd_fails(tmp_path: Path) -> None:
    runtime = containerd.Runtime("nvidia", PROGRAM, containerd.RUNC)
    node = containerd.Node(tmp_path, "pause", [runtime])
    template = '{{ template "base" . }}\n' + NVIDIA_TABLE
    rendered = containerd.expand(template, containerd.base(node, 3))
    with pytest.raises(toml.DuplicateKeyError):
        toml.loads(rendered)
    assert len(rke2_containerd.check({"config-v3.toml.tmpl": template}, {}, PROGRAM).problems) == 1


@pytest.mark.parametrize("version", [2, 3])
def test_each_table_of_the_base_is_known(version: int, tmp_path: Path) -> None:
    runtime = containerd.Runtime("nvidia", PROGRAM, containerd.RUNC)
    for default in ("", "nvidia"):
        text = containerd.base(containerd.Node(tmp_path, "pause", [runtime], default_runtime=default), version)
        for table in re.findall(r"^\[.*\]$", text, re.MULTILINE):
            template = '{{ template "base" . }}\n' + table + "\n"
            findings = rke2_containerd.check({containerd.TEMPLATES[version]: template}, {}, PROGRAM)
            assert findings.problems or "defines it too if" in findings.warnings[0], table


def test_the_keys_of_the_configuration() -> None:
    """Both lists are from RKE2's source; the role's is newer."""
    table = yaml.safe_load(config._KEYS.read_text())
    for key in settings.KNOWN["server"]:
        assert key in table["all"] or key in table["server"], key
    assert set(settings.KNOWN["agent"]) == set(table["all"])
