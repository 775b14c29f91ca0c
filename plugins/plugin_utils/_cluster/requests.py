# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Requests to the API from the controller, by the client itself, or from another host, by modules.

A module takes half a second to import the client, which would triple the processor time of a rollout. Here it is
imported once, into the process of which each task is a copy.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import typing as t

from ...module_utils._common.data import Data
from ...module_utils._module.cluster.client import Client, Failure
from ...module_utils._module.cluster.objects import read_objects
from ...module_utils._module.cluster.patch import patch_nodes
from ...module_utils._module.cluster.pods import remove_pods
from .responses import error_of

T = t.TypeVar("T")
Run = t.Callable[..., Data]  # a module with its arguments; raises Unreadable

# Only a server may have it, or one that works.
with contextlib.suppress(Exception):
    importlib.import_module("ansible_collections.kubernetes.core.plugins.module_utils.k8s.service")


class Requests(t.Protocol):
    """What the modules gpu_cluster_objects, gpu_cluster_patch and gpu_cluster_pods return. All raise Unreadable."""

    def objects(self, requested: t.Sequence[Data]) -> list[Data]: ...

    def patch(self, patches: t.Sequence[Data]) -> list[Data | None]: ...

    def remove(self, state: str, pods: t.Sequence[Data], grace_period: int) -> list[Data]: ...

    def close(self) -> None: ...


class ByModules:
    def __init__(self, run: Run) -> None:
        self._run = run

    def objects(self, requested: t.Sequence[Data]) -> list[Data]:
        return t.cast("list[Data]", self._run("gpufleet.node.gpu_cluster_objects", objects=list(requested))["results"])

    def patch(self, patches: t.Sequence[Data]) -> list[Data | None]:
        return t.cast("list[Data | None]", self._run("gpufleet.node.gpu_cluster_patch", patches=patches)["nodes"])

    def remove(self, state: str, pods: t.Sequence[Data], grace_period: int) -> list[Data]:
        found = self._run("gpufleet.node.gpu_cluster_pods", state=state, pods=pods, grace_period=grace_period)
        return t.cast("list[Data]", found["rejected"])

    def close(self) -> None:
        pass


class ByClient:
    def __init__(self, environment: t.Mapping[str, str], check_mode: bool) -> None:
        os.environ.update(environment)  # of this task's process
        # The client writes certificates and keys to files, which it does not remove where Ansible ends a task.
        self._files = tempfile.TemporaryDirectory(dir=environment.get("TMPDIR"))
        tempfile.tempdir = self._files.name
        self._client, self._check_mode = Client(), check_mode

    def objects(self, requested: t.Sequence[Data]) -> list[Data]:
        return self._use(read_objects, requested)

    def patch(self, patches: t.Sequence[Data]) -> list[Data | None]:
        return self._use(patch_nodes, patches, self._check_mode)

    def remove(self, state: str, pods: t.Sequence[Data], grace_period: int) -> list[Data]:
        _accepted, rejected = self._use(remove_pods, state, pods, grace_period, self._check_mode)
        return rejected

    def close(self) -> None:
        tempfile.tempdir = None  # the process may run the task again, for the next item of its loop
        self._files.cleanup()

    def _use(self, function: t.Callable[..., T], *arguments: t.Any) -> T:
        try:
            return self._client.use(function, *arguments)
        except Failure as error:
            raise error_of({"msg": str(error)}) from None


def of_task(action: t.Any, run: Run) -> Requests:
    """How an action plugin sends requests from the host of its task."""
    given: Data = {}
    action._compute_environment_string(given)
    is_local = getattr(action._connection, "transport", None) == "local" and not action._play_context.become
    if is_local and "KUBECONFIG" not in given:  # which the client reads when it is imported
        return ByClient({name: str(value) for name, value in given.items()}, action._task.check_mode)
    return ByModules(run)
