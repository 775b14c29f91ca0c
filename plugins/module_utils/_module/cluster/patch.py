# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Change nodes of a cluster.

``kubernetes.core.k8s`` reads an object before it patches it, and does not notice that someone else changes it then.
"""

from __future__ import annotations

import typing as t

from . import client as cluster_client

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "patches": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "node": {"type": "str", "required": True},
                "patch": {"type": "dict", "required": True},
            },
        }
    }
}
_CONFLICT = 409

Data = t.Dict[str, t.Any]


def run(module: AnsibleModule) -> None:
    nodes = [] if module.check_mode else cluster_client.use(module, patch)
    module.exit_json(changed=bool(module.params["patches"]) if module.check_mode else any(nodes), nodes=nodes)


def patch(module: t.Any) -> t.List[t.Optional[Data]]:
    """The nodes after the patches; None for one that someone else has changed. Raises the client's exceptions."""
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
    from kubernetes.client.exceptions import ApiException

    nodes = get_api_client(module).resource("Node", "v1")
    out: t.List[t.Optional[Data]] = []
    for each in module.params["patches"]:
        try:
            changed = nodes.patch(name=each["node"], body=each["patch"], content_type="application/merge-patch+json")
            out.append(changed.to_dict())
        except ApiException as error:
            if error.status != _CONFLICT:
                raise
            out.append(None)
    return out
