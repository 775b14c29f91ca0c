# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Conversion of engine errors to Ansible errors, for filters and tests.

For each task that uses a filter of a collection, Ansible loads all filter files of that collection. The filter files
therefore contain only documentation, and import their implementation when they are called.
"""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

from ...module_utils._mig.errors import MigError
from .._common.refusal import Refusal

P = t.ParamSpec("P")
R = t.TypeVar("R")


def refusing(plugin: t.Callable[P, R]) -> t.Callable[P, R]:
    """Raise errors of the engine as AnsibleFilterError."""

    @functools.wraps(plugin)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return plugin(*args, **kwargs)
        except (MigError, Refusal) as error:
            raise AnsibleFilterError(str(error)) from error

    return wrapper
