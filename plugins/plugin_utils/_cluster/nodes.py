# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Map hosts to nodes of a cluster, and to the resources that each node should advertise."""

from __future__ import annotations

import base64
import re
import typing as t

from ...module_utils._common.data import Data
from ...module_utils._common.text import did_you_mean, nearest
from ...module_utils._mig import layout as layouts
from .._layout import gpus as layout_gpus
from .._layout import layouts_on_gpus, named, resources
from .._layout import sharing as layout_sharing


class Host(t.NamedTuple):
    """A host in the inventory, with the known facts about its GPUs."""

    name: str
    node_name: str = ""  # gpu_cluster_node_name
    hostname: str = ""  # gpu_node_hostname
    reported: str = ""  # the host name that the node reports, which is only compared
    gpus: t.Optional[t.Sequence[Data]] = None  # from the facts; None if they cannot be read
    boards: t.Sequence[str] = ()
    layout: object = None
    sharing: object = None  # gpu_cluster_sharing
    mig_changed: float = 0.0  # seconds since the epoch


# Variables that host_of reads.
VARIABLES = (
    "ansible_facts",
    "gpu_cluster_node_name",
    "gpu_cluster_sharing",
    "gpu_node_boards",
    "gpu_node_hostname",
    "nvidia_mig_layout",
    "nvidia_mig_layouts",
    "rke2_node_name",
    "gpu_cluster_mig_changed",
)


def host_of(name: str, variables: t.Mapping[str, t.Any]) -> Host:
    """A host with its facts, and what the role gpu_cluster read on it."""
    facts = variables.get("ansible_facts") or {}
    nvidia = facts.get("nvidia")
    gpus = nvidia.get("gpus") if isinstance(nvidia, dict) else None
    # They are unknown, or the node returned something else.
    if not isinstance(gpus, list) or not all(map(layout_gpus.is_fact, gpus)):
        gpus = None
    return Host(
        name=name,
        node_name=str(variables.get("gpu_cluster_node_name") or variables.get("rke2_node_name") or ""),
        hostname=str(variables.get("gpu_node_hostname") or ""),
        reported=str(facts.get("nodename") or "").lower(),
        gpus=gpus,
        boards=list(variables.get("gpu_node_boards") or ()),
        layout=named.resolve(variables.get("nvidia_mig_layout"), variables.get("nvidia_mig_layouts")),
        sharing=variables.get("gpu_cluster_sharing"),
        mig_changed=_seconds(variables.get("gpu_cluster_mig_changed")),
    )


def _seconds(value: t.Any) -> float:
    try:
        return float(value or 0)
    except (TypeError, ValueError, OverflowError):  # a node returned something else
        return 0.0


def name_of(node: t.Mapping[str, t.Any]) -> str:
    """The name of a node, a pod, or any other object."""
    return str(node["metadata"]["name"])


def labels_of(item: t.Mapping[str, t.Any]) -> dict[str, str]:
    """The labels of a node or a pod."""
    return item["metadata"].get("labels") or {}


def node_of(pod: t.Mapping[str, t.Any]) -> str | None:
    """The name of the pod's node; None before it is scheduled."""
    return (pod.get("spec") or {}).get("nodeName")


def kubelet_version(node: Data) -> str:
    """Such as v1.35.7+rke2r1."""
    return str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion"))


def is_rke2(node: Data) -> bool:
    """Whether the node runs RKE2 or k3s."""
    return "+rke2" in kubelet_version(node) or "+k3s" in kubelet_version(node)


def inventory_names(name: str) -> list[str]:
    """The names of a node that the inventory names so: the name in lower case, and its first label."""
    label = name.partition(".")[0]
    return list(dict.fromkeys(each.lower() for each in (name, label) if each == name or not label.isdigit()))


def candidates(host: Host) -> list[str]:
    """The names that the host's node may have, in order of preference. None of them comes from the node itself."""
    return [host.node_name.lower()] if host.node_name else inventory_names(host.hostname or host.name)


def other_hostname(host: Host) -> str:
    """A problem if the node reports another host name than the inventory, and no variable has its name."""
    names = candidates(host)
    if host.node_name or host.hostname or not host.reported:
        return ""
    if host.reported.partition(".")[0] == names[0].partition(".")[0]:
        return ""
    return "the host name is %.70r, and not %s: set gpu_cluster_node_name to %.70r if that is its node" % (
        host.reported,
        " or ".join(names),
        host.reported,
    )


def other_machine(node: Data, machine_id: str) -> str:
    """A problem if the node has another machine ID than the host, which finds mistakes: a host can report any.

    ``machine_id`` is the base64-encoded file /etc/machine-id; empty if it was not read. Raises ValueError.
    """
    host = base64.b64decode(machine_id).decode(errors="replace").strip()
    found = ((node.get("status") or {}).get("nodeInfo") or {}).get("machineID")
    if not host or not found or host == found:
        return ""
    return (
        "node %s is another machine, with the machine ID %s, and that of the host is %s: correct gpu_cluster_node_name"
        % (name_of(node), found, host)
    )


def find(host: Host, names: t.Sequence[str]) -> tuple[str | None, str]:
    """The name of the host's node, or the reason why it has none."""
    tried = candidates(host)
    for name in tried:
        if name in names:
            different = other_hostname(host)
            return (None, different) if different else (name, "")
    reported = [name for name in (host.reported, host.reported.partition(".")[0]) if name in names]
    meant = did_you_mean(reported[:1] or nearest(host.node_name or host.name, names))
    known = ", ".join(sorted(names)[:10]) or "none"
    return None, (
        "the cluster has no node named %s%s: set gpu_cluster_node_name to an existing node (%s)"
        % (", ".join(tried), meant, known)
    )


def nodes_of_hosts(hosts: t.Iterable[Host], names: t.Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The names of the nodes of hosts, by host, and problems by host: no node, or that of another host.

    ``names`` are the nodes of the cluster. Hosts without GPUs need not be nodes, and are omitted.
    """
    found: dict[str, str] = {}
    problems: dict[str, list[str]] = {}
    for host in hosts:
        if host.gpus == []:
            continue
        name, reason = find(host, names)
        if name is None:
            problems[host.name] = [reason]
            continue
        others = [other for other, taken in found.items() if taken == name][:1]
        text = "the host %s has the same node %s: set gpu_cluster_node_name to different nodes"
        problems[host.name] = [text % (other, name) for other in others]
        found[host.name] = name
    return found, problems


def gpus(host: Host) -> list[t.Any]:
    """The GPUs that the driver lists, or the boards before it is installed."""
    listed = [gpu for gpu in host.gpus or () if gpu.get("index") is not None]
    return listed or list(host.boards)


def expected_resources(host: Host, strategy: str) -> dict[str, int] | None:
    """The resources that the node should advertise; None if its GPUs are unknown. Raises LayoutError and Refusal."""
    known = gpus(host)
    if not known:
        return {} if host.gpus == [] else None
    desired = gpu_contents(host)
    mig = any(content.instances is not None for content in desired.values())
    return layout_sharing.advertised(
        resources.resources(desired, strategy), layout_sharing.parse(host.sharing), strategy, mig
    )


def single_profile(host: Host, strategy: str) -> str | None:
    """The profile of all MIG devices of a node with the strategy single; empty if MIG is off.

    None with another strategy, for unknown GPUs, and for profiles with attributes, such as 1g.10gb+me.
    """
    desired = gpu_contents(host).values() if strategy == "single" and gpus(host) else ()
    names = {name for content in desired for name in resources.devices(content) or [""]}
    name = names.pop() if len(names) == 1 else "?"
    return name if not name or re.fullmatch(r"(\d+c\.)?\d+g\.\d+gb", name) else None


def unused(host: Host, strategy: str) -> str:
    """A warning if the strategy does not advertise the MIG instances of the layout; empty otherwise."""
    known = gpus(host)
    if strategy != "none" or not known:
        return ""
    held = [content.label for content in gpu_contents(host).values() if content.instances]
    if not held:
        return ""
    return (
        "%s: with the MIG strategy none, pods get whole GPUs, and the MIG instances of %s remain unused: use the "
        "strategy single or mixed to advertise them" % (host.name, ", ".join(held))
    )


def unshared(host: Host, strategy: str) -> str:
    """A warning if the node does not advertise resources that are to be shared. Raises LayoutError and Refusal."""
    plain = expected_resources(host._replace(sharing=None), strategy)
    why = layout_sharing.unused(plain, layout_sharing.parse(host.sharing)) if plain else ""
    return why and "%s: %s" % (host.name, why)


def gpu_contents(host: Host) -> dict[int, layouts_on_gpus.Content]:
    """The desired contents of all GPUs, by index. Raises LayoutError and Refusal.

    Those that the layout does not name have MIG off if only their board is known.
    """
    known = gpus(host)
    if host.layout is not None:
        return layouts_on_gpus.contents(host.layout, known)
    if all(isinstance(gpu, dict) for gpu in known):
        return layouts_on_gpus.contents(known)
    return layouts_on_gpus.contents([{"devices": "all", "mig_enabled": False}], known)


def layout_contents(host: Host) -> dict[int, layouts_on_gpus.Content]:
    """The desired contents of the GPUs that the layout names."""
    known = gpus(host)
    layout = layouts.parse(host.layout)
    named = layout.resolve(layouts_on_gpus.known_gpus(layout, known))
    return {index: content for index, content in gpu_contents(host).items() if index in named}
