# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables that contradict the use of the DRA driver."""

from __future__ import annotations

from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import Host
from ansible_collections.gpufleet.node.plugins.plugin_utils._drain import dra_variables


def test_variables_that_contradict_the_dra_driver() -> None:
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1c.3g.40gb": 3}}]
    own = Host("a", boards=["A100-80GB"], layout=layout)
    wrong = {
        "gpu_cluster_allocator": "dra",
        "gpu_cluster_managed": True,
        "gpu_cluster_sharing": {"timeSlicing": {}},
        "nvidia_mig_owner": "operator",
        "device_plugin_version": "0.20.0",
    }
    found = dra_variables.variable_problems(own, wrong)
    words = ("device_plugin_version", "managed_cluster", "nvidia_mig_owner", "gpu_cluster_sharing", "gpu_cluster_drain")
    assert all(word in text for word, text in zip(words, found))
    assert found[5].endswith("use 3g.40gb") and len(found) == 6
    right = {"gpu_cluster_allocator": "dra", "gpu_cluster_drain": "yes"}
    twice = own._replace(boards=["A100-80GB"] * 2, layout=[dict(layout[0], mig_devices={"1c.3g.40gb": 6})])
    (shared,) = dra_variables.variable_problems(twice, right)
    assert shared.startswith("GPU 0 (A100-80GB), GPU 1 (A100-80GB): gpu_cluster_allocator is dra")
    whole = own._replace(layout=[{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 2}}])
    assert dra_variables.variable_problems(whole, right) == []
    assert (
        dra_variables.variable_problems(own._replace(layout=[{"devices": "all", "mig_devices": {"9g.1gb": 1}}]), right)
        == []
    )
    assert dra_variables.variable_problems(own, {**wrong, "gpu_cluster_allocator": "device_plugin"}) == []
