# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Pods as the API returns them: identity, controller, whether they end, and the GPUs that they request."""

from __future__ import annotations

import typing as t
from collections import Counter

from ...module_utils._common.data import Data
from .._layout import resources
from .nodes import name_of


class Pod(t.NamedTuple):
    """The identity of a pod, to evict or delete it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return "%s/%s" % (self.namespace, self.name)


def pod_of(pod: Data) -> Pod:
    """The identity of a pod."""
    return Pod(str(pod["metadata"].get("namespace")), name_of(pod), str(pod["metadata"].get("uid")))


def controller_of(pod: Data) -> Data:
    """The reference to the controller that replaces the pod; empty if there is none."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), {})


def has_ended(pod: Data) -> bool:
    """Whether all containers of a pod have ended, so that it uses no devices."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_terminating(pod: t.Mapping[str, t.Any]) -> bool:
    """Whether a pod is being deleted. It may still use its devices."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def gpus_of(pod: Data) -> Counter[str]:
    """The GPUs and MIG devices that a pod requests, by resource."""
    spec = pod.get("spec") or {}
    first = spec.get("initContainers") or ()
    sidecars = [each for each in first if each.get("restartPolicy") == "Always"]
    out: Counter[str] = Counter()
    for container in (*sidecars, *(spec.get("containers") or ())):
        out += _limits(container)
    for container in first:  # they run one after the other, before the others
        out |= _limits(container)
    return out


def _limits(container: Data) -> Counter[str]:
    return resources.counts((container.get("resources") or {}).get("limits"))
