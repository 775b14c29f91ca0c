# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What action plugins show. It has no control characters: annotations, logs and names may contain them."""

from __future__ import annotations

import functools
import time
import typing as t

from ansible.errors import AnsibleError
from ansible.utils.display import Display

from ...module_utils._common.printable import printable

P = t.ParamSpec("P")


def show(text: str) -> None:
    Display().display(printable(text))


def clean(run: t.Callable[P, dict[str, t.Any]]) -> t.Callable[P, dict[str, t.Any]]:
    """Remove control characters from the result of an action plugin, and from the errors that it raises."""

    @functools.wraps(run)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> dict[str, t.Any]:
        try:
            return t.cast("dict[str, t.Any]", printable(run(*args, **kwargs)))
        except AnsibleError as error:
            if printable(str(error)) == str(error):
                raise
            raise AnsibleError(printable(str(error))) from None

    return wrapper


class Reasons:
    """Shows why something is not complete, again if it changes, and at least once a minute."""

    _REPEATED = 60  # seconds

    def __init__(self, show: t.Callable[[str], object]) -> None:
        self._show, self._shown, self._at = show, "", 0.0

    def show(self, title: str, reason: str) -> None:
        now = time.monotonic()
        if reason != self._shown or now - self._at > self._REPEATED:
            self._show("%s: %s" % (title, reason))
            self._shown, self._at = reason, now
