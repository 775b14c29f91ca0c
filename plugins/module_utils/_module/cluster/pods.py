# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Evict or delete pods.

``kubernetes.core.k8s_drain`` evicts one pod after the other, and stops at the first that a disruption budget protects
(kubernetes.core#711). Here all evictions are requested, as kubectl does, and the caller repeats the rejected ones.
"""

from __future__ import annotations

import json
import typing as t

from ..._common.data import Data
from .names import require_names

_NO_SUCH_POD = (404, 409)  # 409: another pod has the name now


def remove_pods(
    client: t.Any, state: str, pods: t.Sequence[Data], grace_period: int, check_mode: bool
) -> t.Tuple[int, t.List[Data]]:
    """How many pods the API accepted, and those that it rejected with the reason. Raises the client's exceptions.

    It rejects pods that a budget protects (429) or that several budgets select (500), and for webhooks and permissions.
    """
    from kubernetes.client.exceptions import ApiException

    resource = client.resource("Pod", "v1")
    accepted, rejected = 0, []
    for pod in pods:
        require_names(pod["name"], pod["namespace"])
        where = {"name": pod["name"], "namespace": pod["namespace"]}
        options: Data = {"preconditions": {"uid": pod["uid"]}}
        if check_mode:
            options["dryRun"] = ["All"]  # the API checks permissions, budgets and webhooks
        if grace_period >= 0:
            options["gracePeriodSeconds"] = grace_period
        try:
            if state == "evicted":
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where, "deleteOptions": options}
                resource.subresources["eviction"].create(body=eviction, **where)
            else:
                resource.delete(body={"apiVersion": "v1", "kind": "DeleteOptions", **options}, **where)
            accepted += 1
        except ApiException as error:
            if error.status not in _NO_SUCH_POD:
                rejected.append({**pod, "reason": reason(error.body)})
    return accepted, rejected


def reason(body: t.Union[str, bytes, None]) -> str:
    """The API's explanation, which names the disruption budget."""
    try:
        status = json.loads(body or "")
        causes = [str(each["message"]) for each in (status.get("details") or {}).get("causes") or ()]
        return " ".join([str(status["message"]), *causes]).rstrip(".")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return str(body)[:1000]
