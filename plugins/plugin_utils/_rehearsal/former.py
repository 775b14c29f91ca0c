# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The layouts of a former inventory, as starts of a rehearsal."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.vars.manager import VariableManager

from .._common.refusal import Refusal
from .._layout import named
from .start import Start

_VARIABLES = ("nvidia_mig_layout", "nvidia_mig_layouts")


def starts(path: Path, hosts: t.Sequence[str], loader: t.Any, templar: t.Any) -> dict[str, Start]:
    """What each host starts from. ``loader`` and ``templar`` are those of an action. Raises Refusal."""
    inventory = InventoryManager(loader=loader, sources=[str(path)])
    manager = VariableManager(loader=loader, inventory=inventory)
    manager._extra_vars = {}  # of the inventory that is rehearsed
    if not inventory.hosts:
        raise Refusal("rehearse_from: %s has no hosts: give a former inventory or a report's JSON" % path)
    return {host: _start(manager, inventory.get_host(host), templar) for host in hosts}


def _start(manager: VariableManager, host: t.Any, templar: t.Any) -> Start:
    if host is None:
        return Start(notes=["the former inventory does not have the host: it starts from empty GPUs"])
    values = manager.get_vars(host=host, include_hostvars=False)
    try:
        own = templar.copy_with_new_env(available_variables=values)
        layout, layouts = (own.template(values.get(name)) for name in _VARIABLES)
    except Exception as error:  # templates and vaults can raise any exception
        return Start(
            notes=["it starts from empty GPUs, because its former nvidia_mig_layout cannot be read: %s" % error]
        )
    return Start(layout=named.resolve(layout, layouts))
