# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server of a cluster: the control plane, the supervisor, and the runtime classes."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import pkgutil
import re
import secrets
import time
import typing as t
from pathlib import Path

from . import certificates, client, release
from .agent import API_PORT, Agent, kubeconfig, link, write
from .processes import Daemon, fatal, info, repeat, run
from .supervisor import Supervisor

ADMINISTRATORS = "system:masters"
FAST_ELECTION = (
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
)
CLUSTER_CIDR, SERVICE_CIDR, DOMAIN = "10.42.0.0/16", "10.43.0.0/16", "cluster.local"
RUNTIME_CLASSES = "rke2-runtimeclasses.yaml"
BOOTSTRAP_TOKEN = re.compile("[a-z0-9]{6}[.][a-z0-9]{16}")
ROLES = ("control-plane", "etcd")
READY = 300


def password_of(token: str) -> str:
    if BOOTSTRAP_TOKEN.fullmatch(token):
        fatal(
            "Error: preparing server: failed to normalize server token; must be in format"
            " K10<CA-HASH>::<USERNAME>:<PASSWORD> or <PASSWORD>"
        )
    try:
        return client.parse_token(token).password
    except client.RequestError as problem:
        fatal("Error: preparing server: %s" % problem)


class Server:
    def __init__(self, settings: t.Dict[str, t.Any]) -> None:
        self.settings = settings
        self.data = Path(settings["data-dir"])
        self.folder = self.data / "server"
        self.tls = self.folder / "tls"
        self.etcd_data = self.folder / "db" / "etcd"
        self.daemons: t.List[Daemon] = []
        self._api: t.Optional[client.Api] = None
        self.token = self.choose_token()
        self.service_address = first_address(SERVICE_CIDR, 1)
        agent_url = "https://127.0.0.1:9345"
        self.agent = Agent(settings, True, "K10%s::server:%s" % ("0" * 64, self.token), agent_url)
        self.url = "https://127.0.0.1:%d" % API_PORT
        self.programs = self.agent.bin.parent / "standin"
        self.config = {
            "cluster-cidr": CLUSTER_CIDR,
            "cluster-dns": [first_address(SERVICE_CIDR, 10)],
            "cluster-domain": DOMAIN,
        }
        self._classes_applied = False

    # --- Tokens and authorities ---------------------------------------------------------------------------------------

    def choose_token(self) -> str:
        """The password of the cluster: given, from an earlier start, or new."""
        given, record = self.settings["token"], self.folder / "token"
        if record.exists():
            known = password_of(record.read_text().strip())
            if given and password_of(given) != known:
                fatal(
                    "Error: preparing server: failed to bootstrap cluster data: failed to reconcile with local datastore:"
                    " bootstrap data already found and encrypted with different token"
                )
            return known
        return password_of(given) if given else secrets.token_hex(16)

    def make_authorities(self) -> None:
        for name, subject in (
            ("server-ca", "rke2-server-ca"),
            ("client-ca", "rke2-client-ca"),
            ("request-header-ca", "rke2-request-header-ca"),
            ("etcd/server-ca", "etcd-server-ca"),
            ("etcd/peer-ca", "etcd-peer-ca"),
        ):
            certificates.authority(self.tls / name, subject)
        certificates.signing_key(self.tls / "service.key")

    def write_tokens(self) -> None:
        start = "K10%s::" % sha256((self.tls / "server-ca.crt").read_bytes())
        write(self.folder / "token", "%sserver:%s\n" % (start, self.token))
        link(self.folder / "node-token", self.folder / "token")
        link(self.folder / "agent-token", self.folder / "token")

    def issue(self) -> None:
        names = ["kubernetes" + rest for rest in ("", ".default", ".default.svc", ".default.svc." + DOMAIN)]
        names += ["localhost", "127.0.0.1", self.agent.name, self.agent.address, self.service_address]
        names += [part for each in self.settings["tls-san"] for part in each.split(",")]
        tls, servers, clients = self.tls, self.tls / "server-ca", self.tls / "client-ca"
        for path, user, group in (
            ("client-admin", "system:admin", ADMINISTRATORS),
            ("client-supervisor", "system:rke2-supervisor", ADMINISTRATORS),
            ("client-controller", "system:kube-controller-manager", ""),
            ("client-scheduler", "system:kube-scheduler", ""),
            ("client-kube-apiserver", "system:apiserver", ADMINISTRATORS),
        ):
            certificates.issue(clients, tls / path, user, group)
        certificates.issue(servers, tls / "serving-kube-apiserver", "kube-apiserver", usage="server", names=names)
        local = ["localhost", "127.0.0.1", self.agent.name, self.agent.address]
        certificates.issue(tls / "etcd/server-ca", tls / "etcd/client", "etcd-client")
        certificates.issue(tls / "etcd/server-ca", tls / "etcd/server-client", "etcd-server", "", "both", local)
        certificates.issue(tls / "etcd/peer-ca", tls / "etcd/peer-server-client", "etcd-peer", "", "both", local)

    # --- The control plane --------------------------------------------------------------------------------------------

    def etcd(self) -> Daemon:
        own, address = "https://%s:2380" % self.agent.address, self.agent.address
        tls = self.tls / "etcd"
        words = [
            str(self.programs / "etcd"),
            "--name=" + self.agent.name,
            "--data-dir=%s" % self.etcd_data,
            "--unsafe-no-fsync",
            "--listen-client-urls=https://127.0.0.1:2379,https://%s:2379" % address,
            "--advertise-client-urls=https://%s:2379" % address,
            "--client-cert-auth",
            "--trusted-ca-file=%s/server-ca.crt" % tls,
            "--cert-file=%s/server-client.crt" % tls,
            "--key-file=%s/server-client.key" % tls,
            "--listen-peer-urls=" + own,
            "--initial-advertise-peer-urls=" + own,
            "--initial-cluster=%s=%s" % (self.agent.name, own),
            "--peer-client-cert-auth",
            "--peer-trusted-ca-file=%s/peer-ca.crt" % tls,
            "--peer-cert-file=%s/peer-server-client.crt" % tls,
            "--peer-key-file=%s/peer-server-client.key" % tls,
        ]
        return Daemon("etcd", words, self.agent.path, self.agent.logs)

    def api_server(self) -> Daemon:
        tls = self.tls
        words = [
            str(self.programs / "kube-apiserver"),
            "--advertise-address=%s" % self.agent.address,
            "--bind-address=0.0.0.0",
            "--secure-port=%d" % API_PORT,
            "--tls-cert-file=%s/serving-kube-apiserver.crt" % tls,
            "--tls-private-key-file=%s/serving-kube-apiserver.key" % tls,
            "--allow-privileged=true",
            "--anonymous-auth=false",
            "--client-ca-file=%s/client-ca.crt" % tls,
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--etcd-servers=https://127.0.0.1:2379",
            "--etcd-cafile=%s/etcd/server-ca.crt" % tls,
            "--etcd-certfile=%s/etcd/client.crt" % tls,
            "--etcd-keyfile=%s/etcd/client.key" % tls,
            "--kubelet-certificate-authority=%s/server-ca.crt" % tls,
            "--kubelet-client-certificate=%s/client-kube-apiserver.crt" % tls,
            "--kubelet-client-key=%s/client-kube-apiserver.key" % tls,
            "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
            "--service-account-issuer=https://kubernetes.default.svc." + DOMAIN,
            "--service-account-key-file=%s/service.key" % tls,
            "--service-account-signing-key-file=%s/service.key" % tls,
            "--service-cluster-ip-range=" + SERVICE_CIDR,
        ]
        return Daemon("kube-apiserver", words, self.agent.path, self.agent.logs)

    def component(self, name: str, user: str, words: t.Sequence[str]) -> Daemon:
        path = self.folder / "cred" / (name + ".kubeconfig")
        pair = "%s/%s" % (self.tls, user)
        write(path, kubeconfig("%s/server-ca.crt" % self.tls, pair + ".crt", pair + ".key"))
        everything = [str(self.programs / name), "--kubeconfig=%s" % path, *words]
        return Daemon(name, everything, self.agent.path, self.agent.logs)

    def control_plane(self) -> t.Iterator[Daemon]:
        yield self.api_server()
        signing = []
        for kind, name in (
            ("kube-apiserver-client", "client"),
            ("kubelet-client", "client"),
            ("kubelet-serving", "server"),
        ):
            for file, end in (("cert", "crt"), ("key", "key")):
                signing.append("--cluster-signing-%s-%s-file=%s/%s-ca.%s" % (kind, file, self.tls, name, end))
        yield self.component(
            "kube-controller-manager",
            "client-controller",
            [
                "--bind-address=127.0.0.1",
                "--use-service-account-credentials=true",
                "--service-account-private-key-file=%s/service.key" % self.tls,
                "--root-ca-file=%s/server-ca.crt" % self.tls,
                "--allocate-node-cidrs=true",
                "--cluster-cidr=" + CLUSTER_CIDR,
                "--service-cluster-ip-range=" + SERVICE_CIDR,
                *signing,
                *FAST_ELECTION,
            ],
        )
        yield self.component("kube-scheduler", "client-scheduler", ["--bind-address=127.0.0.1", *FAST_ELECTION])
        words = ["--node-name=" + self.agent.name, "--default-job-image=" + release.HELM_JOB, "--threads=2"]
        yield self.component("helm-controller", "client-supervisor", words)

    def admin_api(self) -> client.Api:
        if not self._api:
            self._api = client.Api(self.url, self.tls / "server-ca.crt", self.tls / "client-supervisor")
        return self._api

    def wait_for_api(self) -> client.Api:
        api = self.admin_api()
        deadline = time.monotonic() + READY
        logged = 0.0
        while time.monotonic() < deadline:
            try:
                api.get("/readyz")
                return api
            except client.RequestError as problem:
                if time.monotonic() - logged > 10:
                    logged = time.monotonic()
                    info("Waiting for API server to become available: %s" % problem)
            time.sleep(0.3)
        fatal("Error: API server did not become ready in %d seconds; see %s" % (READY, self.agent.logs))

    def write_kubeconfig(self) -> None:
        def data(name: str) -> str:
            return base64.b64encode((self.tls / name).read_bytes()).decode()

        path = Path("/etc/rancher/rke2/rke2.yaml")
        text = kubeconfig(data("server-ca.crt"), data("client-admin.crt"), data("client-admin.key"), self.url)
        write(path, text, int(self.settings["write-kubeconfig-mode"], 8))
        info("Wrote kubeconfig %s" % path)

    # --- All of it ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.make_authorities()
        self.write_tokens()
        self.issue()
        passwords = {"server": [self.token], "node": [self.token]}
        supervisor = Supervisor(self.tls, passwords, self.config, self.agent.name)
        supervisor.serve("0.0.0.0", self.tls / "serving-kube-apiserver")
        self.daemons.append(self.etcd())
        self.daemons += self.control_plane()
        for daemon in self.daemons:
            repeat(daemon.ensure, 2)
        self.write_kubeconfig()
        self.agent.token = client.parse_token((self.folder / "token").read_text().strip())
        supervisor.ready(self.wait_for_api())
        info("Kube API server is now running")
        self.agent.start()
        self.agent.wait_for_node()
        repeat(self.label, 15)
        repeat(self.apply_runtime_classes, 5)

    def label(self) -> None:
        """The roles of this server's node, which its kubelet must not set itself."""
        labels = {"node-role.kubernetes.io/" + role: "true" for role in ROLES}
        api, path = self.admin_api(), "/api/v1/nodes/" + self.agent.name
        known = api.get(path)["metadata"].get("labels", {})
        if {name: known.get(name) for name in labels} != labels:
            api.merge(path, {"metadata": {"labels": labels}})

    def apply_runtime_classes(self) -> None:
        if not self._classes_applied:
            kubectl, manifest = (
                self.agent.bin / "kubectl",
                pkgutil.get_data(__name__.rpartition(".")[0], RUNTIME_CLASSES),
            )
            words = ["--kubeconfig=/etc/rancher/rke2/rke2.yaml", "apply", "--server-side", "--force-conflicts"]
            run(kubectl, *words, "--filename=-", input=(manifest or b"").decode())
            self._classes_applied = True


def first_address(subnet: str, number: int) -> str:
    return str(ipaddress.ip_network(subnet)[number])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
