# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cluster of dictionaries, for the action plugins that read and change it."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import runs
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import patched, plugin

Data = t.Dict[str, t.Any]
DEPLOY = "nvidia.com/gpu.deploy."
BUDGET = "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget train needs 1"
OWN = runs.current()
# This process, whose end cannot be mistaken.
OTHER = OWN._replace(pid=os.getpid(), started=runs._started(os.getpid()))


class Cluster:
    """Evicted pods disappear after one reading; those in ``protected`` only after so many requests."""

    def __init__(self, item: Data, *pods: Data, **protected: int) -> None:
        self.node: t.Optional[Data] = item
        self.pods, self.protected = list(pods), protected
        self.patches: t.List[Data] = []
        self.fail: t.List[str] = []  # verbs whose requests fail once, in order
        self.lost = 0  # responses
        self.calls: t.List[str] = []  # the verbs of requests that are sent together
        self.controller: Data = {"metadata": {}}
        self.run = OWN
        self.now = 100.0
        self.check = False
        self.shown: t.List[str] = []
        self.started = plugin("new-plugin")  # when labels are restored
        self.slices: t.List[Data] = []
        self.claims: t.List[Data] = []
        selectors = [{DEPLOY + name: "true"} for name in ("device-plugin", "operator-validator", "dra-driver")]
        self.daemonsets = [{"spec": {"template": {"spec": {"nodeSelector": each}}}} for each in selectors]

    def __call__(self, module_name: str, module_args: Data, task_vars: object) -> Data:
        assert module_name == "gpufleet.node.gpu_cluster_requests"
        requests = module_args["requests"]
        (verb,) = {each["verb"] for each in requests}
        self.calls.append(verb)
        try:
            if self.fail and self.fail[0] == verb:
                self.fail.pop(0)
                raise ConnectionError("Connection refused")
            return {"results": getattr(self, verb)(requests)}
        except ConnectionError as error:
            return {"failed": True, "msg": str(error)}

    def read(self, requests: t.Sequence[Data]) -> t.List[Data]:
        results = []
        for each in requests:
            kinds = {
                "Node": [self.node],
                "Pod": list(self.pods),
                "ResourceSlice": self.slices,
                "ResourceClaim": self.claims,
                "DaemonSet": self.daemonsets,
            }
            found = kinds.get(each["kind"], [self.controller])
            if each["kind"] == "Node" and (self.node is None or each.get("name", "a") != self.node["metadata"]["name"]):
                found = []
            results.append({"resources": found})
        self.pods = [pod for pod in self.pods if not pod["metadata"].get("deletionTimestamp") or self.stuck(pod)]
        return results

    @staticmethod
    def stuck(pod: Data) -> bool:
        return bool(pod["metadata"].get("finalizers"))

    def patch(self, requests: t.Sequence[Data]) -> t.List[Data]:
        results: t.List[Data] = []
        for each in requests:
            patch = each["patch"]
            assert self.node is not None and self.node["metadata"]["name"] == each["name"]
            current = self.node["metadata"].get("resourceVersion")
            if patch["metadata"].pop("resourceVersion", current) != current:
                results.append({"object": None})
            elif self.lost:  # the response does not arrive
                self.lost -= 1
                self.write(patch)
                raise ConnectionError("Connection reset by peer")
            else:
                results.append({"object": self.write(patch)})
        return results

    def write(self, patch: Data) -> Data:
        assert self.node is not None
        self.patches.append(patch)
        self.node = patched(self.node, patch)
        self.node["metadata"]["resourceVersion"] = str(len(self.patches))
        labels = self.node["metadata"]["labels"]
        if labels.get(DEPLOY + "device-plugin", "").startswith("paused"):
            self.pods = [pod for pod in self.pods if pod["metadata"]["labels"].get("app") is None]
        elif patch["metadata"].get("labels"):
            self.pods.append(self.started)
        return self.node

    def evict(self, requests: t.Sequence[Data]) -> t.List[Data]:
        results = []
        for each in requests:
            left = self.protected.get(each["name"], 0)
            if left:
                self.protected[each["name"]] = left - (not self.check)
            results += [{"msg": BUDGET}] if left else self.delete([each])
        return results

    def delete(self, requests: t.Sequence[Data]) -> t.List[Data]:
        uids = [each["uid"] for each in requests]
        for pod in self.pods:
            if pod["metadata"].get("uid") in uids and not self.check:
                pod["metadata"]["deletionTimestamp"] = "now"
        return [{} for _each in requests]
