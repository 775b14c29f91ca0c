# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Commands that modules run on the node."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

MISSING = 127  # the shell's status for a program that is not installed

# Runs a command. Returns exit status, standard output and standard error.
Run = t.Callable[[t.Sequence[str]], t.Tuple[int, str, str]]


def runner(module: AnsibleModule) -> Run:
    def run(argv: t.Sequence[str]) -> t.Tuple[int, str, str]:
        program = module.get_bin_path(argv[0])
        if not program:
            return MISSING, "", "%s is not installed" % argv[0]
        return t.cast(
            "t.Tuple[int, str, str]", module.run_command([program, *argv[1:]], environ_update={"LC_ALL": "C"})
        )

    return run
