# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's cluster: builds, credentials of nodes, and images for pods."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import tarfile
import typing as t
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature

LAB = str(Path(__file__).resolve().parents[3] / "tests" / "lab")
sys.path.insert(0, LAB)
try:
    from gpulab import cluster_files, podimages, programs
    from gpulab.nodes import Node
finally:
    sys.path.remove(LAB)

SERVER = Node("gpufleet-one", "192.0.2.11", "", True)
OTHER = Node("gpufleet-two", "192.0.2.12", "", True)

UPSTREAM = """module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
    go.uber.org/zap v1.27.0
    k8s.io/api v0.0.0
    k8s.io/klog/v2 v2.140.0
)
"""


def test_kubernetes_is_built_with_its_own_parts_at_the_matching_version() -> None:
    lines = programs.go_mod(UPSTREAM).splitlines()
    assert lines[1:] == [
        "go 1.26.0",
        "godebug default=go1.26",
        "require k8s.io/api v0.36.3",
        "replace k8s.io/api => k8s.io/api v0.36.3",
    ]


def written() -> t.Dict[str, cluster_files.File]:
    credentials = cluster_files.Credentials(SERVER)
    return {file.path: file for file in [*credentials.control_plane(), *credentials.kubelet(SERVER)]}


def test_only_root_can_read_keys() -> None:
    files = written()
    assert sum("PRIVATE KEY" in file.text for file in files.values()) == 7
    for file in files.values():
        secret = "PRIVATE KEY" in file.text or "client-key-data" in file.text
        assert file.mode == (0o600 if secret else 0o644), file.path


def test_a_kubelet_identifies_as_its_node() -> None:
    config = json.loads(written()["/etc/kubernetes/kubelet.conf"].text)
    assert config["clusters"][0]["cluster"]["server"] == "https://192.0.2.11:6443"
    certificate = x509.load_pem_x509_certificate(
        base64.b64decode(config["users"][0]["user"]["client-certificate-data"])
    )
    assert certificate.subject.rfc4514_string() == "CN=system:node:gpufleet-one,O=system:nodes"
    of_another_cluster = x509.load_pem_x509_certificate(written()["/etc/kubernetes/pki/ca.crt"].text.encode())
    with pytest.raises(InvalidSignature):
        certificate.verify_directly_issued_by(of_another_cluster)


def test_certificates_are_valid_for_the_addresses_of_their_server() -> None:
    files = written()
    authority = x509.load_pem_x509_certificate(files["/etc/kubernetes/pki/ca.crt"].text.encode())
    certificate = x509.load_pem_x509_certificate(files["/etc/kubernetes/pki/apiserver.crt"].text.encode())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = [str(each) for each in names.get_values_for_type(x509.IPAddress)]
    assert addresses == ["127.0.0.1", "192.0.2.11", "10.96.0.1"]
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)


def test_nodes_have_different_addresses_for_pods() -> None:
    assert cluster_files.pod_subnet(SERVER) != cluster_files.pod_subnet(OTHER)
    assert cluster_files.pod_subnet(OTHER) in cluster_files.network(OTHER)


def test_an_image_is_complete_and_reproducible() -> None:
    files = [podimages.File("bin"), podimages.File("bin/tool", b"program"), podimages.File("bin/link", link="tool")]
    made = podimages.image("localhost/tool:1", files, ["tool"])
    assert made == podimages.image("localhost/tool:1", files, ["tool"])
    with tarfile.open(fileobj=io.BytesIO(made)) as archive:
        content = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]

    def blob(described: t.Dict[str, t.Any]) -> bytes:
        found = content[described["digest"].replace("sha256:", "blobs/sha256/")]
        assert len(found) == described["size"]
        assert "sha256:" + hashlib.sha256(found).hexdigest() == described["digest"]
        return found

    (described,) = json.loads(content["index.json"])["manifests"]
    assert described["annotations"] == {"io.containerd.image.name": "localhost/tool:1"}
    manifest = json.loads(blob(described))
    assert json.loads(blob(manifest["config"]))["config"]["Cmd"] == ["tool"]
    with tarfile.open(fileobj=io.BytesIO(blob(manifest["layers"][0]))) as layer:
        assert [each.name for each in layer] == ["bin", "bin/tool", "bin/link"]
