# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: use pods to check that each GPU and MIG device of a cluster is usable."""

from __future__ import annotations

import secrets
import time
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import pod_check
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import readiness
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.action import ClusterAction
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import labels_of, name_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.progress import pauses
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.responses import Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show

Data = t.Dict[str, t.Any]


class ActionModule(ClusterAction):
    ARGUMENTS = {
        "wanted": {"type": "dict", "required": True},
        "strategy": {"type": "str", "required": True},
        "labels": {"type": "bool", "required": True},
        "namespace": {"type": "str", "required": True},
        "runtime_class": {"type": "str", "required": True},
        "image": {"type": "str", "required": True},
        "timeout": {"type": "int", "required": True},
    }

    def perform(self, variables: Data) -> Data:
        arguments, self._check = self._arguments, secrets.token_hex(4)
        self._selector = ["%s=%s" % (pod_check.LABEL, self._check)]
        wanted = {node: each["resources"] for node, each in arguments["wanted"].items() if each["resources"]}
        self._replicas = {node: each.get("replicas", {}) for node, each in arguments["wanted"].items()}
        self._profiles = {node: each.get("profile") for node, each in arguments["wanted"].items()}
        result: Data = {"devices": []}
        try:
            problems = self._runtime_class() or self._run(wanted, result)
        except Unreadable as error:
            problems = ["the GPUs could not be checked with pods: %s" % error]
        result["problems"] = problems
        return result

    def _runtime_class(self) -> list[str]:
        name = self._arguments["runtime_class"]
        if not name or self._api.read({"kind": "RuntimeClass", "api_version": "node.k8s.io/v1", "name": name})[0]:
            return []
        return ["the cluster has no RuntimeClass %s, which pods need to use GPUs" % name]

    def _run(self, wanted: t.Mapping[str, t.Mapping[str, int]], result: Data) -> list[str]:
        arguments = self._arguments
        options = pod_check.JobOptions(
            self._check,
            arguments["namespace"],
            arguments["image"],
            arguments["runtime_class"],
            arguments["timeout"] + 60,
        )
        (pods,) = self._api.read({"kind": "Pod"})
        jobs = pod_check.jobs(wanted, pods, options)
        left = sum(map(sum, (each.values() for each in wanted.values())))
        left -= sum(job["spec"]["completions"] for job in jobs)
        if left:
            others = any(pod_check.LABEL in labels_of(pod) for pod in pods)
            why = "pods, also of another or interrupted check," if others else "pods"
            result["warnings"] = ["%d GPUs or MIG devices were not checked, because %s use them" % (left, why)]
        try:
            if jobs:
                self._api.call("kubernetes.core.k8s", resource_definition=jobs)
            return self._wait(wanted, jobs, result)
        finally:
            self._remove()

    def _wait(self, wanted: t.Mapping[str, t.Mapping[str, int]], jobs: list[Data], result: Data) -> list[str]:
        arguments = self._arguments
        namespace, strategy = arguments["namespace"], arguments["strategy"]
        end = time.monotonic() + arguments["timeout"]
        intervals, logs = pauses(), dict[str, str]()
        while True:
            pods, nodes = self._api.read(
                {"kind": "Pod", "namespace": namespace, "label_selectors": self._selector}, {"kind": "Node"}
            )
            for pod in pods:
                if pod_check.phase(pod) in ("Running", "Failed") and not logs.get(name_of(pod)):
                    logs[name_of(pod)] = self._log(name_of(pod))
            missing = pod_check.missing(jobs, pods, logs)
            # GPU feature discovery updates the labels once a minute.
            labels = []
            if arguments["labels"]:
                labels = pod_check.wrong_labels(nodes, wanted, self._replicas, strategy, self._profiles)
            failed = any(pod_check.phase(pod) == "Failed" for pod in pods)
            if failed or not (missing or labels) or time.monotonic() >= end:
                break
            time.sleep(next(intervals))
        printed = [pod for pod in pods if logs.get(name_of(pod))]
        devices, problems = pod_check.devices(printed, logs, self._replicas, strategy, self._profiles)
        result["devices"] = [each._asdict() for each in devices]
        for each in devices:
            show("%s: a pod with one %s got %s" % each)
        return [*missing, *labels, *problems, *readiness.explained(pods)]

    def _remove(self) -> None:
        self._api.call(
            "kubernetes.core.k8s",
            state="absent",
            api_version="batch/v1",
            kind="Job",
            namespace=self._arguments["namespace"],
            label_selectors=self._selector,
            delete_all=True,
            delete_options={"propagationPolicy": "Foreground"},  # with its pods
            wait=True,
            wait_timeout=120,
        )

    def _log(self, pod: str) -> str:
        try:
            return self._api.log(self._arguments["namespace"], pod)
        except Unreadable:  # its container is still starting
            return ""
