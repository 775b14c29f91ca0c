# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The layouts of a former inventory, as starts of a rehearsal."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible.inventory.manager import InventoryManager
from ansible.module_utils.common.yaml import yaml_load
from ansible.vars.manager import VariableManager

from .._common.refusal import Refusal
from .._layout import named
from .start import Start

_VARIABLES = ("nvidia_mig_layout", "nvidia_mig_layouts")
_UNREADABLE = (
    "rehearse_from: %s cannot be read: %s. Encrypted files need the vault's password. To rehearse an inventory whose "
    "former state is broken, give rehearse_from=empty"
)


def starts(path: Path, hosts: t.Sequence[str], loader: t.Any, templar: t.Any) -> tuple[dict[str, Start], list[str]]:
    """What each host starts from, and the hosts of the former inventory. Raises Refusal.

    ``loader`` and ``templar`` are those of an action.
    """
    try:
        if path.is_file():
            _require_whole(path.read_bytes())
        inventory = InventoryManager(loader=loader, sources=[str(path)])
        manager = VariableManager(loader=loader, inventory=inventory)
        manager._extra_vars = {}  # of the inventory that is rehearsed
        known = {host: inventory.hosts[host] for host in hosts if host in inventory.hosts}
        variables = {host: manager.get_vars(host=known[host], include_hostvars=False) for host in known}
    except Exception as error:  # inventory plugins, YAML and vaults can raise any exception
        raise Refusal(_UNREADABLE % (path, " ".join(str(error).split()).rstrip("."))) from error
    return {host: _start(variables.get(host), templar) for host in hosts}, list(inventory.hosts)


def _require_whole(content: bytes) -> None:
    """Raises an error for truncated JSON, which Ansible may read as an inventory in INI format."""
    if not content.lstrip().startswith(b"{"):
        return
    try:
        json.loads(content)
    except ValueError as error:
        try:
            yaml_load(content.decode("utf-8"))
        except Exception:  # of YAML
            raise ValueError("it is neither JSON (%s) nor an inventory" % error) from None


def _start(values: t.Mapping[str, t.Any] | None, templar: t.Any) -> Start:
    if values is None:
        return Start(notes=["the former inventory does not have the host: it starts from empty GPUs"])
    try:
        own = templar.copy_with_new_env(available_variables=values)
        layout, layouts = (own.template(values.get(name)) for name in _VARIABLES)
    except Exception as error:  # templates and vaults can raise any exception
        return Start(
            notes=["it starts from empty GPUs, because its former nvidia_mig_layout cannot be read: %s" % error]
        )
    return Start(layout=named.resolve(layout, layouts))
