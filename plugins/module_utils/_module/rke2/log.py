# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Explain from RKE2's log why it does not start."""

from __future__ import annotations

import re
import typing as t

from ..._common.text import cut

_MAX_LENGTH = 300
_MAX_LINES = 5
_SECRET = re.compile(r"K10[0-9a-f]{64}::[^:\s\"]+:[^\s\"\\]+|(?<=token=)[^\s\"]+")


class Cause(t.NamedTuple):
    """A log line pattern and its meaning. ``lasting``: the error persists until the configuration changes."""

    pattern: t.Pattern[str]
    meaning: str
    lasting: bool = True


def _cause(pattern: str, meaning: str, lasting: bool = True) -> Cause:
    return Cause(re.compile(pattern, re.IGNORECASE), meaning, lasting)


# The first match explains a line. Names in braces are groups of the pattern; files are those of containerd.
CAUSES: t.Sequence[Cause] = (
    _cause(
        r"token CA hash does not match the Cluster CA certificate hash",
        "the token belongs to another cluster. Correct rke2_token, or leave it empty. If the node belonged to another "
        "cluster, undo the role first",
    ),
    _cause(
        r"encrypted with different token",
        "the token differs from the one that the cluster has. Correct rke2_token, or leave it empty: the role then reads "
        "the token from the first server",
    ),
    _cause(
        r"Node password rejected",
        "the cluster has a node of this name with another password. Delete that node (kubectl delete node NAME), or set "
        "another rke2_node_name",
    ),
    _cause(
        r"duplicate node name found|already an etcd member",
        "etcd has a member of this name. Delete that node (kubectl delete node NAME) before it joins again",
    ),
    _cause(
        r"critical configuration value mismatch",
        "keys that must be equal on all servers differ: agent-token, cluster-cidr, cluster-dns, cluster-domain, "
        "disable-cloud-controller, disable-kube-proxy, egress-selector-mode, service-cidr. Set them once for the group "
        "of the servers",
    ),
    _cause(
        r"failed to get CA certs: .{0,300}(connection reset by peer|EOF|deadline exceeded)",
        "the server to join does not respond. Start RKE2 there, open the ports 9345 and 6443, or correct rke2_api_ip",
        lasting=False,
    ),
    _cause(
        r"dial tcp (?P<address>(?!127\.|\[::1\])\S+?): (?:connect: )?(?P<why>connection refused|i/o timeout|no route to host|network is "
        r"unreachable)",
        "{address} does not respond ({why}). If it is the server to join, start RKE2 there, open the ports 9345 and "
        "6443, or correct rke2_api_ip",
        lasting=False,
    ),
    _cause(
        r"lookup (?P<name>\S+)[^:]{0,100}: no such host",
        "the name {name} cannot be resolved. Images come from a registry unless rke2_airgap_mode is true",
        lasting=False,
    ),
    _cause(
        r"(401 Unauthorized|not authorized|invalid token|: Unauthorized)",
        "the server rejects the token. Correct rke2_token, or leave it empty: the role then reads it from the first server",
    ),
    _cause(
        r"default runtime (?P<name>\S+) was not found",
        "containerd has no runtime {name}, which default-runtime in RKE2's configuration names. Install the container "
        "toolkit first, or remove the key",
    ),
    _cause(
        r"toml: .{0,300}already (exists|defined)|(?<!\S)(?P<table>\S+) has already been defined",
        "the containerd configuration has duplicate tables. Remove those that RKE2 defines too from {files}",
    ),
    _cause(
        r"failed to load TOML|template: [a-z_]{1,40}:\d+:",
        "the containerd configuration is not valid. Correct {files}",
    ),
    _cause(
        r"containerd exited",
        "containerd exits. See agent/containerd/containerd.log in RKE2's data directory",
    ),
    _cause(
        r"unknown 'kubernetes.io' or 'k8s.io' labels specified",
        "the kubelet must not set this reserved Kubernetes label. Remove it from rke2_node_labels",
    ),
    _cause(
        r"invalid (taint|label)",
        "a taint or label is invalid. Correct rke2_node_labels, rke2_server_node_taints or rke2_agent_node_taints",
    ),
    _cause(
        r"flag provided but not defined: -?(?P<key>\S+)",
        "RKE2 has no option {key}. Remove it from the configuration",
    ),
    _cause(
        r"(Invalid value|invalid value provided|Failed to validate) .{0,300}--(?P<key>[a-z0-9-]+)",
        "the value of {key} is invalid. Correct it in rke2_config",
    ),
    _cause(
        r"(invalid kernel parameter value|missing required: user|unknown user etcd)",
        "the node does not meet the CIS profile. Set the key profile in rke2_config, so that the role configures the "
        "node",
    ),
    _cause(
        r"x509: certificate has expired or is not yet valid",
        "a certificate has expired or is not valid yet. Compare the clocks of the nodes",
    ),
    _cause(
        r"bind: address already in use",
        "another program uses one of RKE2's ports. Stop that program",
    ),
    _cause(
        r"(failed to (pull|resolve|get image)|ErrImagePull|unable to pull)",
        "an image cannot be pulled. Without access to a registry, set rke2_airgap_mode, or a mirror in rke2_registries",
        lasting=False,
    ),
)
_IGNORED_KEY = re.compile(r"Unknown flag -*(?P<key>[^\s=-][^\s=]*) found in config.yaml, skipping")
_LEVEL = re.compile(r"level=(error|fatal)|\b(FATA|ERRO)\[")


class Explanation(t.NamedTuple):
    meaning: str
    line: str
    lasting: bool


def explain(lines: t.Sequence[str], files: str = "") -> t.Optional[Explanation]:
    """The last line of the log with a known cause. ``files`` are the node's own templates and drop-ins of containerd."""
    files = files or "the template or drop-in in agent/etc/containerd of RKE2's data directory"
    for line in reversed(lines):
        for cause in CAUSES:
            match = cause.pattern.search(line)
            if match:
                return Explanation(cause.meaning.format(files=files, **match.groupdict()), shown(line), cause.lasting)
    return None


def ignored_keys(lines: t.Iterable[str]) -> t.List[str]:
    """The unknown configuration keys that RKE2 ignored, sorted."""
    return sorted({match.group("key") for match in map(_IGNORED_KEY.search, lines) if match})


def tail(lines: t.Sequence[str]) -> t.List[str]:
    """The last errors, or the last lines if there are none."""
    errors = [line for line in lines if _LEVEL.search(line)]
    return [shown(line) for line in (errors or list(lines))[-_MAX_LINES:]]


def shown(line: str) -> str:
    """Shorten a line for a message, and remove tokens."""
    return cut(_SECRET.sub("TOKEN", line.strip()), _MAX_LENGTH)
