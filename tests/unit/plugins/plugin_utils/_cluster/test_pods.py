# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import pods
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.kubernetes_support import user


def test_init_containers_use_gpus_too() -> None:
    mig, gpu = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu"
    sidecar = {"resources": {"limits": {mig: "1"}}, "restartPolicy": "Always"}
    first = {"resources": {"limits": {gpu: "2"}}}
    assert pods.gpus_of(user("train", 1, initContainers=[sidecar, first])) == {mig: 2, gpu: 2}
