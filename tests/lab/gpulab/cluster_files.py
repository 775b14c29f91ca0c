# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a cluster's nodes: credentials, units and settings, at kubeadm's paths."""

from __future__ import annotations

import io
import json
import string
import tarfile
import time
import typing as t

from . import containerd, podimages
from .certificates import Authority, Pair, new_key, private_text, public_text
from .nodes import Node
from .places import HERE

FILES = HERE / "cluster"
ON_NODE = "/opt/gpufleet-kubernetes"  # places.PROGRAMS
PKI = "/etc/kubernetes/pki"
UNITS = "/etc/systemd/system/"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PORT = 6443
SERVICE_ADDRESS = "10.96.0.1"  # the API server's, the first of its --service-cluster-ip-range
ADMINISTRATORS = "system:masters"


class File(t.NamedTuple):
    """A file for a node; with ``link`` a symbolic link."""

    path: str
    text: str = ""
    mode: int = 0o644
    link: t.Optional[str] = None


class Credentials:
    """The authorities of a cluster, and the certificates that they issue."""

    def __init__(self, server: Node) -> None:
        self.url = "https://%s:%d" % (server.address, PORT)
        self.authority = Authority("kubernetes")
        self._server = server

    def kubeconfig(self, user: str, group: t.Optional[str] = None) -> str:
        return json.dumps(self.authority.kubeconfig(self.url, user, group), indent=2) + "\n"

    def control_plane(self) -> t.Iterator[File]:
        etcd, key = Authority("etcd-ca"), new_key()
        names = ["kubernetes" + rest for rest in ("", ".default", ".default.svc", ".default.svc.cluster.local")]
        local = ["localhost", "127.0.0.1"]
        server = self._server
        pairs = {
            "ca": self.authority.pair,
            "apiserver": self.authority.server(
                "kube-apiserver", [*names, *local, server.name, server.address, SERVICE_ADDRESS]
            ),
            "apiserver-kubelet-client": self.authority.client("kube-apiserver-kubelet-client", ADMINISTRATORS),
            "apiserver-etcd-client": etcd.client("kube-apiserver-etcd-client"),
            "etcd/server": etcd.member("etcd", local),
        }
        for name, pair in pairs.items():
            yield from pair_files("%s/%s" % (PKI, name), pair)
        yield File(PKI + "/etcd/ca.crt", etcd.pair.certificate)
        yield File(PKI + "/sa.pub", public_text(key))
        yield File(PKI + "/sa.key", private_text(key), 0o600)
        for name, user, group in (
            ("admin", "kubernetes-admin", ADMINISTRATORS),
            ("controller-manager", "system:kube-controller-manager", None),
            ("scheduler", "system:kube-scheduler", None),
        ):
            yield File("/etc/kubernetes/%s.conf" % name, self.kubeconfig(user, group), 0o600)
        for name in CONTROL_PLANE:
            yield unit(name)

    def kubelet(self, node: Node) -> t.Iterator[File]:
        yield File(PKI + "/ca.crt", self.authority.pair.certificate)
        yield File("/etc/kubernetes/kubelet.conf", self.kubeconfig("system:node:" + node.name, "system:nodes"), 0o600)
        yield File("/etc/kubernetes/kube-proxy.conf", self.kubeconfig("system:kube-proxy"), 0o600)
        yield from pair_files("/var/lib/kubelet/pki/kubelet", self.authority.server(node.name, [node.address]))


def pair_files(path: str, pair: Pair) -> t.List[File]:
    return [File(path + ".crt", pair.certificate), File(path + ".key", pair.key, 0o600)]


def unit(name: str) -> File:
    return File(UNITS + name + ".service", (FILES / (name + ".service")).read_text())


def pod_subnet(node: Node) -> str:
    """The addresses of a node's pods, derived from the node's address so that they differ between nodes."""
    return "10.244.%s.0/24" % node.address.rpartition(".")[2]


def network(node: Node) -> str:
    """The configuration of the pod network: a bridge on each node."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/cni",
        "ranges": [[{"subnet": pod_subnet(node)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return json.dumps({"cniVersion": "1.0.0", "name": "gpufleet", "plugins": [bridge]}, indent=2) + "\n"


def node_files(node: Node, members: t.Sequence[Node]) -> t.Iterator[File]:
    """A node's files other than credentials: containerd, network, kubelet."""
    for program in (*containerd.SOURCE.programs, "kubectl", "helm"):
        yield File("/usr/local/bin/" + program, link="%s/bin/%s" % (ON_NODE, program))
    yield File("/usr/local/sbin/runc", link="/opt/gpufleet-lab/bin/runc")
    yield File("/opt/cni/bin", link=ON_NODE + "/bin")
    yield File(UNITS + "containerd.service", containerd.unit())
    template = string.Template((FILES / "containerd.toml").read_text())
    yield File("/etc/containerd/config.toml", template.substitute(PAUSE=podimages.PAUSE))
    yield File("/etc/cni/net.d/10-gpufleet.conflist", network(node))
    others = [each for each in members if each.name != node.name]
    routes = ["route replace %s via %s\n" % (pod_subnet(each), each.address) for each in others]
    yield File("/etc/kubernetes/pod-routes", "".join(routes))
    yield File("/etc/kubernetes/environment", "ADDRESS=%s\n" % node.address)
    yield File("/var/lib/kubelet/config.yaml", (FILES / "kubelet.yaml").read_text())
    for name in ("pods", "kubelet", "kube-proxy"):
        yield unit(name)


def archive(files: t.Iterable[File]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for file in files:
            entry = tarfile.TarInfo(file.path.lstrip("/"))
            entry.mode, entry.mtime = file.mode, int(time.time())
            if file.link:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
            content = b"" if file.link else file.text.encode()
            entry.size = len(content)
            made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
