# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Kubernetes control plane on loopback, with kwok instead of kubelets. It needs Go for the first build, but no root.

The programs are those of the test lab: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kubectl.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from . import certificates, programs

ADDRESS = "127.0.0.1"
ADMINISTRATORS = "system:masters"
READY = 120  # seconds
GRACE = 15  # seconds in which a program ends
PR_SET_PDEATHSIG = 1
SERVICES = "10.96.0.0/16"
CONTROLLER = ("--secure-port=0", "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000")


class ControlPlane:
    """A running API server: access for its users, and the number of their requests."""

    def __init__(self, work: Path, url: str, authority: certificates.Authority) -> None:
        self._work, self._url, self._authority = work, url, authority

    def kubeconfig(self, user: str, group: str | None = ADMINISTRATORS) -> Path:
        """The kubeconfig of a user, with a client certificate."""
        path = self._work / (user.replace(":", "-") + ".kubeconfig")
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(json.dumps(self._authority.kubeconfig(self._url, user, group)))
        return path

    def environment(self, user: str) -> dict[str, str]:
        """The variables of a user's programs: access without a proxy, and a home for caches."""
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        home = self._work / ("home-" + user)
        home.mkdir(exist_ok=True)
        path = os.pathsep.join([str(programs.build()), kept["PATH"]])
        return {**kept, "HOME": str(home), "TMPDIR": str(home), "KUBECONFIG": str(self.kubeconfig(user)), "PATH": path}

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl as a user whose requests are not counted."""
        environment = self.environment("admin")
        command = ["kubectl", *arguments]
        done = subprocess.run(command, input=given, env=environment, capture_output=True, check=False, text=True)
        if done.returncode:
            raise RuntimeError("kubectl %s: %s" % (" ".join(arguments[:4]), done.stderr[-4000:]))
        return done.stdout

    def define(self, definition: Mapping[str, Any]) -> None:
        """Add a CustomResourceDefinition, and wait until the API server has its resources."""
        self.kubectl("apply", "--filename=-", given=json.dumps(definition))
        # `--for=condition=` fails as long as there are no conditions.
        established = '--for=jsonpath={.status.conditions[?(@.type=="Established")].status}=True'
        self.kubectl("wait", established, "crd/" + definition["metadata"]["name"], "--timeout=30s")

    def requests(self, user: str) -> Counter[str]:
        """The requests of a user, by verb and resource."""
        counted: Counter[str] = Counter()
        with (self._work / "audit.log").open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if event["user"]["username"] == user:
                    counted["%s %s" % (event["verb"], _requested(event))] += 1
        return counted


def _requested(event: Mapping[str, Any]) -> str:
    """The resource of a request, or its path if it has none."""
    found = event.get("objectRef") or {}
    if "resource" in found:
        return "/".join(filter(None, [found["resource"], found.get("subresource")]))
    return str(event["requestURI"]).partition("?")[0]


@contextmanager
def running(work: Path, stages: str, counted: Sequence[str]) -> Iterator[ControlPlane]:
    """Start a control plane, and end it afterwards.

    ``stages`` is kwok's configuration of the simulation. The requests of the users ``counted`` are recorded.
    """
    built = programs.build()
    client, peer, port = free_ports(3)
    plane = ControlPlane(work, "https://%s:%d" % (ADDRESS, port), _credentials(work))
    (work / "audit.json").write_text(json.dumps(_audit_policy(counted)))
    (work / "stages.yaml").write_text(stages)
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> None:
            stack.enter_context(_program(work / (name + ".log"), str(built / name), *arguments))

        start("etcd", *_etcd(work, client, peer))
        start("kube-apiserver", *_server(work, client, port))
        _wait_for(plane, work / "kube-apiserver.log")
        start("kube-controller-manager", *CONTROLLER, *_manager(work, plane))
        scheduler = plane.kubeconfig("system:kube-scheduler", None)
        start("kube-scheduler", *CONTROLLER, "--kubeconfig=%s" % scheduler)
        start(
            *("kwok", "--kubeconfig=%s" % plane.kubeconfig("kwok"), "--config=%s" % (work / "stages.yaml")),
            *("--manage-all-nodes=true", "--node-lease-duration-seconds=0"),
        )
        yield plane


@contextmanager
def _program(log: Path, *command: str) -> Iterator[None]:
    """Run a program, and end it afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, preexec_fn=end_with_parent
        )
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError("%s ended with %d:\n%s" % (command[0], process.returncode, log.read_text()[-4000:]))
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_with_parent() -> None:
    """Have the kernel end this process with its parent, also if the parent is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _number in range(count)]
        for each in sockets:
            each.bind((ADDRESS, 0))
        return [each.getsockname()[1] for each in sockets]


def _wait_for(plane: ControlPlane, log: Path) -> None:
    deadline = time.monotonic() + READY
    while True:
        try:
            plane.kubectl("get", "--raw", "/readyz")
            return
        except RuntimeError as error:
            if time.monotonic() > deadline:
                raise RuntimeError("%s\n%s" % (error, log.read_text()[-4000:])) from error
        time.sleep(0.5)


def _audit_policy(users: Sequence[str]) -> dict[str, Any]:
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],  # each request is recorded once, when it is complete
        "rules": [{"level": "Metadata", "users": list(users)}, {"level": "None"}],
    }


def _options(options: Mapping[str, object]) -> list[str]:
    return ["--%s=%s" % each for each in options.items()]


def _etcd(work: Path, client: int, peer: int) -> list[str]:
    clients, peers = ("https://%s:%d" % (ADDRESS, port) for port in (client, peer))
    return _options(
        {
            "name": "default",
            "data-dir": work / "etcd",
            "unsafe-no-fsync": "true",
            "quota-backend-bytes": 8 << 30,
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "client-cert-auth": "true",
            "trusted-ca-file": work / "ca.crt",
            "cert-file": work / "server.crt",
            "key-file": work / "server.key",
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": "default=" + peers,
            "peer-client-cert-auth": "true",
            "peer-trusted-ca-file": work / "ca.crt",
            "peer-cert-file": work / "server.crt",
            "peer-key-file": work / "server.key",
        }
    )


def _server(work: Path, etcd: int, port: int) -> list[str]:
    return _options(
        {
            "bind-address": ADDRESS,
            "advertise-address": ADDRESS,
            "endpoint-reconciler-type": "none",  # the others reject loopback addresses
            "secure-port": port,
            "tls-cert-file": work / "server.crt",
            "tls-private-key-file": work / "server.key",
            "client-ca-file": work / "ca.crt",
            "anonymous-auth": "false",
            "authorization-mode": "Node,RBAC",
            "etcd-servers": "https://%s:%d" % (ADDRESS, etcd),
            "etcd-cafile": work / "ca.crt",
            "etcd-certfile": work / "server.crt",
            "etcd-keyfile": work / "server.key",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": work / "accounts.pub",
            "service-account-signing-key-file": work / "accounts.key",
            "service-cluster-ip-range": SERVICES,
            "audit-policy-file": work / "audit.json",
            "audit-log-path": work / "audit.log",
            "audit-log-maxsize": 10000,  # MiB, after which the file would be rotated
        }
    )


def _manager(work: Path, plane: ControlPlane) -> list[str]:
    return _options(
        {
            "kubeconfig": plane.kubeconfig("system:kube-controller-manager", None),
            "use-service-account-credentials": "true",
            "service-account-private-key-file": work / "accounts.key",
            "root-ca-file": work / "ca.crt",
            "node-monitor-grace-period": "24h",  # the nodes send no heartbeats
        }
    )


def _credentials(work: Path) -> certificates.Authority:
    """Write the keys and certificates of the servers, and return the authority that issues those of the users."""
    authority, accounts = certificates.Authority("gpufleet-simulated"), certificates.new_key()
    server = authority.member("localhost", [ADDRESS])
    for name, text in (("server.key", server.key), ("accounts.key", certificates.private_text(accounts))):
        (work / name).touch(mode=0o600)
        (work / name).write_text(text)
    (work / "server.crt").write_text(server.certificate)
    (work / "accounts.pub").write_text(certificates.public_text(accounts))
    (work / "ca.crt").write_text(authority.pair.certificate)
    return authority
