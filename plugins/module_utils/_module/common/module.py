# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""AnsibleModule for the modules of this collection."""

from __future__ import annotations

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ..._common.printable import printable


class Module(AnsibleModule):  # type: ignore[misc]  # Ansible has no type hints
    """Results and warnings have no control characters: names of processes, logs and annotations may contain them."""

    def exit_json(self, **kwargs: t.Any) -> None:
        super().exit_json(**printable(kwargs))

    def fail_json(self, msg: str, **kwargs: t.Any) -> None:
        super().fail_json(printable(msg), **printable(kwargs))

    def warn(self, warning: str, **kwargs: t.Any) -> None:
        super().warn(printable(warning), **kwargs)
