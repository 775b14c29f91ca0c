# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read objects of several kinds from a cluster's API, with the client of kubernetes.core.

``kubernetes.core.k8s_info`` reads one kind, and starting a client takes about a second.
"""

from __future__ import annotations

import typing as t

from ..._common.data import Data
from .names import require_names


def read_objects(client: t.Any, objects: t.Sequence[Data]) -> t.List[Data]:
    """The result for each of the objects: ``resources`` and ``api_found``, or ``msg`` if it was rejected.

    Each has a kind, and may have an api_version, name, namespace, label_selectors and field_selectors. Raises the
    client's exceptions if the API does not respond.
    """
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.exceptions import CoreException
    from ansible_collections.kubernetes.core.plugins.module_utils.k8s.service import K8sService
    from kubernetes.client.exceptions import ApiException

    service = K8sService(client, None)
    results = []
    for each in objects:
        require_names(*(each[key] for key in ("name", "namespace") if each.get(key) is not None))
        require_names(*each.get("api_version", "v1").split("/"))
        try:
            results.append(service.find(**{"api_version": "v1", **each}))
        except CoreException as error:
            if not isinstance(error.__context__, ApiException):
                raise
            results.append({"msg": str(error.__context__)})  # for example, not allowed
    return results
