# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Access to the cluster for action plugins, through the modules of kubernetes.core on the task's host."""

from __future__ import annotations

import typing as t

Data = t.Dict[str, t.Any]


class Unreadable(Exception):
    """The API does not respond, or rejects the request."""


def message(result: Data) -> str:
    """The message of a module's result, on one line."""
    return " ".join(str(result.get("msg") or "no answer").split())


class Api:
    def __init__(self, action: t.Any, task_vars: dict[str, t.Any] | None) -> None:
        self._action, self._task_vars = action, task_vars

    def read(self, *wanted: Data) -> list[list[Data]]:
        """The objects of each kind, in the same order. Raises Unreadable."""
        found = self.call("gpufleet.node.gpu_cluster_objects", objects=list(wanted))["results"]
        for each in found:
            if "resources" not in each:
                raise Unreadable(message(each)[:300])
        return [each["resources"] for each in found]

    def log(self, namespace: str, pod: str, **options: t.Any) -> str:
        """The log of a container. Raises Unreadable, for example while the container is still starting."""
        return str(self.call("kubernetes.core.k8s_log", namespace=namespace, name=pod, **options)["log"])

    def call(self, module: str, **arguments: t.Any) -> Data:
        """The result of a module. Raises Unreadable."""
        found = self._action._execute_module(module_name=module, module_args=arguments, task_vars=self._task_vars)
        if found.get("failed"):
            raise Unreadable(message(found)[:300])
        return t.cast("Data", found)
