# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan what the role rke2 does on a node, from variables, groups and the state of the nodes."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ...module_utils._common.data import Data
from .._inventory import kubernetes_values
from . import config as rke2_config
from . import version as rke2_version

SERVER, AGENT = "server", "agent"
PORT = 9345
_DATA_PATH = "/var/lib/rancher/rke2"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")
# The directory below which each method installs RKE2.
PREFIXES = {"tar": "/usr/local", "rpm": "/usr"}
_ENTERPRISE_LINUX = ("8", "9", "10")  # major versions with packages
_RPM_SITE = "https://rpm.rancher.io/"
# Variables that the packages set in /etc/sysconfig, which the units read after /etc/default.
_RPM_ENVIRONMENT = ("HOME", "RKE2_SELINUX")


class NodeFacts(t.NamedTuple):
    """A node, and the known facts about its cluster."""

    name: str
    names: t.Sequence[str]  # that it may have in the cluster, according to the inventory
    hostname: str  # that it reports or will have, in lower case; RKE2's default for its name in the cluster
    architecture: str
    distribution: str  # with its version, for messages
    enterprise_linux: str  # the major version; empty for other distributions
    groups: t.Mapping[str, t.Sequence[str]]
    play_hosts: t.Sequence[str]  # all hosts of the play, in its order
    addresses: t.Mapping[str, str]  # known default addresses of hosts
    states: t.Mapping[str, t.Mapping[str, t.Any]]  # results of rke2_state, without those of unreachable hosts

    @property
    def state(self) -> t.Mapping[str, t.Any]:
        return self.states[self.name]


class Outcome(t.NamedTuple):
    """The plan, which is empty if there are problems. Sentences have no full stop."""

    plan: Data
    problems: list[str]
    notices: list[str]


class _Cluster(t.NamedTuple):
    """The node's place in the cluster."""

    kind: str
    servers: list[str]
    join: str  # the server to join, as a URL; empty on the server that creates the cluster
    token_host: str  # the server that has the token


def plan_node(settings: Data, node: NodeFacts) -> Outcome:
    """The plan for a node. ``settings`` has the role's variables without their prefix."""
    kind, problems = _kind(settings, node)
    problems += [*_name_problems(settings, node), *_method_problems(settings, node), *_architecture_problems(node)]
    if not kind:
        return Outcome({}, problems, [])
    servers = list(node.groups.get(settings["servers_group_name"], ()))
    cluster, found = _cluster(kind, servers, settings, node)
    problems += [
        *found,
        *_node_problems(kind, settings, node),
        *_order_problems(cluster, settings, node),
        *_config_problems(kind, servers, settings),
        *_download_problems(settings, kind),
    ]
    if problems:
        return Outcome({}, problems, [])
    return Outcome(_plan(cluster, settings, node), [], rke2_config.key_notices(settings["config"], settings["version"]))


def _plan(cluster: _Cluster, settings: Data, node: NodeFacts) -> Data:
    """What the tasks of the role install and configure."""
    kind, state = cluster.kind, node.state
    config = _config(cluster, settings)
    secret = rke2_config.secret_keys(config)
    labels, taints = (rke2_config.texts(config, key) for key in ("node-label", "node-taint"))
    artifacts = _artifacts(settings, _ARCHITECTURES[node.architecture])
    record = _record(kind, settings, config, artifacts["images"])
    return {
        "type": kind,
        "node_name": node.hostname if node.hostname in node.names else node.names[0],
        "service": "rke2-" + kind,
        "creates_cluster": not cluster.join,
        "server_url": cluster.join,
        "needs_server": _needs_server(cluster, node),
        "token_host": "" if settings["token"] or not cluster.join else cluster.token_host,
        # Labels and taints are set there. Without servers in the inventory, they apply only when a node joins.
        "admin_host": cluster.token_host,
        "address": settings["api_ip"] or node.addresses.get(node.name, ""),
        "config": {key: value for key, value in config.items() if key not in secret},
        "secret_keys": secret,
        "labels": labels,
        "taints": taints,
        "installs": state["version"] != settings["version"]
        or any(state["recorded"].get(key) != record[key] for key in ("version", "images") if key in record),
        # Agents may join together; running nodes are restarted one at a time.
        "throttle": 0 if kind == AGENT and not state["active"] else 1,
        "ready": "none" not in _list(settings["config"].get("cni", "canal")),
        "cis": record["cis"],
        "etcd_user": bool(config.get("profile")),  # the profile etcd needs no more than this
        "environment_file": "/etc/default/rke2-" + kind,
        "kubeconfig": str(settings["config"].get("write-kubeconfig", "/etc/rancher/rke2/rke2.yaml")),
        "record": record,
        "joined": {
            "server_url": cluster.join,
            "labels": labels,
            "taints": taints,
        },
        **artifacts,
        **(_packages(kind, settings, node) if settings["install_method"] == "rpm" else {}),
    }


def _record(kind: str, settings: Data, config: Data, images: t.Sequence[str]) -> Data:
    """What the node records of the installation, for undo and the next run."""
    method = settings["install_method"]
    record = {
        "type": kind,
        "data_path": settings["data_path"],
        "method": method,
        "prefix": PREFIXES[method],
        "images": sorted(path.rpartition("/")[2] for path in [*images, *settings["airgap_copy_additional_tarballs"]]),
        "cis": config.get("profile") == "cis",
    }
    # node_packages records the version of the packages.
    return {**record, "version": settings["version"]} if method == "tar" else record


def _architecture_problems(node: NodeFacts) -> list[str]:
    if node.architecture in _ARCHITECTURES:
        return []
    known = ", ".join(sorted(_ARCHITECTURES))
    return ["RKE2 does not support the architecture %s, only %s" % (node.architecture, known)]


def _kind(settings: Data, node: NodeFacts) -> tuple[str, list[str]]:
    """Whether the node is a server or an agent."""
    names = {SERVER: settings["servers_group_name"], AGENT: settings["agents_group_name"]}
    member = [kind for kind, name in names.items() if node.name in node.groups.get(name, ())]
    if len(member) == 2:
        return "", ["the host is in both groups %s and %s: remove it from one of them" % tuple(names.values())]
    requested = settings["type"]
    if requested == "auto":
        if member:
            return member[0], []
        return "", [
            "the host is neither in the group %s (rke2_servers_group_name) nor in %s (rke2_agents_group_name): add it "
            "to one, or set rke2_type to agent" % tuple(names.values())
        ]
    if requested == SERVER and member != [SERVER]:
        return "", [
            "rke2_type is server, but the host is not in the group %s (rke2_servers_group_name): add it" % names[SERVER]
        ]
    if requested == AGENT and member == [SERVER]:
        return "", [
            "rke2_type is agent, but the host is in the group %s (rke2_servers_group_name): remove it" % names[SERVER]
        ]
    return requested, []


def _cluster(kind: str, servers: list[str], settings: Data, node: NodeFacts) -> tuple[_Cluster, list[str]]:
    """Find the server to join. The first server of the group creates the cluster, unless another server has one."""
    first = servers[0] if servers else ""
    with_data = [host for host in servers if node.states.get(host, {}).get("has_cluster")]
    token_host = with_data[0] if with_data else first
    joined = node.state["recorded"].get("server_url")
    if kind == SERVER and node.state["has_cluster"] and joined is not None:
        return _Cluster(kind, servers, str(joined), token_host), []  # RKE2 now ignores other values
    target = first
    if kind == SERVER:
        unknown = [host for host in servers if host not in node.states]
        if unknown:
            return _Cluster(kind, servers, "", first), [
                "%s cannot be reached, so it is unknown whether the cluster exists. Make it reachable, or remove it from "
                "the group %s" % (", ".join(unknown), settings["servers_group_name"])
            ]
        others = [host for host in with_data if host != node.name]
        if node.name == first and not others:
            return _Cluster(kind, servers, "", first), []
        target = others[0] if node.name == first else first
    address = settings["api_ip"] or node.addresses.get(target, "")
    if not address:
        return _Cluster(kind, servers, "?", token_host), [
            "the address of the server to join is unknown: set rke2_api_ip, or add the servers to the group %s "
            "(rke2_servers_group_name)" % settings["servers_group_name"]
        ]
    problems = []
    if not token_host and not settings["token"]:
        problems.append(
            "the token of the cluster is unknown: set rke2_token, or add the servers to the group %s "
            "(rke2_servers_group_name)" % settings["servers_group_name"]
        )
    if kind == SERVER and not with_data and first not in node.play_hosts:
        problems.append("%s creates the cluster, but is not part of this run: run without --limit" % first)
    return _Cluster(kind, servers, "https://%s:%d" % (_in_url(address), PORT), token_host), problems


def _in_url(address: str) -> str:
    try:
        return "[%s]" % address if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        return address  # a host name


def _name_problems(settings: Data, node: NodeFacts) -> list[str]:
    """Require that the node's name in the cluster is the inventory's, whatever the node reports."""
    if settings["node_name"]:
        return []
    if node.hostname not in node.names:
        return [
            "the host name is %.70r, and not %s: set rke2_node_name to the name that the node has or should have in the "
            "cluster, such as %.70r" % (node.hostname, " or ".join(node.names), node.hostname)
        ]
    if kubernetes_values.kubernetes_value_problems("rke2_node_name", node.hostname):
        return [
            "the host name %.70r is not a valid node name: set rke2_node_name to lowercase letters, digits and hyphens"
            % node.hostname
        ]
    return []


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


def _method_problems(settings: Data, node: NodeFacts) -> list[str]:
    """Why RKE2 cannot be installed on this node by the selected method."""
    if _has_archive(settings):
        return list(node.state["archive_problems"])
    problems = []
    if node.enterprise_linux not in _ENTERPRISE_LINUX:
        problems.append(
            "rke2_install_method is rpm, but the packages are for Enterprise Linux %s, and the host has %s. Set "
            "rke2_install_method to tar" % (", ".join(_ENTERPRISE_LINUX), node.distribution)
        )
    if settings["channel"] == "testing" and settings["repository_url"].startswith(_RPM_SITE):
        problems.append(
            "rke2_channel is testing, whose packages have another site and key: set rke2_repository_url to "
            "https://rpm-testing.rancher.io/rke2 or a mirror, and rke2_repository_key and "
            "rke2_repository_key_fingerprint to its key"
        )
    for name in (str(option).partition("=")[0] for option in settings["environment_options"]):
        if name in _RPM_ENVIRONMENT:
            problems.append(
                "rke2_environment_options sets %s, which the package overrides in /etc/sysconfig. Remove it%s"
                % (name, ", and set selinux in rke2_config" if name == "RKE2_SELINUX" else "")
            )
    return problems


def _order_problems(cluster: _Cluster, settings: Data, node: NodeFacts) -> list[str]:
    """Check the play order: the first server before other nodes and, in upgrades, all servers before agents."""
    if node.name not in node.play_hosts:
        return []
    earlier = node.play_hosts[: node.play_hosts.index(node.name)]
    later = [host for host in cluster.servers if host in node.play_hosts and host not in earlier and host != node.name]
    problems = []
    exists = bool(node.states.get(cluster.token_host, {}).get("has_cluster"))
    if cluster.join and not exists and not node.state["active"] and cluster.token_host in later:
        problems.append(
            "the host joins the cluster that %s creates, but precedes it in the play. List the servers first in the "
            "inventory" % cluster.token_host
        )
    installed = node.state["version"]
    if cluster.kind == AGENT and later and installed and installed != settings["version"]:
        problems.append(
            "the host is upgraded before %s, but servers must be upgraded before agents. List the servers first in the "
            "inventory" % ", ".join(later)
        )
    return problems


def _config_problems(kind: str, servers: t.Sequence[str], settings: Data) -> list[str]:
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
    for key, variables in _own_keys(kind, settings).items():
        if key in config:
            problems.append("rke2_config sets %s, and so does %s: use one of them" % (key, variables))
    if kind == SERVER and len(servers) % 2 == 0 and "datastore-endpoint" not in config:
        problems.append(
            "the group %s has %d servers: etcd needs an odd number, because an even number does not tolerate more "
            "failures. Add or remove one" % (settings["servers_group_name"], len(servers))
        )
    if "/" in settings["api_ip"]:
        problems.append("rke2_api_ip is %s: give an address or a name, not a URL" % settings["api_ip"])
    for place, option in enumerate(settings["environment_options"], 1):
        if not _ASSIGNMENT.fullmatch(str(option)):
            problems.append("rke2_environment_options, entry %d: give NAME=value" % place)
    return problems


def _needs_server(cluster: _Cluster, node: NodeFacts) -> bool:
    """Whether a server must respond now: if the node joins a server that this run does not start, or changes its server."""
    if not cluster.join:
        return False
    if node.state["active"]:
        return str(node.state["recorded"].get("server_url", cluster.join)) != cluster.join
    return cluster.token_host not in node.play_hosts


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


def _config(cluster: _Cluster, settings: Data) -> Data:
    """The content of the drop-in, including secrets."""
    config: Data = {}
    if settings["data_path"] != _DATA_PATH:
        config["data-dir"] = settings["data_path"]
    if settings["node_name"]:
        config["node-name"] = settings["node_name"]
    if cluster.join:
        config["server"] = cluster.join
    values = {
        "node-label": settings["node_labels"],
        "node-taint": settings["%s_node_taints" % cluster.kind],
        "tls-san": [*filter(None, [settings["api_ip"]]), *settings["additional_sans"]],
    }
    config.update({key: [str(each) for each in values[key]] for key in _own_keys(cluster.kind, settings)})
    return {**config, **rke2_config.config_for_type(settings["config"], cluster.kind)}


def _download_problems(settings: Data, kind: str) -> list[str]:
    """Problems of the variables for artifacts and the kubeconfig."""
    problems = []
    downloads = settings["airgap_implementation"] == "download" if settings["airgap_mode"] else _has_archive(settings)
    if downloads and not settings["artifact_url"].startswith("https://") and not settings["artifact_checksum"]:
        problems.append(
            "rke2_artifact_url is %s, so the download cannot be verified. Use https, or set rke2_artifact_checksum to "
            '"sha256:..." (sha256sum of sha256sum-ARCHITECTURE.txt)' % settings["artifact_url"]
        )
    if kind == SERVER and settings["download_kubeconf"] and not settings["download_kubeconf_path"]:
        problems.append(
            "rke2_download_kubeconf is true: set rke2_download_kubeconf_path to a directory on the controller"
        )
    return problems


def _artifacts(settings: Data, architecture: str) -> Data:
    """The files of the release, and their source. Packages replace the archive of RKE2, but not those of images."""
    directory = settings["artifact_path"].rstrip("/")
    images = ["%s/%s" % (directory, name) for name in _images(settings, architecture)]
    archive = "%s/rke2.linux-%s.tar.gz" % (directory, architecture) if _has_archive(settings) else ""
    files = [*filter(None, [archive]), *images]
    has_images = images or settings["airgap_copy_additional_tarballs"]
    images_directory = settings["data_path"].rstrip("/") + "/agent/images"
    return {
        "source": settings["airgap_implementation"] if settings["airgap_mode"] else "download" if files else "",
        "url": "%s/%s" % (settings["artifact_url"].rstrip("/"), settings["version"].replace("+", "%2B")),
        "directories": [*([directory] if files else []), *([images_directory] if has_images else [])],
        "checksums": "%s/sha256sum-%s.txt" % (directory, architecture),
        "files": files,
        "archive": archive,
        "images": images,
    }


def _has_archive(settings: Data) -> bool:
    return bool(settings["install_method"] == "tar")


def _packages(kind: str, settings: Data, node: NodeFacts) -> Data:
    """The packages, and their repositories: one for each minor version, and one for the SELinux policy."""
    version = settings["version"].lstrip("v").replace("-", "~").replace("+", "~")
    minor = ".".join(version.split(".")[:2])
    channel = "%s/%s" % (settings["repository_url"].rstrip("/"), settings["channel"])
    system = "centos/" + node.enterprise_linux
    return {
        "packages": ["rke2-common", "rke2-" + kind],
        "package_version": version,
        "repositories": [
            {"name": "gpufleet-rke2", "url": "%s/%s/%s/%s" % (channel, minor, system, node.architecture)},
            {"name": "gpufleet-rke2-common", "url": "%s/common/%s/noarch" % (channel, system)},
        ],
    }


def _images(settings: Data, architecture: str) -> list[str]:
    """The image archives: one archive for the default network plugin, separate ones for others."""
    if not settings["airgap_mode"]:
        return []
    if settings["airgap_images"]:
        return [str(each) for each in settings["airgap_images"]]
    config = settings["config"]
    plugins = [name for value in _list(config.get("cni", "canal")) for name in str(value).split(",")]
    ingress = [name for value in _list(config.get("ingress-controller", ())) for name in str(value).split(",")]
    parts = [""] if plugins == ["canal"] else ["-core", *("-" + name for name in plugins if name != "none")]
    parts += ["-traefik"] if "traefik" in ingress else []
    return ["rke2-images%s.linux-%s.tar.zst" % (part, architecture) for part in parts]


def _list(value: t.Any) -> list[t.Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
