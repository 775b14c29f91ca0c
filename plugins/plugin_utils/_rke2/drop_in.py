# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The file with which the role configures RKE2, and problems of the variables that it is made of."""

from __future__ import annotations

import re

from ...module_utils._common.data import Data
from .._inventory import kubernetes_values
from . import config as rke2_config
from .membership import SERVER, Membership

_DATA_PATH = "/var/lib/rancher/rke2"
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")


def drop_in_problems(membership: Membership, settings: Data) -> list[str]:
    """Problems of the variables that become RKE2's configuration."""
    config = settings["config"]
    problems = [
        *rke2_config.key_problems(config, settings["version"]),
        *rke2_config.value_problems(config),
        *kubernetes_values.label_problems("rke2_node_labels", settings["node_labels"]),
        *kubernetes_values.label_problems("rke2_config, key node-label", rke2_config.texts(config, "node-label")),
        *kubernetes_values.taint_problems("rke2_server_node_taints", settings["server_node_taints"]),
        *kubernetes_values.taint_problems("rke2_agent_node_taints", settings["agent_node_taints"]),
        *kubernetes_values.taint_problems("rke2_config, key node-taint", rke2_config.texts(config, "node-taint")),
    ]
    for key, variables in _own_keys(membership.kind, settings).items():
        if key in config:
            problems.append("rke2_config sets %s, and so does %s: use one of them" % (key, variables))
    servers = len(membership.servers)
    if membership.kind == SERVER and servers % 2 == 0 and "datastore-endpoint" not in config:
        problems.append(
            "the group %s has %d servers: etcd needs an odd number, because an even number does not tolerate more "
            "failures. Add or remove one" % (settings["servers_group_name"], servers)
        )
    if "/" in settings["api_ip"]:
        problems.append("rke2_api_ip is %s: give an address or a name, not a URL" % settings["api_ip"])
    for place, option in enumerate(settings["environment_options"], 1):
        if not _ASSIGNMENT.fullmatch(str(option)):
            problems.append("rke2_environment_options, entry %d: give NAME=value" % place)
    return problems


def drop_in_config(membership: Membership, settings: Data) -> Data:
    """The content of the drop-in, including secrets."""
    config: Data = {}
    if settings["data_path"] != _DATA_PATH:
        config["data-dir"] = settings["data_path"]
    if settings["node_name"]:
        config["node-name"] = settings["node_name"]
    if membership.join:
        config["server"] = membership.join
    values = {
        "node-label": settings["node_labels"],
        "node-taint": settings["%s_node_taints" % membership.kind],
        "tls-san": [*filter(None, [settings["api_ip"]]), *settings["additional_sans"]],
    }
    config.update({key: [str(each) for each in values[key]] for key in _own_keys(membership.kind, settings)})
    return {**config, **rke2_config.config_for_type(settings["config"], membership.kind)}


def _own_keys(kind: str, settings: Data) -> dict[str, str]:
    """The keys that the role's variables set, with the names of the variables."""
    found = {}
    if settings["node_labels"]:
        found["node-label"] = "rke2_node_labels"
    if settings["%s_node_taints" % kind]:
        found["node-taint"] = "rke2_%s_node_taints" % kind
    if kind == SERVER and (settings["additional_sans"] or settings["api_ip"]):
        found["tls-san"] = "rke2_additional_sans" if settings["additional_sans"] else "rke2_api_ip"
    return found
