# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Decide whether a reboot brings the installed driver into the kernel."""

from __future__ import annotations

import re
import typing as t

# What modprobe says of a module whose signature the kernel does not accept.
_REJECTED = re.compile(
    r"Key was rejected|Required key not available|module is rejected|Operation not permitted", re.IGNORECASE
)
_LOG = "Read journalctl -k -g 'nvidia|NVRM|nouveau' on the node."


class Decision(t.NamedTuple):
    required: bool
    helps: bool
    reason: str


def decide(
    installed: str,
    loaded: t.Optional[str],
    boot_id: str,
    modprobe: str = "",
    nouveau: bool = False,
    secure_boot: t.Optional[str] = None,
    rebooted: t.Optional[t.Mapping[str, str]] = None,
) -> Decision:
    """``rebooted`` is the role's last reboot, if any: the driver that it was for, and the boot that it ended.

    A node is never rebooted twice for one driver, nor for a module that no reboot can load.
    """
    if loaded == installed:
        return Decision(False, False, "driver %s is installed and loaded" % installed)
    state = "kernel module %s is loaded" % loaded if loaded else "no kernel module of it is loaded"
    state = "driver %s is installed, and %s" % (installed, state + (" but nouveau" if nouveau else ""))
    said = " (%s)" % " ".join(modprobe.split()) if modprobe.strip() else ""
    if loaded is None and _REJECTED.search(modprobe):
        return Decision(
            True,
            False,
            "%s: the kernel rejects its signature%s, and Secure Boot is %s. A reboot does not help. Enroll the key that "
            "DKMS signs with (mokutil --import, then confirm at the console during a reboot), or take signed modules "
            "with nvidia_driver_module_build, or switch Secure Boot off."
            % (state, said, secure_boot or "in an unknown state"),
        )
    if rebooted and rebooted.get("version") == installed and rebooted.get("boot_id") != boot_id:
        return Decision(
            True,
            False,
            "%s%s although the node was rebooted for that: it is not rebooted again. Secure Boot is %s. %s Reboot the "
            "node yourself once the cause is removed." % (state, said, secure_boot or "in an unknown state", _LOG),
        )
    return Decision(True, True, "%s%s: the node has to be rebooted" % (state, said))
