# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Action plugins outside a play, and the variables of a host."""

from __future__ import annotations

import typing as t
from types import SimpleNamespace

from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu

Data = t.Dict[str, t.Any]
ON_SERVER = {"gpu_cluster_access": {"python": "/usr/bin/python3", "environment": {}, "on_controller": False}}
SEVEN = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]


def action(module: t.Any, name: str, arguments: Data) -> t.Any:
    """The plugin of an action, without a connection; templates are not evaluated."""
    templar = SimpleNamespace(template=lambda value: value)
    task = SimpleNamespace(
        args=arguments, async_val=0, action=name, environment=None, _get_parent_attribute=lambda *_: None
    )
    out = module.ActionModule(
        task, SimpleNamespace(_shell=SimpleNamespace(tmpdir=None, env_prefix=lambda **_: "")), None, None, templar, None
    )
    out._task.check_mode = False
    return out


def host(name: str, **variables: t.Any) -> Data:
    """The variables of a host with a GPU."""
    facts = {"nvidia": {"gpus": [gpu(0)]}, "nodename": name.upper()}
    return {"inventory_hostname": name, "ansible_facts": facts, "nvidia_mig_layout": SEVEN, **variables}
