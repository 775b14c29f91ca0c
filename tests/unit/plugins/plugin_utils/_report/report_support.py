# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports of small fleets."""

from __future__ import annotations

import copy
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._report import build, data, hosts
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu, instance

LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 2}}]
INSTANCES = (instance(2, "3g.40gb", 4, 4), instance(7, "1g.10gb", 0, 1), instance(8, "1g.10gb", 1, 1))


def process(pid: int, gi_id: t.Optional[int] = None, name: str = "python3", pod: t.Optional[str] = None) -> data.Data:
    return {"pid": pid, "name": name, "gi_id": gi_id, "ci_id": None, "pod_uid": pod}


def state(*gpus: data.Data, **changes: t.Any) -> data.Data:
    """What node_state returns; without arguments, of a node with an A100 that matches LAYOUT."""
    shown = [{"processes": [], **each} for each in gpus or (gpu(0, *INSTANCES),)]
    nvidia = {
        "driver": {"version": "580.95.05", "source": "nvml", "problem": None},
        "kernel_module": {"versions_match": True},
        "gpus": shown,
    }
    return {
        "nvidia": {**nvidia, **changes.pop("nvidia", {})},
        "toolkit": {"version": "1.20.1", "problem": None},
        "nodename": "gpu1",
        "drained": False,
        **changes,
    }


def read(name: str = "gpu1", result: t.Optional[data.Data] = None, **variables: t.Any) -> hosts.Read:
    """A host, whose GPUs have their own UUIDs."""
    known = {"nvidia_mig_layout": LAYOUT, **variables}
    found = copy.deepcopy(state() if result is None else result)
    for each in found.get("nvidia", {}).get("gpus") or ():
        each["uuid"] = str(each["uuid"]).replace("GPU-", "GPU-%s-" % name)
    return hosts.of_variables(name, known, found)


def report(*found: hosts.Read, cluster: t.Any = None) -> data.Report:
    return build.report({each.host.name: each for each in found}, cluster)
