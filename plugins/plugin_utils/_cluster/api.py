# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Access to the cluster for action plugins."""

from __future__ import annotations

import os
import typing as t

from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure

from ...module_utils._common.data import Data
from . import nodes as cluster_nodes
from . import requests, runs
from .nodes import Host
from .pods import Pod
from .progress import Progress, Waiting
from .responses import Final, NoNode, Unreadable, error_of, was_read

_ATTEMPTS = 5  # to change a node that someone else changes too, such as its kubelet
_FEW = 5  # pods that are read and named one by one
_NODE_REMOVED = "the cluster no longer has the node %s"
_NO_NODE = "the cluster has no node named %s: set gpu_cluster_node_name to an existing node"


class Reading(t.NamedTuple):
    """A node and its pods, as they were read at the same time."""

    node: Data
    pods: list[Data]  # on the node


class Api:
    """The cluster, for one task. Requests raise Unreadable, and Final if repeating them is useless."""

    def __init__(self, action: t.Any, task_vars: dict[str, t.Any] | None) -> None:
        self._action, self._task_vars = action, task_vars
        self._controller = runs.controller()
        self._requests = requests.of_task(action, self.call)

    def close(self) -> None:
        self._requests.close()

    def host(self) -> Host:
        """The host of the task. Its variables may be templates."""
        variables = self._task_vars or {}
        found = {name: variables[name] for name in cluster_nodes.VARIABLES if name in variables}
        return cluster_nodes.host_of(variables["inventory_hostname"], self._action._templar.template(found))

    def read(self, *requested: Data) -> list[list[Data]]:
        """The objects of each kind, in the same order. Raises Unreadable, also if the API does not know a kind."""
        found = self.results(requested)
        for each in found:
            if not was_read(each):
                raise error_of(each)
        return [each["resources"] for each in found]

    def results(self, requested: t.Sequence[Data]) -> list[Data]:
        """The result for each, with ``resources`` or ``msg``. Raises Unreadable."""
        return self._send("read", requested)

    def _send(self, verb: str, requested: t.Iterable[Data]) -> list[Data]:
        self._require_run()
        return self._requests.send([{"verb": verb, **each} for each in requested])

    def log(self, namespace: str, pod: str, **options: t.Any) -> str:
        """The log of a container. Raises Unreadable, for example while the container is still starting."""
        return str(self.call("kubernetes.core.k8s_log", namespace=namespace, name=pod, **options)["log"])

    def call(self, module: str, **arguments: t.Any) -> Data:
        """The result of a module. Raises Unreadable."""
        self._require_run()
        try:
            found: Data = self._action._execute_module(
                module_name=module, module_args=arguments, task_vars=self._task_vars
            )
        except AnsibleAuthenticationFailure as error:  # which could lock the account
            raise Final(str(error)) from None
        except AnsibleConnectionFailure as error:  # to gpu_cluster_host
            raise Unreadable(str(error)) from None
        if found.get("failed"):
            raise error_of(found)
        return found

    def _require_run(self) -> None:
        if os.getppid() != self._controller:  # it was killed, and the next run may use the cluster
            raise Final("ansible-playbook has ended")

    def host_reading(self, host: Host) -> Reading:
        """The node of a host with its pods. Raises Unreadable, and NoNode if there is none."""
        names = cluster_nodes.candidates(host)
        if len(names) > 1:
            found = self.read(*({"kind": "Node", "name": name} for name in names))
            names = [cluster_nodes.name_of(node) for nodes in found for node in nodes][:1]
        reading = self._reading(names[0]) if names else None
        if reading is None:
            named = ", ".join(cluster_nodes.candidates(host))
            raise NoNode(_NO_NODE % named)
        return reading

    def reading(self, name: str) -> Reading:
        """A node with its pods. Raises Unreadable, and Final if the node is gone."""
        reading = self._reading(name)
        if reading is None:
            raise Final(_NODE_REMOVED % name)
        return reading

    def _reading(self, name: str) -> Reading | None:
        selected = {"kind": "Pod", "field_selectors": ["spec.nodeName=" + name]}
        nodes, pods = self.read({"kind": "Node", "name": name}, selected)
        return Reading(nodes[0], pods) if nodes else None

    def pods_in(self, namespaces: t.Iterable[str]) -> list[Data]:
        """All pods in some namespaces. Raises Unreadable."""
        requested = [{"kind": "Pod", "namespace": name} for name in namespaces]
        return [pod for pods in self.read(*requested) for pod in pods] if requested else []

    def nodes(self, names: t.Sequence[str], *others: Data) -> tuple[dict[str, Data], list[Data]]:
        """Nodes by name, and other objects. Raises Unreadable, also if a node is gone."""
        requested: Data = {"kind": "Node", "name": names[0]} if len(names) == 1 else {"kind": "Node"}
        found, *rest = self.read(requested, *others)
        by_name = {cluster_nodes.name_of(node): node for node in found}
        for name in names:
            if name not in by_name:
                raise Final(_NODE_REMOVED % name)
        return {name: by_name[name] for name in names}, [item for each in rest for item in each]

    def change_all(
        self, nodes: t.Mapping[str, Data], make: t.Callable[[Data], Data], progress: Progress
    ) -> dict[str, Data]:
        """Change nodes with the patches that ``make`` returns for them, and return them as they are then, by name.

        A patch is made again if someone else changes the node at the same time, or the API does not respond. Raises
        Unreadable after the time of ``progress``, and the errors of ``make``.
        """
        done: dict[str, Data] = {}
        current = dict(nodes)  # as they were read, until they may have changed

        def step() -> dict[str, Data]:
            for _attempt in range(_ATTEMPTS):
                left = [name for name in nodes if name not in done]
                found = dict(current) or self.nodes(left)[0]
                current.clear()
                patches = {name: make(found[name]) for name in left}
                done.update((name, found[name]) for name in left if not patches[name])
                changing = [name for name in left if patches[name]]
                if changing:
                    sent = self._send("patch", [_versioned(found[name], patches[name]) for name in changing])
                    changed = zip(changing, sent, strict=True)
                    done.update((name, each["object"]) for name, each in changed if each["object"] is not None)
                if len(done) == len(nodes):
                    return done
            busy = [name for name in nodes if name not in done]
            raise Unreadable("someone else is changing node %s all the time" % ", ".join(busy[:_FEW]))

        title = "node %s" % next(iter(nodes)) if len(nodes) == 1 else "%d nodes" % len(nodes)
        return progress.result("changing %s" % title, step) if nodes else {}

    def evict(self, pods: t.Sequence[Pod], grace_period: int) -> dict[Pod, str]:
        """Request evictions, which check mode only checks; why the API rejects some of them. Raises Unreadable."""
        return self._remove("evict", pods, grace_period=grace_period)

    def delete(self, pods: t.Sequence[Pod]) -> None:
        """Delete pods that a controller replaces. Raises Unreadable."""
        for pod, reason in self._remove("delete", pods).items():
            raise Unreadable("pod %s cannot be deleted: %s" % (pod, reason))

    def _remove(self, verb: str, pods: t.Sequence[Pod], **options: t.Any) -> dict[Pod, str]:
        requested = [{"kind": "Pod", **pod._asdict(), **options} for pod in pods]
        results = self._send(verb, requested) if requested else []
        return {pod: each["msg"] for pod, each in zip(pods, results, strict=True) if "msg" in each}

    def restart(self, pods: t.Sequence[Pod], progress: Progress) -> None:
        """Delete pods, and wait until they are gone. Raises Unreadable."""
        if not pods:
            return
        uids = {pod.uid for pod in pods}
        requested = [{"kind": "Pod", "namespace": pod.namespace, "name": pod.name} for pod in pods]
        if len(requested) > _FEW:
            requested = [{"kind": "Pod", "namespace": name} for name in sorted({pod.namespace for pod in pods})]

        def left() -> tuple[list[Data], list[str]]:
            found = [pod for each in self.read(*requested) for pod in each if pod["metadata"]["uid"] in uids]
            return found, [
                "pod %s is terminating on node %s" % (cluster_nodes.name_of(pod), pod["spec"].get("nodeName"))
                for pod in found
            ]

        title = "restarting %d pod%s" % (len(uids), "s" if len(uids) > 1 else "")
        progress.result(title, lambda: self.delete(pods))
        try:
            progress.until_empty(title, left)
        except Waiting as error:
            raise Unreadable("%s. A node that is down ends no pods" % "; ".join(error.reasons[:_FEW])) from None


def _versioned(node: Data, patch: Data) -> Data:
    """A patch that changes nothing if someone else changes the node first."""
    version = {"resourceVersion": node["metadata"].get("resourceVersion")}
    body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
    return {"kind": "Node", "name": cluster_nodes.name_of(node), "patch": body}
