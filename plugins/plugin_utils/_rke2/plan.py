# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan what the role rke2 does on a node, from variables, groups and the state of the nodes."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from . import config as rke2_config
from . import version as rke2_version
from .drop_in import drop_in_config, drop_in_problems
from .membership import (
    AGENT,
    Membership,
    NodeFacts,
    find_membership,
    name_problems,
    needs_server,
    node_type,
    order_problems,
)
from .release import architecture_problems, archives, download_problems, method_problems, packages

# The directory below which each method installs RKE2.
_PREFIXES = {"tar": "/usr/local", "rpm": "/usr"}


class Outcome(t.NamedTuple):
    """The plan, which is empty if there are problems. Sentences have no full stop."""

    plan: Data
    problems: list[str]
    notices: list[str]


def plan_node(settings: Data, node: NodeFacts) -> Outcome:
    """The plan for a node. ``settings`` has the role's variables without their prefix."""
    kind, problems = node_type(settings, node)
    problems += [*name_problems(settings, node), *method_problems(settings, node), *architecture_problems(node)]
    if not kind:
        return Outcome({}, problems, [])
    membership, found = find_membership(kind, settings, node)
    problems += [
        *found,
        *_node_problems(kind, settings, node),
        *order_problems(membership, settings, node),
        *drop_in_problems(membership, settings),
        *download_problems(kind, settings),
    ]
    if problems:
        return Outcome({}, problems, [])
    notices = rke2_config.key_notices(settings["config"], settings["version"])
    return Outcome(_plan(membership, settings, node), [], notices)


def _plan(membership: Membership, settings: Data, node: NodeFacts) -> Data:
    """What the tasks of the role install and configure."""
    kind, state = membership.kind, node.state
    config = drop_in_config(membership, settings)
    secret = rke2_config.secret_keys(config)
    labels, taints = (rke2_config.texts(config, key) for key in ("node-label", "node-taint"))
    artifacts = archives(settings, node)
    record = _record(kind, settings, config, artifacts["images"])
    return {
        "type": kind,
        "node_name": node.hostname if node.hostname in node.names else node.names[0],
        "service": "rke2-" + kind,
        "creates_cluster": not membership.join,
        "server_url": membership.join,
        "needs_server": needs_server(membership, node),
        "token_host": "" if settings["token"] or not membership.join else membership.token_host,
        # Labels and taints are set there. Without servers in the inventory, they apply only when a node joins.
        "admin_host": membership.token_host,
        "address": settings["api_ip"] or node.addresses.get(node.name, ""),
        "config": {key: value for key, value in config.items() if key not in secret},
        "secret_keys": secret,
        "labels": labels,
        "taints": taints,
        "installs": state["version"] != settings["version"]
        or any(state["recorded"].get(key) != record[key] for key in ("version", "images") if key in record),
        # Agents may join together; running nodes are restarted one at a time.
        "throttle": 0 if kind == AGENT and not state["active"] else 1,
        "ready": "none" not in rke2_config.network_plugins(settings["config"]),
        "cis": record["cis"],
        "etcd_user": bool(config.get("profile")),  # the profile etcd needs no more than this
        "environment_file": "/etc/default/rke2-" + kind,
        "kubeconfig": str(settings["config"].get("write-kubeconfig", "/etc/rancher/rke2/rke2.yaml")),
        "record": record,
        "joined": {
            "server_url": membership.join,
            "labels": labels,
            "taints": taints,
        },
        **artifacts,
        **(packages(kind, settings, node) if settings["install_method"] == "rpm" else {}),
    }


def _record(kind: str, settings: Data, config: Data, images: t.Sequence[str]) -> Data:
    """What the node records of the installation, for undo and the next run."""
    method = settings["install_method"]
    record = {
        "type": kind,
        "data_path": settings["data_path"],
        "method": method,
        "prefix": _PREFIXES[method],
        "images": sorted(path.rpartition("/")[2] for path in [*images, *settings["airgap_copy_additional_tarballs"]]),
        "cis": config.get("profile") == "cis",
    }
    # node_packages records the version of the packages.
    return {**record, "version": settings["version"]} if method == "tar" else record


def _node_problems(kind: str, settings: Data, node: NodeFacts) -> list[str]:
    """Why this version cannot be installed on this node."""
    state = node.state
    recorded = {"method": "tar", **state["recorded"]} if state["recorded"] else {}
    if not state["version"]:
        recorded.pop("method", None)  # a run that failed before it installed RKE2 does not fix the method
    if not state["recorded"] and state["foreign"]:
        return [
            "%s. The role installs RKE2 only on a node without Kubernetes. To keep this installation, remove rke2 from "
            "gpu_node_roles; to let the role install RKE2, uninstall it first" % "; ".join(state["foreign"])
        ]
    problems = rke2_version.version_problems(settings["version"], state["version"])
    for key, variable, value in (
        ("type", "rke2_type", kind),
        ("method", "rke2_install_method", settings["install_method"]),
        ("data_path", "rke2_data_path", settings["data_path"]),
    ):
        if recorded.get(key, value) != value:
            problems.append(
                "%s is %s, but the role installed RKE2 with %s. Undo the role first (undo.yml --tags rke2)"
                % (variable, value, recorded[key])
            )
    return problems + list(state["problems"])
