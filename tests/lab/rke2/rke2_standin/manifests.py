# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cluster-wide tasks of one server: manifests, charts, and cleanup after deleted nodes."""

from __future__ import annotations

import hashlib
import json
import pkgutil
import typing as t
from pathlib import Path

from . import client, release
from .agent import kubeconfig, write
from .processes import Daemon, info, log, repeat, run

if t.TYPE_CHECKING:
    from .server import Server

ENDINGS = (".yaml", ".yml", ".json")
ADDONS = "/apis/k3s.cattle.io/v1/namespaces/kube-system/addons"
OBJECTS = "gpufleet-lab/objects"  # annotation of an addon: the objects of its manifest
PACKAGED = ("rke2-runtimeclasses.yaml",)
PERIOD = 5  # seconds; rke2 checks every 15


def manifests(folder: Path) -> t.Iterator[Path]:
    """The files that are deployed."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    skipped = {path.name[: -len(".skip")] for path in found if path.name.endswith(".skip")}
    for path in found:
        if not path.name.startswith(".") and path.name not in skipped and path.name.lower().endswith(ENDINGS):
            yield path


def disabled(path: Path, folder: Path, names: t.AbstractSet[str]) -> bool:
    return path.stem in names or any(part in names for part in path.relative_to(folder).parts[:-1])


class Deployer:
    def __init__(self, server: "Server") -> None:
        self.server = server
        self.folder = server.folder / "manifests"
        self.disables = {part for each in server.settings.get("disable", ()) for part in each.split(",")}
        self._done: t.Dict[Path, float] = {}
        self._nodes: t.Set[str] = set()
        self._prepared = False
        path = server.folder / "cred" / "supervisor.kubeconfig"
        self._charts = self.chart_controller(path)

    def chart_controller(self, path: Path) -> Daemon:
        pair = "%s/client-supervisor" % self.server.tls
        write(path, kubeconfig("%s/server-ca.crt" % self.server.tls, pair + ".crt", pair + ".key"))
        self.kubeconfig = path
        words = [
            str(self.server.programs / "helm-controller"),
            "--kubeconfig=%s" % path,
            "--node-name=" + self.server.agent.name,
            "--default-job-image=" + self.server.settings.get("helm-job-image", release.HELM_JOB),
            "--threads=2",
        ]
        return Daemon("helm-controller", words, self.server.agent.path, self.server.agent.logs)

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in PACKAGED:
            if Path(name).stem not in self.disables:
                (self.folder / name).write_bytes(pkgutil.get_data(__name__.rpartition(".")[0], name) or b"")
        repeat(self._charts.ensure, PERIOD)  # the controllers of all servers elect a leader
        repeat(self.work, PERIOD)

    def work(self) -> None:
        if not self.server.leads():
            return
        if not self._prepared:
            self.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(addon_definition()))
            self.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd/addons.k3s.cattle.io")
            self._prepared = True
        self.forget_nodes()
        for path in list(manifests(self.folder)):
            if disabled(path, self.folder, self.disables):
                self.delete(path)
            elif self._done.get(path) != path.stat().st_mtime:
                self.deploy(path)

    def kubectl(self, *words: str, **options: t.Any) -> str:
        program = self.server.agent.bin / "kubectl"
        return run(program, "--kubeconfig=%s" % self.kubeconfig, *words, **options).stdout

    def deploy(self, path: Path) -> None:
        modified, text = path.stat().st_mtime, path.read_text()
        api, name = self.server.admin_api(), path.name.split(".")[0].lower()
        checksum = hashlib.sha256(text.encode()).hexdigest()
        addon = self.addon(api, name)
        if addon.get("spec", {}).get("checksum") == checksum and path in self._done:
            self._done[path] = modified
            return
        if not any(line.strip() not in ("", "---") and not line.startswith("#") for line in text.splitlines()):
            self._done[path] = modified
            return
        info('Applying manifest at "%s"' % path)
        try:
            applied = self.kubectl(
                *("apply", "--server-side", "--force-conflicts", "--field-manager=deploy@" + self.server.agent.name),
                *("--output=json", "--filename=%s" % path),
            )
        except OSError as problem:
            log("error", "Failed to process config: failed to process %s: %s" % (path, problem))
            return
        objects = [identity(each) for each in listed(applied)]
        former = json.loads(addon["metadata"].get("annotations", {}).get(OBJECTS, "[]"))
        for kind, space, each in (gone for gone in former if gone not in objects):
            self.kubectl("delete", kind, each, "--ignore-not-found", *(["--namespace=" + space] if space else []))
        change = {
            "metadata": {"annotations": {OBJECTS: json.dumps(objects)}},
            "spec": {"source": str(path), "checksum": checksum},
        }
        api.merge("%s/%s" % (ADDONS, name), change)
        self._done[path] = modified
        info('Applied manifest at "%s"' % path)

    def addon(self, api: client.Api, name: str) -> client.OBJECT:
        try:
            return api.get("%s/%s" % (ADDONS, name))
        except client.RequestError as problem:
            if problem.status != 404:
                raise
        return api.request(
            "POST", ADDONS, {"apiVersion": "k3s.cattle.io/v1", "kind": "Addon", "metadata": {"name": name}, "spec": {}}
        )

    def delete(self, path: Path) -> None:
        """Delete a disabled component: the objects of its manifest, and the manifest."""
        info('Deleting manifest at "%s"' % path)
        self.kubectl("delete", "--ignore-not-found", "--filename=%s" % path)
        name = path.name.split(".")[0].lower()
        self.kubectl("delete", "--ignore-not-found", "--namespace=kube-system", "addons.k3s.cattle.io/" + name)
        path.unlink()

    def forget_nodes(self) -> None:
        """Delete the passwords and the etcd members of nodes that were deleted, so that they can join again."""
        present = {each["metadata"]["name"] for each in self.server.admin_api().get("/api/v1/nodes")["items"]}
        for name in self._nodes - present:
            self.kubectl(
                "delete", "secret", name + ".node-password.rke2", "--namespace=kube-system", "--ignore-not-found"
            )
            self.server.remove_member(name)
        self._nodes = present


def listed(applied: str) -> t.List[client.OBJECT]:
    """The objects in kubectl's output: one, or a list."""
    found = json.loads(applied)
    return t.cast(t.List[client.OBJECT], found["items"] if found["kind"] == "List" else [found])


def identity(what: client.OBJECT) -> t.List[str]:
    group, _slash, version = what["apiVersion"].rpartition("/")
    kind = what["kind"] if not group else "%s.%s.%s" % (what["kind"], version, group)
    return [kind, what["metadata"].get("namespace", ""), what["metadata"]["name"]]


def addon_definition() -> client.OBJECT:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "addons", "singular": "addon", "kind": "Addon", "listKind": "AddonList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "addons.k3s.cattle.io"},
        "spec": {
            "group": "k3s.cattle.io",
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": [
                        {"name": "Source", "type": "string", "jsonPath": ".spec.source"},
                        {"name": "Checksum", "type": "string", "jsonPath": ".spec.checksum"},
                    ],
                }
            ],
        },
    }
