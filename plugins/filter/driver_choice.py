# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: driver_choice
short_description: Which version of a driver a node should get
version_added: 0.1.0
author: The gpufleet.node authors (@gpufleet)
extends_documentation_fragment: [gpufleet.node._driver_packages]
description:
  - Chooses one version for all packages of a driver, from what a node has and what its package sources offer.
  - A version that was asked for is taken. Otherwise one that is installed and of the branch stays, unless O(upgrade).
    Otherwise it is the newest of the branch that all packages are offered in.
  - Fails where no version fits all packages, where it is too old for a board, and where somebody holds a package.
positional: _input, offers, plan, manager
options:
  _input:
    description: What the node has, as the filter P(gpufleet.node.driver_status#filter) takes it.
    type: str
    required: true
  offers:
    description:
      - What the package sources offer. With O(manager=apt), the output of C(apt-cache madison). With O(manager=dnf), lines of
        name, version and architecture.
    type: str
    required: true
  upgrade:
    description: Whether to leave an installed version for a newer one of the same branch.
    type: bool
    default: false
  own_holds:
    description: Packages that the role itself holds. Others that are held stand in the way.
    type: list
    elements: str
    default: []
  locks:
    description:
      - What others have dnf's plugin versionlock lock or exclude, in lines as its file has them. Such locks of the driver
        stand in the way.
    type: str
    default: ""
seealso:
  - plugin: gpufleet.node.driver_plan
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show which version would be installed
  ansible.builtin.debug:
    msg: "{{ (listed.stdout | gpufleet.node.driver_choice(offered.stdout, plan, 'apt')).version }}"
    # -> 535.309.01
"""

RETURN = r"""
_value:
  description:
    - The C(version), what to C(install) as the package manager takes it (nothing where all is there), whether that is a
      C(downgrade), and what to install with it C(if_it_fits).
  type: dict
  sample:
    version: 535.309.01
    install: [nvidia-smi=535.309.01-0+deb12u1]
    downgrade: false
    if_it_fits: []
"""

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._errors import refusing

Data = dict[str, t.Any]


@refusing
def driver_choice(
    text: str,
    offers: str,
    plan: Data,
    manager: str,
    upgrade: bool = False,
    own_holds: t.Sequence[str] = (),
    independent: t.Sequence[str] = (),
    locks: str = "",
) -> Data:
    from ansible_collections.gpufleet.node.plugins.plugin_utils import _driver_packages  # see _errors

    packages = _driver_packages.parse(text, manager)
    offered = _driver_packages.offers(offers, manager)
    return _driver_packages.choose(
        packages, offered, plan, manager, upgrade, own_holds, independent, locks.splitlines()
    )._asdict()


class FilterModule:
    def filters(self) -> dict[str, t.Callable[..., t.Any]]:
        return {"driver_choice": driver_choice}
