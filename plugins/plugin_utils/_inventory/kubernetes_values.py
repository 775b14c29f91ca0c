# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Check names, labels, taints and tolerations as the Kubernetes API does."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.text import short

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_MAX_LENGTH = 253  # of a prefix, and of most names
# Reserved Kubernetes labels that a kubelet may set on its node. It does not start with other reserved labels.
_KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
# Longest names in variables, by the end of the variable's name. A Helm release is part of other names.
_NAMES = {"_namespace": 63, "_release": 53, "_runtime_class": _MAX_LENGTH, "_node_name": _MAX_LENGTH}
_TOLERATION = {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}


def kubernetes_value_problems(variable: str, value: object) -> list[str]:
    """Problems of a variable that becomes a name or a list of tolerations; no others are checked."""
    if variable.endswith("_tolerations"):
        return toleration_problems(variable, value if isinstance(value, (list, tuple)) else ())
    longest = next((length for end, length in _NAMES.items() if variable.endswith(end)), 0)
    if not longest or not value or (len(str(value)) <= longest and _PREFIX.fullmatch(str(value))):
        dotted = variable.endswith("_namespace") and "." in str(value)
        return ["%s is %s: a namespace must not contain dots" % (variable, short(value))] if dotted else []
    return [
        "%s is %s: give lowercase letters, digits and hyphens, at most %d characters"
        % (variable, short(value), longest)
    ]


def toleration_problems(variable: str, tolerations: t.Iterable[object]) -> list[str]:
    """Tolerations that the API rejects."""
    found = ((number, _toleration_problem(each)) for number, each in enumerate(tolerations, 1))
    return ["%s, entry %d: %s" % (variable, number, why) for number, why in found if why]


def _toleration_problem(toleration: object) -> str:
    if not isinstance(toleration, dict):
        return "give a mapping"
    for key, value in toleration.items():
        if key not in _TOLERATION:
            return "unknown key %s: use %s" % (short(key), ", ".join(_TOLERATION))
        if not isinstance(value, _TOLERATION[key]) or isinstance(value, bool):
            return "%s is %s: give a %s" % (key, short(value), "number" if _TOLERATION[key] is int else "string")
    key, value = str(toleration.get("key", "")), str(toleration.get("value", ""))
    if toleration.get("operator", "Equal") not in ("Equal", "Exists"):
        return "operator is %s: use Equal or Exists" % short(toleration["operator"])
    if toleration.get("effect", "NoSchedule") not in _EFFECTS:
        return "effect is %s: use one of %s" % (short(toleration["effect"]), ", ".join(_EFFECTS))
    if toleration.get("operator") == "Exists" and value:
        return "remove the value, or use the operator Equal"
    if not key and toleration.get("operator") != "Exists":
        return "give a key, or use the operator Exists"
    if (key and not _is_key(key)) or not _is_value(value):
        return "Kubernetes does not accept its key or value: correct it"
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        return "tolerationSeconds needs the effect NoExecute"
    return ""


def taint_problems(variable: str, taints: t.Iterable[object]) -> list[str]:
    """Taints that are not key=value:effect or key:effect, or that repeat a key with the same effect."""
    found = []
    seen = set()
    for taint in taints:
        rest, separator, effect = str(taint).rpartition(":")
        key, _equals, value = rest.partition("=")
        if not separator or effect not in _EFFECTS:
            found.append(
                "%s has %r: give key=value:effect, with one of the effects %s"
                % (variable, str(taint), ", ".join(_EFFECTS))
            )
        elif not _is_key(key) or not _is_value(value):
            found.append(
                "%s has %r, whose key or value Kubernetes does not accept: correct it" % (variable, str(taint))
            )
        elif (key, effect) in seen:
            found.append(
                "%s has %r, but an earlier entry has the same key and effect, so the kubelet would not start: remove one"
                % (variable, str(taint))
            )
        seen.add((key, effect))
    return found


def label_problems(variable: str, labels: t.Iterable[object]) -> list[str]:
    """Labels that are not key=value, or that a kubelet must not set."""
    found = []
    for label in labels:
        key, separator, value = str(label).partition("=")
        if not separator or not _is_key(key) or not _is_value(value):
            found.append("%s has %r: give key=value with a valid Kubernetes key and value" % (variable, str(label)))
        elif _is_reserved(key):
            found.append(
                "%s has %r: the kubelet does not start with a reserved Kubernetes label. Use another key, or set this "
                "label with kubectl after the node has joined" % (variable, str(label))
            )
    return found


def _is_key(key: str) -> bool:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _MAX_LENGTH or not _PREFIX.fullmatch(prefix)):
        return False
    return _NAME.fullmatch(name) is not None


def _is_value(value: str) -> bool:
    return not value or _NAME.fullmatch(value) is not None


def _is_reserved(key: str) -> bool:
    prefix = key.rpartition("/")[0]
    if not re.fullmatch(r"(.+\.)?(kubernetes|k8s)\.io", prefix) or key in _KUBELET_LABELS:
        return False
    return not any(prefix == each or prefix.endswith("." + each) for each in _KUBELET_PREFIXES)
