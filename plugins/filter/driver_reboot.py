# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_reboot
short_description: Whether a reboot brings an installed NVIDIA driver into the kernel
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
description:
  - Internal to the collection's roles.
  - A reboot does not help where the kernel rejects the module's signature, nor where the node has been rebooted for the
    same driver before.
positional: _input, loaded, boot_id
options:
  _input:
    description: The version of the driver that is installed.
    type: str
    required: true
  loaded:
    description: The version of the kernel module that is loaded, or V(null).
    type: str
    required: true
  boot_id:
    description: The id of the current boot.
    type: str
    required: true
  modprobe:
    description: What C(modprobe) wrote where it failed.
    type: str
    default: ""
  nouveau:
    description: Whether C(nouveau) is loaded.
    type: bool
    default: false
  secure_boot:
    description: State of Secure Boot, as M(gpufleet.node.nvidia_driver_facts) returns it.
    type: str
  rebooted:
    description: The role's last reboot, with the driver's C(version) that it was for and the C(boot_id) before it.
    type: dict
"""

EXAMPLES = r"""
- name: Show whether a reboot helps
  ansible.builtin.debug:
    msg: "{{ ('580.126.20' | gpufleet.node.driver_reboot(none, boot_id)).reason }}"
"""

RETURN = r"""
_value:
  description: Whether a reboot is C(required), whether it C(helps), and the C(reason).
  type: dict
"""

import typing as t


def driver_reboot(
    installed: str,
    loaded: str | None,
    boot_id: str,
    modprobe: str = "",
    nouveau: bool = False,
    secure_boot: str | None = None,
    rebooted: dict[str, str] | None = None,
) -> dict[str, t.Any]:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _driver_reboot  # see _errors

    return _driver_reboot.decide(installed, loaded, boot_id, modprobe, nouveau, secure_boot, rebooted)._asdict()


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"driver_reboot": driver_reboot}
