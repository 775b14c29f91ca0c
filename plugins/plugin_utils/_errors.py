# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""How filters and tests fail: with the engine's message, which names what is wrong and the remedy."""

from __future__ import annotations

import functools
import typing as t

from ansible.errors import AnsibleFilterError

from ..module_utils._mig.errors import MigError
from ._boards import BoardError
from ._driver_error import DriverRefusal
from ._openpgp import KeyProblem

P = t.ParamSpec("P")
R = t.TypeVar("R")


def refusing(plugin: t.Callable[P, R]) -> t.Callable[P, R]:
    """Turn what the engine refuses into the error that Ansible shows."""

    @functools.wraps(plugin)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return plugin(*args, **kwargs)
        except (MigError, BoardError, DriverRefusal, KeyProblem) as error:
            raise AnsibleFilterError(str(error)) from error

    return wrapper
