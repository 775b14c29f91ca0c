# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Requests to the API from the controller, by the client itself, or from another host, by a module.

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
from ...module_utils._module.cluster.requests import send
from .responses import error_of

Run = t.Callable[..., Data]  # a module with its arguments; raises Unreadable

# Only a server may have it, or one that works.
with contextlib.suppress(Exception):
    importlib.import_module("ansible_collections.kubernetes.core.plugins.module_utils.k8s.service")


class ByModule:
    """The module gpu_cluster_requests sends the requests, from the host of the task."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def send(self, requests: t.Sequence[Data]) -> list[Data]:
        """The results, as the module describes them. Raises Unreadable."""
        return t.cast("list[Data]", self._run("gpufleet.node.gpu_cluster_requests", requests=requests)["results"])

    def close(self) -> None:
        pass


class ByClient:
    """The same in the process of the task, without the module."""

    def __init__(self, environment: t.Mapping[str, str], check_mode: bool) -> None:
        os.environ.update(environment)  # of this task's process
        # The client writes certificates and keys to files, which it does not remove where Ansible ends a task.
        self._files = tempfile.TemporaryDirectory(dir=environment.get("TMPDIR"))
        tempfile.tempdir = self._files.name
        self._client, self._check_mode = Client(), check_mode

    def send(self, requests: t.Sequence[Data]) -> list[Data]:
        try:
            return self._client.use(send, requests, self._check_mode)
        except Failure as error:
            raise error_of({"msg": str(error)}) from None

    def close(self) -> None:
        tempfile.tempdir = None  # the process may run the task again, for the next item of its loop
        self._files.cleanup()


def of_task(action: t.Any, run: Run) -> ByModule | ByClient:
    """How an action plugin sends requests from the host of its task."""
    given: Data = {}
    action._compute_environment_string(given)
    is_local = getattr(action._connection, "transport", None) == "local" and not action._play_context.become
    if is_local and "KUBECONFIG" not in given:  # which the client reads when it is imported
        return ByClient({name: str(value) for name, value in given.items()}, action._task.check_mode)
    return ByModule(run)
