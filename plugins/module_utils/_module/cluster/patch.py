# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Change nodes of a cluster.

``kubernetes.core.k8s`` reads an object before it patches it, and does not notice that someone else changes it then.
"""

from __future__ import annotations

import typing as t

from ..._common.data import Data
from .names import require_names

_CONFLICT = 409


def patch_nodes(client: t.Any, patches: t.Sequence[Data], check_mode: bool) -> t.List[t.Optional[Data]]:
    """The nodes after the patches; None for one that someone else has changed. Raises the client's exceptions.

    In check mode, as they would be.
    """
    from kubernetes.client.exceptions import ApiException

    nodes = client.resource("Node", "v1")
    out: t.List[t.Optional[Data]] = []
    for each in patches:
        require_names(each["node"])
        try:
            changed = nodes.patch(
                name=each["node"],
                body=each["patch"],
                content_type="application/merge-patch+json",
                **({"dry_run": "All"} if check_mode else {}),
            )
            out.append(changed.to_dict())
        except ApiException as error:
            if error.status != _CONFLICT:
                raise
            out.append(None)
    return out
