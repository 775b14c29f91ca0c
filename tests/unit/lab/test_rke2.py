# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for rke2: what it refuses as rke2 does, and the files of a release.

That nodes join, run pods and find runtimes is shown by the scenarios.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import typing as t
from pathlib import Path

import pytest
from cryptography import x509
from gpulab import rke2
from rke2_standin import certificates, client, containerd, settings, supervisor

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import server as rke2_server

NVIDIA = containerd.Runtime("nvidia", "/usr/bin/nvidia-container-runtime")


# --- Settings ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> t.Callable[..., Path]:
    def write(**files: str) -> Path:
        (tmp_path / "config.yaml.d").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / ("config.yaml" if name == "config" else "config.yaml.d/%s" % name.replace("_", "."))
            path.write_text(text)
        return tmp_path / "config.yaml"

    return write


def test_the_last_drop_in_wins_and_a_plus_appends(config: t.Callable[..., Path]) -> None:
    path = config(
        config="token: one\nnode-label: [a=1]\ntls-san: first\n",
        a_yaml="token: two\ntls-san+: [second]\n",
        b_yml="node-label:\n- b=2\nnode-taint+: new=1:NoSchedule\ntokn: one\n",
        c_txt="token: three\n",
    )
    values, skipped = settings.load("server", path)
    assert (values["token"], values["node-label"], values["tls-san"]) == ("two", ["b=2"], ["first", "second"])
    assert values["node-taint"] == ["new=1:NoSchedule"]
    assert skipped == ["tokn"]
    assert settings.load("agent", path)[1] == ["tls-san", "tokn"]


@pytest.mark.parametrize("text", ["a: [", "- list\n", "plain"])
def test_files_that_are_no_mapping_are_refused(config: t.Callable[..., Path], text: str) -> None:
    with pytest.raises(settings.SettingsError, match="^yaml: "):
        settings.load("server", config(config=text))


@pytest.mark.parametrize(
    "role, values, message",
    [
        ("agent", {"server": "https://one:9345"}, "--token is required"),
        ("agent", {"token": "secret"}, "--server is required"),
        ("agent", {"token": "secret", "server": "http://one"}, "only https:// URLs are supported"),
        ("server", {"server": "https://one:9345"}, "the stand-in of the lab supports clusters with one server only"),
    ],
)
def test_settings_that_cannot_work_are_refused(role: str, values: t.Dict[str, t.Any], message: str) -> None:
    with pytest.raises(settings.SettingsError) as caught:
        settings.validate(role, {**settings.DEFAULTS, **values})
    assert str(caught.value).startswith(message)


# --- Tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "token must not be empty"),
        ("K10abc::server:x", "invalid token CA hash length"),
        ("K10%s::server" % ("a" * 64), "invalid token format"),
    ],
)
def test_wrong_tokens_are_refused(text: str, message: str) -> None:
    with pytest.raises(client.RequestError) as caught:
        client.parse_token(text)
    assert str(caught.value) == message


def test_a_node_password_matches_only_itself() -> None:
    known = supervisor.password_hash("secret", b"salt")
    assert supervisor.password_matches("secret", known)
    assert not supervisor.password_matches("other", known)
    assert not supervisor.password_matches("secret", "")


# --- Joining ----------------------------------------------------------------------------------------------------------


class Joining(t.NamedTuple):
    url: str
    ca: str
    folder: Path

    def get(self, path: str, user: str = "", password: str = "", **headers: str) -> bytes:
        everything = {name.replace("_", "-"): value for name, value in headers.items()}
        everything.update(client.basic(user, password) if user else {})
        return client.send(self.url + path, client.context(self.ca), headers=everything)


@pytest.fixture(scope="module")
def joining(tmp_path_factory: pytest.TempPathFactory) -> Joining:
    """A running supervisor whose API server is not ready yet."""
    folder = tmp_path_factory.mktemp("tls")
    for name in ("server-ca", "client-ca", "request-header-ca", "etcd/server-ca", "etcd/peer-ca"):
        certificates.authority(folder / name, name.replace("/", "-"))
    certificates.signing_key(folder / "service.key")
    certificates.issue(folder / "server-ca", folder / "serving", "serving", usage="server", names=["127.0.0.1"])
    passwords = {"server": ["one"], "node": ["one"]}
    made = supervisor.Supervisor(folder, passwords, {"cluster-cidr": "10.42.0.0/16"}, "first")
    port = made.serve("127.0.0.1", folder / "serving", port=0)
    return Joining("https://127.0.0.1:%d" % port, (folder / "server-ca.crt").read_text(), folder)


def test_the_authorities_need_no_password_and_must_fit_the_token(joining: Joining) -> None:
    digest = hashlib.sha256(joining.ca.encode()).hexdigest()
    for token in (client.Token("one"), client.Token("one", "server", digest)):
        assert client.authorities(joining.url, token) == joining.ca
    with pytest.raises(client.RequestError, match="token CA hash does not match the Cluster CA certificate hash: aaa"):
        client.authorities(joining.url, client.Token("one", "server", "a" * 64))


def test_an_unreachable_server_is_reported_in_rke2s_words(joining: Joining) -> None:
    with pytest.raises(client.RequestError) as caught:
        client.authorities("https://127.0.0.1:1", client.Token("one"))
    assert str(caught.value) == (
        'failed to get CA certs: Get "https://127.0.0.1:1/cacerts": dial tcp 127.0.0.1:1: connect: connection refused'
    )


@pytest.mark.parametrize(
    "path, user, password, status",
    [
        ("/v1-rke2/config", "", "", 401),
        ("/v1-rke2/config", "node", "wrong", 401),
        ("/v1-rke2/config", "other", "one", 401),
        ("/v1-rke2/nothing", "node", "one", 404),
        ("/v1-rke2/readyz", "node", "one", 500),
        ("/v1-rke2/client-kubelet.crt", "node", "one", 400),
    ],
)
def test_requests_are_refused(joining: Joining, path: str, user: str, password: str, status: int) -> None:
    with pytest.raises(client.RequestError) as caught:
        joining.get(path, user, password)
    assert caught.value.status == status


@pytest.mark.parametrize(
    "name, token, answers, words",
    [
        ("127.0.0.1", "K10{hash}::server:one", [200, 500], ""),  # 500: the API server is not ready
        ("127.0.0.1", "K10{hash}::node:one", [200, 500], ""),
        ("127.0.0.1", "K10{hash}::node:wrong", [200, 401], "rejects rke2_token"),
        ("127.0.0.1", "K10%s::server:one" % ("0" * 64), [200], "belongs to another cluster"),
        # Nodes have certificates of the same authority, but not for the address of a server.
        ("localhost", "K10{hash}::node:wrong", [200, 0], ""),
    ],
)
def test_the_role_sends_a_token_only_to_a_server_that_it_fits(
    joining: Joining, name: str, token: str, answers: t.Sequence[int], words: str
) -> None:
    found = []

    def fetch(*arguments: t.Any) -> t.Tuple[int, bytes]:
        found.append(rke2_server.fetch(*arguments))
        return found[-1]

    given = token.format(hash=hashlib.sha256(joining.ca.encode()).hexdigest())
    problems = rke2_server.token_problems(joining.url.replace("127.0.0.1", name), given, fetch)
    assert words in "".join(problems) and bool(problems) == bool(words)
    assert [status for status, _content in found] == answers


def test_the_role_gets_no_answer_of_a_server_with_other_certificates(joining: Joining, tmp_path: Path) -> None:
    certificates.authority(tmp_path / "other", "other-ca")
    other = (tmp_path / "other.crt").read_bytes()
    assert rke2_server.fetch(joining.url + "/cacerts", {}, other) == (0, b"")


def test_before_the_api_server_is_ready_only_the_servers_own_node_gets_a_certificate(joining: Joining) -> None:
    def ask(name: str) -> x509.Certificate:
        headers = {"rke2_Node_Name": name, "rke2_Node_Password": "x", "rke2_Node_IP": "192.0.2.7"}
        return x509.load_pem_x509_certificate(joining.get("/v1-rke2/serving-kubelet.crt", "node", "one", **headers))

    with pytest.raises(client.RequestError, match="503"):
        ask("second")
    names = ask("first").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["first", "localhost"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "192.0.2.7"]


# --- containerd -------------------------------------------------------------------------------------------------------


@pytest.fixture
def node(tmp_path: Path) -> containerd.Node:
    made = containerd.Node(data=tmp_path, pause="index.docker.io/pause:1", runtimes=[NVIDIA])
    made.folder.mkdir(parents=True)
    return made


def tables(text: str) -> t.List[str]:
    return [line for line in text.splitlines() if line.startswith("[")]


def test_a_template_of_the_administrator_extends_the_base(node: containerd.Node) -> None:
    path = node.folder / "config-v3.toml.tmpl"
    path.write_text('{{/* ours */}}{{ template "base" . }}\n[debug]\n  level = "debug"\n')
    text, template = containerd.render(node)
    assert template == path
    assert text == containerd.base(node) + '\n[debug]\n  level = "debug"\n'


def test_a_table_of_the_template_that_the_base_has_appears_twice(node: containerd.Node) -> None:
    """containerd then refuses to start, as with rke2."""
    table = "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia']"
    (node.folder / "config-v3.toml.tmpl").write_text('{{ template "base" . }}\n%s\n' % table)
    assert tables(containerd.render(node)[0]).count(table) == 2


def test_other_actions_of_templates_are_refused(node: containerd.Node) -> None:
    (node.folder / "config-v3.toml.tmpl").write_text("a = 1\n{{ .NodeConfig }}\n")
    with pytest.raises(containerd.TemplateError, match="compiled_template:2: .*[.]NodeConfig"):
        containerd.render(node)


# --- Releases ---------------------------------------------------------------------------------------------------------


def test_packages_have_the_files_of_the_originals(tmp_path: Path) -> None:
    common, server, agent = rke2.rpm_packages(rke2.RELEASES[-1], tmp_path / "work")
    assert (common.name, common.version, common.depends) == ("rke2-common", "1.36.3~rke2r1-0.el9", "rke2-selinux")
    programs = ["rke2", "rke2-killall.sh", "rke2-uninstall.sh"]
    assert sorted(common.files) == [*("usr/bin/" + name for name in programs), "usr/share/rke2/rke2-cis-sysctl.conf"]
    for role, package in (("server", server), ("agent", agent)):
        assert package.depends == "rke2-common = 1.36.3~rke2r1-0.el9"
        assert sorted(package.files) == ["etc/sysconfig/rke2-" + role, "usr/lib/systemd/system/rke2-%s.service" % role]
        assert "ExecStart=/usr/bin/rke2 %s\n" % role in package.files[sorted(package.files)[1]].read_text()


def test_a_tarball_has_the_files_of_the_original(tmp_path: Path) -> None:
    content = rke2.tarball(rke2.RELEASES[-1], tmp_path)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        modes = {entry.name: entry.mode for entry in archive if entry.isfile()}
        server = t.cast(t.IO[bytes], archive.extractfile("lib/systemd/system/rke2-server.service")).read().decode()
    assert modes == {
        "bin/rke2": 0o755,
        "bin/rke2-killall.sh": 0o755,
        "bin/rke2-uninstall.sh": 0o755,
        "lib/systemd/system/rke2-agent.env": 0o644,
        "lib/systemd/system/rke2-agent.service": 0o644,
        "lib/systemd/system/rke2-server.env": 0o644,
        "lib/systemd/system/rke2-server.service": 0o644,
        "share/rke2/rke2-cis-sysctl.conf": 0o644,
    }
    assert "ExecStart=/usr/local/bin/rke2 server\n" in server and "--quiet rke2-agent.service" in server
    assert "$" not in server
