# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The components of every node: containerd, kubelet, kube-proxy, pod network."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import socketserver
import threading
import time
import typing as t
import urllib.parse
from pathlib import Path

from . import client, containerd, release
from .processes import Child, Daemon, fatal, info, log, repeat, run, stopping

LAB = Path("/opt/gpufleet-kubernetes")
LAB_NODE = Path("/opt/gpufleet-lab/bin")
STORE = Path("/var/lib/gpufleet-lab")  # not an overlay, unlike the node's other directories
NODE = Path("/etc/rancher/node")
NETWORKS = Path("/etc/cni/net.d")
ROUTES = "199"  # the protocol number of our routes
API_PORT = 6443
IPTABLES = LAB / "iptables"
# As in rke2's runtime image.
PROGRAMS = ("containerd", "containerd-shim-runc-v2", "crictl", "ctr", "kubectl", "kubelet")
PLUGINS = ("host-local", "loopback", "ptp")
SYSCTLS = (
    "kernel/keys/root_maxbytes kernel/keys/root_maxkeys kernel/panic kernel/panic_on_oops vm/overcommit_memory"
    " vm/panic_on_oom"
).split()
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst")
PAUSE = "index.docker.io/rancher/mirrored-pause:" + release.PAUSE
MARKER = "docker.io/rancher/rke2-runtime:" + release.VERSION.replace("+", "-")


def own_address() -> str:
    """The address of the interface with the default route, or the first address."""
    routes = json.loads(run("ip", "-json", "-4", "route", "show", "default").stdout or "[]")
    words = ["dev", routes[0]["dev"]] if routes and "dev" in routes[0] else []
    shown = json.loads(run("ip", "-json", "-4", "address", "show", "scope", "global", *words).stdout)
    for each in shown:
        for address in each.get("addr_info", ()):
            if not each["ifname"].startswith(("cni", "veth", "flannel", "kube")):
                return t.cast(str, address["local"])
    raise OSError("no address found: set node-ip")


def write(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file as a whole: the process may be killed at any time, and the next one reads the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    new.chmod(mode)
    new.replace(path)


def link(path: Path, target: Path) -> None:
    if path.is_symlink() or path.exists():
        if path.is_symlink() and os.readlink(path) == str(target):
            return
        path.unlink()
    path.symlink_to(target)


def key_values(values: t.Iterable[str]) -> t.List[str]:
    """The administrator's additional arguments for a component."""
    return ["--" + each.lstrip("-") for each in values]


def kubeconfig(ca: str, certificate: str, key: str, url: str = "https://127.0.0.1:%d" % API_PORT) -> str:
    """A kubeconfig with files, or with base64 data if the names do not start with a slash."""

    def word(name: str, value: str) -> str:
        return "%s%s: %s" % (name, "" if value.startswith("/") else "-data", value)

    return """apiVersion: v1
clusters:
- cluster:
    {ca}
    server: {url}
  name: default
contexts:
- context:
    cluster: default
    user: default
  name: default
current-context: default
kind: Config
preferences: {{}}
users:
- name: default
  user:
    {certificate}
    {key}
""".format(
        ca=word("certificate-authority", ca),
        url=url,
        certificate=word("client-certificate", certificate),
        key=word("client-key", key),
    )


def secret(path: Path, size: int) -> str:
    if not path.exists():
        write(path, os.urandom(size).hex() + "\n")
    return path.read_text().strip()


class Agent:
    def __init__(self, settings: t.Mapping[str, t.Any], is_server: bool, token: str, url: str) -> None:
        self.settings, self.is_server, self.url = settings, is_server, url.rstrip("/")
        self.token = client.parse_token(token)
        self.data = Path(settings["data-dir"])
        self.folder = self.data / "agent"
        self.logs = self.folder / "logs"
        self.name = t.cast(str, settings["node-name"] or socket.gethostname()).lower()
        addresses = [part for each in settings["node-ip"] for part in each.split(",")]
        self.address = addresses[0] if addresses else own_address()
        self.bin = stage(self.data)
        self.path = "%s:%s" % (self.bin, os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
        self.config: t.Dict[str, t.Any] = {}
        self.children: t.List[Child] = []
        self._routes: t.Set[str] = set()
        self._api: t.Optional[client.Api] = None
        self._authorities = ""
        self._imported: t.Dict[str, t.Any] = {}

    # --- Joining ------------------------------------------------------------------------------------------------------

    def fetch(self, name: str, headers: t.Optional[t.Mapping[str, str]] = None) -> bytes:
        everything = {**client.basic("node", self.token.password), **(headers or {})}
        return client.send("%s/v1-rke2/%s" % (self.url, name), client.context(self._authorities), headers=everything)

    def connect(self) -> None:
        """Wait for a server that accepts the token, and get the node's credentials."""
        while True:
            try:
                self._authorities = client.authorities(self.url, self.token)
                self.register()
                return
            except client.AuthorityError as problem:
                log("error", "Failed to validate connection to cluster at %s: %s" % (self.url, problem))
            except client.RequestError as problem:
                info("Waiting to retrieve agent configuration; server is not ready: %s" % problem)
            stopping.wait(2 if self.is_server else 5)
            if stopping.is_set():
                fatal("Error: failed to retrieve agent configuration: context canceled")

    def register(self) -> None:
        try:
            self.config = json.loads(self.fetch("config"))
        except client.RequestError as problem:
            message = "not authorized" if problem.status == 401 else str(problem)
            raise client.RequestError("failed to retrieve configuration from server: %s" % message) from problem
        NODE.mkdir(parents=True, exist_ok=True)
        password = NODE / "password"
        headers = {
            "rke2-Node-Name": self.name,
            "rke2-Node-Password": secret(password, 16),
            "rke2-Node-IP": self.address,
        }
        write(self.folder / "client-ca.crt", self.fetch("client-ca.crt").decode())
        write(self.folder / "server-ca.crt", self.fetch("server-ca.crt").decode())
        for name in ("serving-kubelet", "client-kubelet", "client-kube-proxy"):
            try:
                both = self.fetch(name + ".crt", headers).decode()
            except client.RequestError as problem:
                if problem.status == 403:
                    message = (
                        "Node password rejected, duplicate hostname or contents of '%s' may not match server node-passwd"
                        " entry, try enabling a unique node name with the --with-node-id flag" % password
                    )
                    raise client.RequestError(message) from problem
                raise
            certificate, separator, key = both.partition("-----BEGIN PRIVATE KEY")
            write(self.folder / (name + ".crt"), certificate)
            write(self.folder / (name + ".key"), separator + key)
        for name in ("kubelet", "kube-proxy"):
            pair = "%s/client-%s" % (self.folder, name)
            text = kubeconfig("%s/server-ca.crt" % self.folder, pair + ".crt", pair + ".key")
            write(self.folder / (name.replace("-", "") + ".kubeconfig"), text)

    def forward(self) -> None:
        """On agents, port 6443 of the node is forwarded to the server."""
        address = (t.cast(str, urllib.parse.urlsplit(self.url).hostname), API_PORT)

        class Forward(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    server = socket.create_connection(address, timeout=3)
                except OSError:
                    return
                server.settimeout(None)
                threading.Thread(target=copy, args=(server, self.request), daemon=True).start()
                copy(self.request, server)

        class Forwarder(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        threading.Thread(target=Forwarder(("127.0.0.1", API_PORT), Forward).serve_forever, daemon=True).start()

    # --- Containers ---------------------------------------------------------------------------------------------------

    def start_containerd(self) -> None:
        path = containerd.search_path(self.path)
        runtimes = containerd.find_runtimes(path)
        for each in runtimes:
            info("Found %s container runtime at %s" % (each.name, each.program))
        node = containerd.Node(data=self.data, pause=PAUSE, runtimes=runtimes)
        try:
            template = containerd.write(node)
        except containerd.TemplateError as problem:
            fatal("Error: failed to setup containerd config: %s" % problem)
        if template:
            info("Using containerd config template at %s" % template)
        root = self.folder / "containerd"
        if not root.exists():
            # Containers' layers cannot be on the node's root, which is an overlay itself.
            target = STORE / "rke2-containerd"
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            link(root, target)
        config = node.folder / "config.toml"
        words = [str(self.bin / "containerd"), "-c", str(config)]
        self.children.append(Child("containerd", words, path, root / "containerd.log"))
        deadline = time.monotonic() + 120
        while self.ctr("version", check=False).returncode:
            if time.monotonic() > deadline:
                fatal("containerd did not answer within two minutes")
            time.sleep(0.2)
        info("containerd is now running")

    def ctr(self, *words: t.Union[str, Path], check: bool = True) -> t.Any:
        return run(self.bin / "ctr", "--address", containerd.SOCKET, "--namespace", "k8s.io", *words, check=check)

    def import_images(self) -> None:
        """Import the administrator's archives, and "pull" the rest: from the lab's files, if there is a network."""
        record = self.folder / "etc" / "imported.json"
        self._imported = json.loads(record.read_text()) if record.exists() else {}
        folder = self.folder / "images"
        archives = sorted(folder.iterdir()) if folder.is_dir() else []
        self.load(path for path in archives if path.name.endswith(ARCHIVES))
        image = "index." + MARKER
        connected = not run("ip", "route", "get", "192.0.2.1", check=False).returncode
        if connected:
            self.load([*sorted(LAB.glob("images/*.tar")), LAB / "rke2" / release.VERSION / "runtime.tar"])
        if MARKER not in self.ctr("images", "list", "--quiet").stdout.split():
            fatal(
                'Error: failed to get runtime image %s: Get "https://index.docker.io/v2/": dial tcp: lookup'
                " index.docker.io: no such host" % image
            )
        write(record, json.dumps(self._imported) + "\n")

    def load(self, archives: t.Iterable[Path]) -> None:
        """Import archives that are new or have changed."""
        for path in archives:
            state = [path.stat().st_size, path.stat().st_mtime]
            if self._imported.get(str(path)) == state:
                continue
            started = time.monotonic()
            try:
                self.ctr("images", "import", "--all-platforms", path)
            except OSError as problem:
                log("error", "Failed to import images from %s: %s" % (path, problem))
                continue
            info("Imported images from %s in %.3fs" % (path, time.monotonic() - started))
            self._imported[str(path)] = state

    # --- Kubernetes ---------------------------------------------------------------------------------------------------

    def start_kubelet(self) -> None:
        run(LAB_NODE / "private-sysctls", *SYSCTLS)
        folder = self.folder / "etc" / "kubelet.conf.d"
        (self.folder / "pod-manifests").mkdir(parents=True, exist_ok=True)
        config = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": "unix://" + containerd.SOCKET,
            "staticPodPath": str(self.folder / "pod-manifests"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.folder / "client-ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": str(self.folder / "serving-kubelet.crt"),
            "tlsPrivateKeyFile": str(self.folder / "serving-kubelet.key"),
            "clusterDomain": self.config["cluster-domain"],
            # A node is a container itself: it may lack cgroup controllers, its file system is an overlay, and it shares
            # the machine's disk.
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "localStorageCapacityIsolation": False,
            "evictionHard": {"memory.available": "50Mi"},
            # Images cannot be pulled again.
            "imageGCHighThresholdPercent": 100,
        }
        write(folder / "00-rke2-defaults.conf", json.dumps(config, indent=2) + "\n")
        words = [
            str(self.bin / "kubelet"),
            "--config-dir=%s" % folder,
            "--kubeconfig=%s" % (self.folder / "kubelet.kubeconfig"),
            "--hostname-override=" + self.name,
            "--node-ip=" + self.address,
        ]
        for name, option in (("node-label", "node-labels"), ("node-taint", "register-with-taints")):
            if self.settings[name]:
                words.append("--%s=%s" % (option, ",".join(self.settings[name])))
        words += key_values(self.settings["kubelet-arg"])
        self.children.append(Child("kubelet", words, self.path, self.logs / "kubelet.log"))

    def proxy(self) -> Daemon:
        words = [
            str(self.bin.parent / "standin" / "kube-proxy"),
            "--kubeconfig=%s" % (self.folder / "kubeproxy.kubeconfig"),
            "--cluster-cidr=%s" % self.config["cluster-cidr"],
            "--hostname-override=" + self.name,
            "--proxy-mode=iptables",
            "--healthz-bind-address=127.0.0.1:10256",
            # These kernel settings belong to the machine.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        ]
        return Daemon("kube-proxy", words, "%s:%s" % (IPTABLES, self.path), self.logs)

    # --- Network ------------------------------------------------------------------------------------------------------

    def update_network(self) -> None:
        """Do what canal does: configure the network of this node's pods, and routes to the other nodes' pods."""
        wanted = {}
        for node in self.api().get("/api/v1/nodes")["items"]:
            subnet = node["spec"].get("podCIDR")
            if not subnet:
                continue
            if node["metadata"]["name"] == self.name:
                self.configure_pods(subnet)
                continue
            for each in node["status"].get("addresses", ()):
                if each["type"] == "InternalIP":
                    wanted[subnet] = each["address"]
        for subnet, address in wanted.items():
            run("ip", "route", "replace", subnet, "via", address, "proto", ROUTES)
        for subnet in self._routes - set(wanted):
            run("ip", "route", "delete", subnet, "proto", ROUTES, check=False)
        self._routes = set(wanted)

    def configure_pods(self, subnet: str) -> None:
        addresses = {
            "type": "host-local",
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": subnet}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        # Routed, so that all packets between pods pass kube-proxy's rules.
        plugin = {"type": "ptp", "ipam": addresses}
        text = json.dumps({"cniVersion": "1.0.0", "name": "k8s-pod-network", "plugins": [plugin]}, indent=2) + "\n"
        path = NETWORKS / "10-canal.conflist"
        if not path.exists() or path.read_text() != text:
            plugins = Path("/opt/cni/bin")
            plugins.mkdir(parents=True, exist_ok=True)
            for program in PLUGINS:
                link(plugins / program, LAB / "bin" / program)
            write(path, text)
        outside = ["POSTROUTING", "--source", subnet, "!", "--destination", self.config["cluster-cidr"]]
        outside += ["--match", "comment", "--comment", "CNI- pods", "--jump", "MASQUERADE"]
        command = [str(IPTABLES / "iptables"), "--wait", "--table", "nat"]
        if run(*command, "--check", *outside, check=False).returncode:
            run(*command, "--append", *outside)

    def api(self) -> client.Api:
        if not self._api:
            # A kubelet may only read its own node.
            pair = self.folder / "client-kube-proxy"
            self._api = client.Api("https://127.0.0.1:%d" % API_PORT, self.folder / "server-ca.crt", pair)
        return self._api

    # --- All of it ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        write(self.folder / "etc" / "crictl.yaml", "runtime-endpoint: unix://%s\n" % containerd.SOCKET, 0o644)
        self.connect()
        if not self.is_server:
            self.forward()
        self.start_containerd()
        self.import_images()
        self.start_kubelet()
        repeat(self.proxy().ensure, 3)
        repeat(self.update_network, 4)

    def wait_for_node(self) -> None:
        while True:
            try:
                self.api().get("/api/v1/nodes/" + self.name)
                return
            except client.RequestError:
                time.sleep(0.5)

    def stop(self) -> None:
        for child in reversed(self.children):
            child.stop()


def copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while True:
            block = source.recv(65536)
            if not block:
                break
            target.sendall(block)
    except OSError:
        pass
    for each in (source, target):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def stage(data: Path) -> Path:
    """Link the programs of this release into the data directory, and return their directory."""
    digest = hashlib.sha256(release.VERSION.encode()).hexdigest()[:12]
    home = data / "data" / ("%s-%s" % (release.VERSION.replace("+", "-"), digest))
    own = LAB / "rke2" / release.VERSION
    for folder, names in (("bin", PROGRAMS), ("standin", (*release.CONTROL_PLANE, "kube-proxy"))):
        (home / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            source = own / name if (own / name).exists() else LAB / "bin" / name
            if not name.startswith("containerd"):
                link(home / folder / name, source)
            elif not (home / folder / name).exists():
                # containerd starts the shim in its own directory.
                shutil.copy(source, home / folder / name)
    link(home / "bin" / "runc", LAB_NODE / "runc")
    link(data / "bin", home / "bin")
    return home / "bin"
