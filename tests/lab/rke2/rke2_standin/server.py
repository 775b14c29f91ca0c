# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server: the control plane, the supervisor, and cluster-wide tasks."""

from __future__ import annotations

import base64
import grp
import hashlib
import ipaddress
import json
import os
import pwd
import re
import secrets
import time
import typing as t
import urllib.parse
from pathlib import Path

from . import certificates, client, manifests
from .agent import API_PORT, Agent, key_values, kubeconfig, link, write
from .processes import Daemon, fatal, info, log, repeat
from .supervisor import Supervisor

ADMINISTRATORS = "system:masters"
FAST_ELECTION = (
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=5s",
    "--leader-elect-retry-period=1s",
)
# Must be equal on all servers.
CRITICAL = (
    "cluster-cidr",
    "service-cidr",
    "cluster-dns",
    "cluster-domain",
    "disable-kube-proxy",
    "egress-selector-mode",
)
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
        self.members = ""  # of etcd, if this server joins
        self.token = self.choose_token()
        self.service_address = first_address(settings["service-cidr"][0], 1)
        agent_url = "https://127.0.0.1:9345"
        self.agent = Agent(settings, True, "K10%s::server:%s" % ("0" * 64, self.token), agent_url)
        self.url = "https://127.0.0.1:%d" % API_PORT
        self.programs = self.agent.bin.parent / "standin"
        self.config = {
            "cluster-cidr": settings["cluster-cidr"][0],
            "service-cidr": settings["service-cidr"][0],
            "cluster-dns": settings.get("cluster-dns") or [first_address(settings["service-cidr"][0], 10)],
            "cluster-domain": settings["cluster-domain"],
            "cni": [name for each in settings["cni"] for name in each.split(",")],
            "disable-kube-proxy": settings.get("disable-kube-proxy", False),
            "egress-selector-mode": settings["egress-selector-mode"],
        }

    # --- Tokens and authorities ---------------------------------------------------------------------------------------

    def choose_token(self) -> str:
        """The password of the cluster: given, from an earlier start, or new."""
        given, record = self.settings.get("token", ""), self.folder / "token"
        if record.exists():
            known = password_of(record.read_text().strip())
            if given and password_of(given) != known:
                fatal(
                    "Error: preparing server: failed to bootstrap cluster data: failed to reconcile with local datastore:"
                    " bootstrap data already found and encrypted with different token"
                )
            return known
        if given:
            return password_of(given)
        if self.settings.get("server"):
            fatal("Error: preparing server: token must not be empty")
        return secrets.token_hex(16)

    def join_first(self) -> None:
        """Get the authorities of the cluster from the server that the settings name."""
        url = self.settings["server"].rstrip("/")
        token = self.settings.get("token", "")
        info("Managed etcd cluster not yet initialized")
        begin = "Error: preparing server: "
        try:
            text = client.authorities(url, client.parse_token(token))
        except client.RequestError as problem:
            fatal(
                begin
                + "failed to bootstrap cluster data: failed to check if bootstrap data has been initialized: failed"
                " to validate token: %s" % problem
            )
        headers = client.basic("server", self.token)
        try:
            theirs = json.loads(client.send(url + "/v1-rke2/config", client.context(text), headers=headers))
        except client.RequestError as problem:
            fatal(begin + "failed to validate server configuration: %s" % problem)
        different = [name for name in CRITICAL if theirs.get(name) != self.config[name]]
        if different:
            for name in different:
                log(
                    "error",
                    "critical configuration mismatched: %s: %s != %s" % (name, theirs.get(name), self.config[name]),
                )
            fatal(
                begin + "failed to validate server configuration: critical configuration value mismatch between servers"
            )
        try:
            answer = json.loads(client.send(url + "/v1-rke2/server-bootstrap", client.context(text), headers=headers))
        except client.RequestError as problem:
            fatal(begin + "failed to bootstrap cluster data: %s" % problem)
        for name, content in answer.items():
            write(self.tls / name, content)

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
        given = self.settings.get("agent-token")
        path = self.folder / "agent-token"
        if given:
            if path.is_symlink():
                path.unlink()
            write(path, "%snode:%s\n" % (start, client.parse_token(given).password))
        else:
            link(path, self.folder / "token")

    def issue(self) -> None:
        domain = self.settings["cluster-domain"]
        names = ["kubernetes" + rest for rest in ("", ".default", ".default.svc", ".default.svc." + domain)]
        names += ["localhost", "127.0.0.1", self.agent.name, self.agent.address, self.service_address]
        names += [part for each in self.settings.get("tls-san", ()) for part in each.split(",")]
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

    # --- etcd ---------------------------------------------------------------------------------------------------------

    def etcd_api(self, host: str) -> client.Api:
        return client.Api("https://%s:2379" % host, self.tls / "etcd/server-ca.crt", self.tls / "etcd/client")

    def etcd_name(self) -> str:
        path = self.folder / "db" / "name"
        if not path.exists():
            write(path, "%s-%s" % (self.agent.name, secrets.token_hex(4)))
        return path.read_text()

    def join_etcd(self) -> None:
        """Join etcd as a learner, which does not vote yet."""
        host = t.cast(str, urllib.parse.urlsplit(self.settings["server"]).hostname)
        own = "https://%s:2380" % self.agent.address
        api = self.etcd_api(host)
        begin = "Error: preparing server: failed to join etcd cluster: "
        try:
            members = api.request("POST", "/v3/cluster/member/list", {})["members"]
            for member in members:
                if own in member.get("peerURLs", ()) and not member.get("name"):
                    break  # of an earlier attempt
                if own in member.get("peerURLs", ()):
                    fatal(begin + "duplicate node name found, please use a unique name for this node")
            else:
                members = api.request("POST", "/v3/cluster/member/add", {"peerURLs": [own], "isLearner": True})[
                    "members"
                ]
        except client.RequestError as problem:
            fatal(begin + str(problem))
        info("Adding member %s=%s to etcd cluster" % (self.etcd_name(), own))
        named = ((each.get("name") or self.etcd_name(), each["peerURLs"][0]) for each in members)
        self.members = ",".join("%s=%s" % pair for pair in named)

    def promote(self) -> None:
        """Make this member a voter, as soon as it has all data."""
        record = self.folder / "db" / "promoted"
        if not self.settings.get("server") or record.exists():
            return
        api = self.etcd_api(t.cast(str, urllib.parse.urlsplit(self.settings["server"]).hostname))
        deadline = time.monotonic() + READY
        while time.monotonic() < deadline:
            try:
                members = api.request("POST", "/v3/cluster/member/list", {})["members"]
                own = next(each for each in members if each.get("name") == self.etcd_name())
                if own.get("isLearner"):
                    api.request("POST", "/v3/cluster/member/promote", {"ID": own["ID"]})
                    info("Promoted learner %s" % self.etcd_name())
                write(record, "")
                return
            except (client.RequestError, StopIteration) as problem:
                log("debug", "Waiting for etcd to be promoted: %s" % problem)
            time.sleep(0.5)
        fatal("Error: etcd cluster join failed: the learner was not promoted in %d seconds" % READY)

    def remove_member(self, node: str) -> None:
        """Remove a deleted node from etcd."""
        api = self.etcd_api("127.0.0.1")
        for member in api.request("POST", "/v3/cluster/member/list", {})["members"]:
            if re.fullmatch(re.escape(node) + "-[0-9a-f]{8}", member.get("name", "")):
                info("Removing name=%s id=%s address=%s from etcd" % (member["name"], member["ID"], member["peerURLs"]))
                api.request("POST", "/v3/cluster/member/remove", {"ID": member["ID"]})

    def etcd(self) -> Daemon:
        own, address = "https://%s:2380" % self.agent.address, self.agent.address
        tls = self.tls / "etcd"
        words = [
            str(self.programs / "etcd"),
            "--name=" + self.etcd_name(),
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
            "--peer-client-cert-auth",
            "--peer-trusted-ca-file=%s/peer-ca.crt" % tls,
            "--peer-cert-file=%s/peer-server-client.crt" % tls,
            "--peer-key-file=%s/peer-server-client.key" % tls,
        ]
        # etcd uses these only if it has no data, but the arguments of a running member must not change.
        record = self.folder / "db" / "initial"
        if not record.exists():
            members = self.members or "%s=%s" % (self.etcd_name(), own)
            state = "existing" if self.members else "new"
            write(record, "--initial-cluster=%s\n--initial-cluster-state=%s\n" % (members, state))
        words += record.read_text().split()
        words += key_values(self.settings.get("etcd-arg", ()))
        return Daemon("etcd", words, self.agent.path, self.agent.logs)

    # --- The control plane --------------------------------------------------------------------------------------------

    def api_server(self) -> Daemon:
        tls = self.tls
        words = [
            str(self.programs / "kube-apiserver"),
            "--advertise-address=%s" % self.settings.get("advertise-address", self.agent.address),
            "--bind-address=%s" % self.settings.get("bind-address", "0.0.0.0"),
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
            "--service-account-issuer=https://kubernetes.default.svc." + self.settings["cluster-domain"],
            "--service-account-key-file=%s/service.key" % tls,
            "--service-account-signing-key-file=%s/service.key" % tls,
            "--service-cluster-ip-range=" + self.config["service-cidr"],
            "--service-node-port-range=" + self.settings["service-node-port-range"],
        ]
        if self.settings.get("profile", "").startswith("cis"):
            words.append("--admission-control-config-file=%s" % self.pod_security())
        words += key_values(self.settings.get("kube-apiserver-arg", ()))
        return Daemon("kube-apiserver", words, self.agent.path, self.agent.logs)

    def pod_security(self) -> Path:
        """The profile cis: pods are restricted, except in the namespaces of the system."""
        given = self.settings.get("pod-security-admission-config-file")
        if given:
            return Path(given)
        try:
            pwd.getpwnam("etcd"), grp.getgrnam("etcd")
        except KeyError:
            fatal("missing required: user: unknown user etcd\nmissing required: group: unknown group etcd")
        levels = {
            "%s%s" % (mode, rest): value
            for mode in ("enforce", "audit", "warn")
            for rest, value in (("", "restricted"), ("-version", "latest"))
        }
        spaces = ["kube-system", "compliance-operator-system", "tigera-operator"]
        plugin = {
            "name": "PodSecurity",
            "configuration": {
                "apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration",
                "defaults": levels,
                "exemptions": {"usernames": [], "runtimeClasses": [], "namespaces": spaces},
            },
        }
        config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [plugin]}
        path = Path("/etc/rancher/rke2/rke2-pss.yaml")
        write(path, json.dumps(config, indent=2) + "\n")
        return path

    def component(self, name: str, user: str, words: t.Sequence[str]) -> Daemon:
        path = self.folder / "cred" / (name + ".kubeconfig")
        pair = "%s/%s" % (self.tls, user)
        write(path, kubeconfig("%s/server-ca.crt" % self.tls, pair + ".crt", pair + ".key"))
        given = key_values(self.settings.get(name + "-arg", ()))
        everything = [str(self.programs / name), "--kubeconfig=%s" % path, *words, *given]
        return Daemon(name, everything, self.agent.path, self.agent.logs)

    def control_plane(self) -> t.Iterator[Daemon]:
        yield self.api_server()
        if not self.settings.get("disable-controller-manager"):
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
                    "--cluster-cidr=" + self.config["cluster-cidr"],
                    "--service-cluster-ip-range=" + self.config["service-cidr"],
                    *signing,
                    *FAST_ELECTION,
                ],
            )
        if not self.settings.get("disable-scheduler"):
            yield self.component("kube-scheduler", "client-scheduler", ["--bind-address=127.0.0.1", *FAST_ELECTION])

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

        path, default = Path(self.settings["write-kubeconfig"]), Path("/etc/rancher/rke2/rke2.yaml")
        text = kubeconfig(data("server-ca.crt"), data("client-admin.crt"), data("client-admin.key"), self.url)
        try:
            mode = int(self.settings["write-kubeconfig-mode"], 8)
        except ValueError:
            log("error", "Failed to parse --write-kubeconfig-mode %s" % self.settings["write-kubeconfig-mode"])
            mode = 0o600
        if default.is_symlink():
            default.unlink()
        write(path, text, mode)
        if path != default:
            default.unlink(missing_ok=True)
            default.symlink_to(path)
        group = self.settings.get("write-kubeconfig-group")
        if group:
            try:
                os.chown(path, -1, int(group) if group.isdigit() else grp.getgrnam(group).gr_gid)
            except KeyError:
                log("error", "Failed to set %s to group %s: unknown group" % (path, group))
        info("Wrote kubeconfig %s" % path)

    # --- All of it ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        joins = bool(self.settings.get("server")) and not self.etcd_data.exists()
        if joins:
            self.join_first()
        self.make_authorities()
        self.write_tokens()
        self.issue()
        agent_token = self.settings.get("agent-token")
        agents = [self.token, *([client.parse_token(agent_token).password] if agent_token else [])]
        passwords = {"server": [self.token], "node": agents}
        supervisor = Supervisor(self.tls, passwords, self.config, self.agent.name)
        supervisor.serve(self.settings.get("bind-address", "0.0.0.0"), self.tls / "serving-kube-apiserver")
        if joins:
            self.join_etcd()
        self.daemons.append(self.etcd())
        self.daemons[0].ensure()
        repeat(self.daemons[0].ensure, 2)  # a new member ends if it cannot reach the others at once
        self.promote()
        self.daemons += self.control_plane()
        for daemon in self.daemons[1:]:
            repeat(daemon.ensure, 2)
        self.write_kubeconfig()
        self.agent.token = client.parse_token((self.folder / "token").read_text().strip())
        supervisor.ready(self.wait_for_api())
        info("Kube API server is now running")
        self.agent.start()
        self.agent.wait_for_node()
        repeat(self.label, 15)
        manifests.Deployer(self).start()

    def label(self) -> None:
        """The roles of this server's node, which its kubelet must not set itself."""
        labels = {"node-role.kubernetes.io/" + role: "true" for role in ROLES}
        api, path = self.admin_api(), "/api/v1/nodes/" + self.agent.name
        known = api.get(path)["metadata"].get("labels", {})
        if {name: known.get(name) for name in labels} != labels:
            api.merge(path, {"metadata": {"labels": labels}})

    def leads(self) -> bool:
        """Whether this server performs the cluster-wide tasks."""
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
        holder = self.admin_api().get(path)["spec"].get("holderIdentity") or ""
        return t.cast(str, holder).rpartition("_")[0] == os.uname().nodename


def first_address(subnet: str, number: int) -> str:
    return str(ipaddress.ip_network(subnet)[number])


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
