# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the action plugins that change a cluster."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import gpu_cluster_drain
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import progress, runs
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import action, host
from ansible_collections.gpufleet.node.tests.unit.plugins.action.cluster_support import Cluster

Data = t.Dict[str, t.Any]


@pytest.fixture(name="run")
def fixture_run(monkeypatch: pytest.MonkeyPatch) -> t.Callable[..., Data]:
    """Run an action plugin on a cluster, whose time passes only while the plugin sleeps."""

    def run(
        module: t.Any, cluster: Cluster, check: bool = False, variables: t.Optional[Data] = None, **arguments: t.Any
    ) -> Data:
        monkeypatch.setattr(progress.time, "monotonic", lambda: cluster.now)
        monkeypatch.setattr(progress.time, "sleep", lambda seconds: setattr(cluster, "now", cluster.now + seconds))
        monkeypatch.setattr(module, "show", cluster.shown.append)
        given = {"gpus": []} if module is gpu_cluster_drain else {}
        monkeypatch.setattr(runs, "current", lambda: cluster.run)
        arguments = {"timeout": 20, "takeover": 3600, **given, **arguments}
        known = {name: value for name, value in arguments.items() if name in module.ActionModule.ARGUMENTS}
        others = {"gpu_cluster_drain_" + name: value for name, value in arguments.items() if name not in known}
        found = action(module, "x", known)
        found._execute_module, found._task.check_mode, cluster.check = cluster, check, check
        result: Data = found.run(task_vars=host("a", **others, **(variables or {})))
        return result

    return run
