# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read objects of several kinds from a cluster's API, with the client of kubernetes.core.

``kubernetes.core.k8s_info`` reads one kind, and starting a client takes about a second.
"""

from __future__ import annotations

import typing as t

from . import client as cluster_client

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "objects": {
            "type": "list",
            "elements": "dict",
            "required": True,
            "options": {
                "api_version": {"type": "str", "default": "v1"},
                "kind": {"type": "str", "required": True},
                "name": {"type": "str"},
                "namespace": {"type": "str"},
                "label_selectors": {"type": "list", "elements": "str", "default": []},
                "field_selectors": {"type": "list", "elements": "str", "default": []},
            },
        }
    }
}

Data = t.Dict[str, t.Any]


def run(module: AnsibleModule) -> None:
    module.exit_json(changed=False, results=cluster_client.use(module, read))


def read(module: t.Any) -> t.List[Data]:
    """The result for each of the module's objects: ``resources`` and ``api_found``, or ``msg`` if it was rejected.

    Raises the client's exceptions if the API does not respond.
    """
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.client import get_api_client
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.service import K8sService
    from kubernetes.client.exceptions import ApiException

    service = K8sService(get_api_client(module), module)
    results = []
    for wanted in module.params["objects"]:
        try:
            results.append(service.find(**wanted))
        except CoreException as error:
            if not isinstance(error.__context__, ApiException):
                raise
            results.append({"msg": str(error.__context__)})  # for example, not allowed
    return results
