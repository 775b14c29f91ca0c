# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The permissions of the collection's ClusterRoles, and whether the user of a kubeconfig has them."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import yaml

from ...module_utils._common.data import Data
from . import responses

_FILE = Path(__file__).with_name("cluster_roles.yml")
_VERIFY, _CHARTS = "gpufleet-verify", "gpufleet-charts"
_IN_KUBE_SYSTEM, _IN_NAMESPACE = "-kube-system", "-chart-namespace"
_CHECK, _DRAIN = "gpufleet-check-chart-namespace", "gpufleet-drain"
# helm installs with the permissions of this user, who needs all that the chart contains: for example, these.
_OF_CHARTS: tuple[Data, ...] = (
    {"verb": "create", "group": "apps", "resource": "daemonsets"},
    {"verb": "create", "group": "rbac.authorization.k8s.io", "resource": "clusterroles"},
)
BIND = "bind the ClusterRoles of the collection, which docs/security.md describes"


def drain_permissions() -> list[Data]:
    """The permissions to drain and return nodes, as attributes of SelfSubjectAccessReviews."""
    return _attributes(_DRAIN, "")


def chart_permissions(namespace: str, method: str, *, changes: bool, drain: bool, check_pods: bool) -> list[Data]:
    """The permissions to verify a chart, and if it ``changes`` to install it, as attributes of SelfSubjectAccessReviews.

    ``method`` is helm_chart if the cluster's helm-controller installs it.
    """
    purposes = [_VERIFY, *([_CHARTS] * changes)]
    roles = [*purposes, *(each + _IN_NAMESPACE for each in purposes)]
    if method == "helm_chart":
        roles += [each + _IN_KUBE_SYSTEM for each in purposes]
    roles += [_CHECK] * check_pods + [_DRAIN] * drain
    out = [each for role in roles for each in _attributes(role, namespace)]
    out += [] if method == "helm_chart" else _OF_CHARTS
    return [each for index, each in enumerate(out) if each not in out[:index]]


def access_reviews(permissions: t.Iterable[Data]) -> list[Data]:
    """Objects whose status, when they are created, says whether the user has the permissions."""
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {}}
    return [{**kind, "spec": {"resourceAttributes": each}} for each in permissions]


def denial(reviewed: Data, remedy: str) -> str:
    """Which permissions the user lacks; empty if none. ``reviewed`` has the ``results`` of the reviews, or ``msg``."""
    missing = _with(False, reviewed)
    return "the user of the kubeconfig is not allowed to %s: %s" % (missing, remedy) if missing else ""


def unchecked(reviewed: Data) -> str:
    """A warning about permissions that could not be checked; empty if there are none."""
    unknown = _with(None, reviewed)
    reason = responses.message(reviewed) if "msg" in reviewed else unknown and "the API did not evaluate " + unknown
    text = (
        "the permissions of the user of the kubeconfig could not be checked, and a run fails where one is missing: %s"
    )
    return text % reason if reason else ""


def _with(allowed: bool | None, reviewed: Data) -> str:
    """The permissions whose reviews have this result; None: the API did not evaluate them."""
    found = [each["result"] for each in reviewed.get("results", ())]
    return ", ".join(map(_named, (each for each in found if (each.get("status") or {}).get("allowed") is allowed)))


def _named(review: Data) -> str:
    required = review["spec"]["resourceAttributes"]
    what = "/".join(filter(None, [required["resource"], required.get("subresource"), required.get("name")]))
    where = " in the namespace %s" % required["namespace"] if required.get("namespace") else ""
    return "%s %s%s" % (required["verb"], what, where)


def _attributes(role: str, namespace: str) -> list[Data]:
    where: Data = {}
    if role.endswith(_IN_KUBE_SYSTEM):
        where = {"namespace": "kube-system"}
    elif role.endswith(_IN_NAMESPACE):
        where = {"namespace": namespace}
    return [
        {
            **where,
            **({"name": name} if name else {}),
            **({"subresource": resource.partition("/")[2]} if "/" in resource else {}),
            "verb": verb,
            "group": group,
            "resource": resource.partition("/")[0],
        }
        for rule in _roles()[role]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    ]


@functools.lru_cache
def _roles() -> dict[str, list[Data]]:
    """The rules by ClusterRole."""
    found = yaml.safe_load_all(_FILE.read_text(encoding="utf-8"))
    return {each["metadata"]["name"]: each["rules"] for each in found}
