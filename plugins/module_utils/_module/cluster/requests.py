# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Requests to a cluster's API, with the client of kubernetes.core.

Its modules send too little at once, although starting a client takes about a second: ``k8s_info`` reads one kind, and
``k8s_drain`` stops at the first pod that a disruption budget protects (kubernetes.core#711). ``k8s`` does not notice
that someone else changes an object after it has read it.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..._common.data import Data

# As the API server requires of names of any kind, such as system:node, and without what has a meaning in an address.
_NAME = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9._:-]{0,252}")
_SELECTION = ("kind", "name", "namespace", "label_selectors", "field_selectors")
_CONFLICT = 409
_NO_SUCH_OBJECT = (404, 409)  # 409: another one has the name now


def send(client: t.Any, requests: t.Sequence[Data], check_mode: bool) -> t.List[Data]:
    """The result of each request, both as the module gpu_cluster_requests describes them.

    One that the API rejects does not stop the others. Raises the client's exceptions if the API does not respond, or
    rejects a patch.
    """
    verbs = {"read": _read, "patch": _patch, "evict": _remove, "delete": _remove}
    results = []
    for each in requests:
        _require_names(*(each[key] for key in ("name", "namespace") if each.get(key) is not None))
        _require_names(*_api_version(each).split("/"))
        results.append(verbs[each["verb"]](client, each, check_mode))
    return results


def _read(client: t.Any, request: Data, _check_mode: bool) -> Data:
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.service import K8sService
    from kubernetes.client.exceptions import ApiException

    selection: Data = {key: request.get(key) for key in _SELECTION}
    try:
        found: Data = K8sService(client, None).find(api_version=_api_version(request), **selection)
        return found
    except CoreException as error:
        if not isinstance(error.__context__, ApiException):
            raise
        return {"msg": str(error.__context__)}  # for example, not allowed


def _patch(client: t.Any, request: Data, check_mode: bool) -> Data:
    from kubernetes.client.exceptions import ApiException

    try:
        changed = client.resource(request["kind"], _api_version(request)).patch(
            name=request["name"],
            namespace=request.get("namespace"),
            body=request["patch"],
            content_type="application/merge-patch+json",
            **({"dry_run": "All"} if check_mode else {}),
        )
        return {"object": changed.to_dict(), "changed": True}
    except ApiException as error:
        if error.status != _CONFLICT:
            raise
        return {"object": None}


def _remove(client: t.Any, request: Data, check_mode: bool) -> Data:
    """The API rejects pods that one budget protects (429) or several select (500), and for webhooks and permissions."""
    from kubernetes.client.exceptions import ApiException

    resource = client.resource(request["kind"], _api_version(request))
    where = {"name": request["name"], "namespace": request["namespace"]}
    options: Data = {"preconditions": {"uid": request["uid"]}}
    if check_mode:
        options["dryRun"] = ["All"]  # the API checks permissions, budgets and webhooks
    if request.get("grace_period", -1) >= 0:
        options["gracePeriodSeconds"] = request["grace_period"]
    try:
        if request["verb"] == "evict":
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": where, "deleteOptions": options}
            resource.subresources["eviction"].create(body=eviction, **where)
        else:
            resource.delete(body={"apiVersion": "v1", "kind": "DeleteOptions", **options}, **where)
        return {"changed": True}
    except ApiException as error:
        return {} if error.status in _NO_SUCH_OBJECT else {"msg": _reason(error.body)}


def _api_version(request: Data) -> str:
    return str(request.get("api_version", "v1"))


def _require_names(*names: str) -> None:
    """Raises ValueError for a name that could become another path, or the arguments of a request."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError("%.300r is not the name of an object" % name)


def _reason(body: t.Union[str, bytes, None]) -> str:
    """The API's explanation, which names the disruption budget."""
    try:
        status = json.loads(body or "")
        causes = [str(each["message"]) for each in (status.get("details") or {}).get("causes") or ()]
        return " ".join([str(status["message"]), *causes]).rstrip(".")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return str(body)[:1000]
