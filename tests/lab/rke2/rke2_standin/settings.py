# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings: config.yaml, its drop-ins and the command line, merged as rke2 merges them."""

from __future__ import annotations

import os
import typing as t
from pathlib import Path

import yaml  # part of the program's archive

CONFIG = Path("/etc/rancher/rke2/config.yaml")
COMPONENTS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "cloud-controller-manager", "etcd")

BOOLEANS = frozenset(
    """
    alsologtostderr cluster-reset debug disable-agent disable-apiserver disable-cloud-controller
    disable-controller-manager disable-default-registry-endpoint disable-etcd disable-kube-proxy disable-scheduler
    embedded-registry enable-pprof etcd-disable-snapshots etcd-expose-metrics etcd-s3 etcd-s3-insecure
    etcd-s3-skip-ssl-verify etcd-snapshot-compress enable-servicelb node-name-from-cloud-provider-metadata
    nonroot-devices protect-kernel-defaults secrets-encryption selinux supervisor-metrics tls-san-security with-node-id
    """.split()
)
LISTS = frozenset(
    [
        *"""
        airgap-extra-registry cluster-cidr cluster-dns cni control-plane-probe-configuration
        control-plane-resource-limits control-plane-resource-requests disable etcd-arg ingress-controller
        kube-apiserver-arg kube-cloud-controller-manager-arg kube-controller-manager-arg kube-proxy-arg
        kube-scheduler-arg kubelet-arg node-external-dns node-external-ip node-internal-dns node-ip node-label
        node-taint service-cidr tls-san
        """.split(),
        *("%s-extra-%s" % (name, kind) for name in (*COMPONENTS, "kube-proxy") for kind in ("mount", "env")),
    ]
)
# Both commands.
COMMON = frozenset(
    [
        *"""
        airgap-extra-registry alsologtostderr audit-policy-file bind-address cloud-provider-config cloud-provider-name
        config container-runtime-endpoint control-plane-probe-configuration control-plane-resource-limits
        control-plane-resource-requests data-dir debug default-runtime disable-default-registry-endpoint enable-pprof
        image-credential-provider-bin-dir image-credential-provider-config kube-proxy-arg kubelet-arg kubelet-path
        lb-server-port log node-external-dns node-external-ip node-internal-dns node-ip node-label node-name
        node-name-from-cloud-provider-metadata node-taint nonroot-devices pod-security-admission-config-file
        private-registry profile protect-kernel-defaults resolv-conf selinux server snapshotter
        system-default-registry token token-file v vmodule with-node-id
        """.split(),
        *("%s-image" % name for name in (*COMPONENTS, "kube-proxy", "pause", "runtime")),
        *("%s-extra-%s" % (name, kind) for name in (*COMPONENTS, "kube-proxy") for kind in ("mount", "env")),
    ]
)
SERVER = COMMON | frozenset(
    """
    advertise-address agent-token agent-token-file cluster-cidr cluster-dns cluster-domain cluster-reset
    cluster-reset-restore-path cni datastore-cafile datastore-certfile datastore-endpoint datastore-keyfile disable
    disable-agent disable-apiserver disable-cloud-controller disable-controller-manager disable-etcd disable-kube-proxy
    disable-scheduler egress-selector-mode embedded-registry enable-servicelb etcd-arg etcd-disable-snapshots
    etcd-expose-metrics etcd-s3 etcd-s3-access-key etcd-s3-bucket etcd-s3-config-secret etcd-s3-endpoint
    etcd-s3-endpoint-ca etcd-s3-folder etcd-s3-insecure etcd-s3-proxy etcd-s3-region etcd-s3-secret-key
    etcd-s3-session-token etcd-s3-skip-ssl-verify etcd-s3-timeout etcd-snapshot-compress etcd-snapshot-dir
    etcd-snapshot-name etcd-snapshot-retention etcd-snapshot-schedule-cron helm-job-image ingress-controller
    kube-apiserver-arg kube-cloud-controller-manager-arg kube-controller-manager-arg kube-scheduler-arg
    secrets-encryption service-cidr service-node-port-range servicelb-namespace supervisor-metrics tls-san
    tls-san-security write-kubeconfig write-kubeconfig-group write-kubeconfig-mode
    """.split()
)
KNOWN: t.Mapping[str, t.AbstractSet[str]] = {"server": SERVER, "agent": COMMON}
SHORT = {"c": "config", "d": "data-dir", "s": "server", "t": "token", "o": "write-kubeconfig"}
DEFAULTS: t.Mapping[str, t.Any] = {
    "data-dir": "/var/lib/rancher/rke2",
    "cluster-cidr": ["10.42.0.0/16"],
    "service-cidr": ["10.43.0.0/16"],
    "cluster-domain": "cluster.local",
    "service-node-port-range": "30000-32767",
    "write-kubeconfig": "/etc/rancher/rke2/rke2.yaml",
    "write-kubeconfig-mode": "0600",
    "cni": ["canal"],
    "snapshotter": "overlayfs",
    "egress-selector-mode": "agent",
}
CNIS = ("none", "multus", "canal", "cilium", "calico", "flannel")
Values = t.Dict[str, t.Any]


class SettingsError(Exception):
    """A setting with which rke2 does not start."""


def text_of(value: t.Any) -> str:
    """A YAML value as rke2 puts it on its command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def items(value: t.Any) -> t.List[t.Any]:
    if isinstance(value, list):
        return value
    return [value] if text_of(value).strip() else []


def merged(documents: t.Iterable[t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
    """Later documents replace values of earlier ones; a key that ends with + appends."""
    values: t.Dict[str, t.Any] = {}
    for document in documents:
        for key, value in document.items():
            name = str(key)
            if name.endswith("+"):
                name = name[:-1]
                if name in values:
                    value = items(values[name]) + items(value)
            values[name] = value
    return values


def arguments(values: t.Mapping[str, t.Any]) -> t.List[str]:
    """Settings as words of a command line."""
    made = []
    for key, value in values.items():
        dashes = "-" if len(key) == 1 else "--"
        made += ["%s%s=%s" % (dashes, key, text_of(each)) for each in (value if isinstance(value, list) else [value])]
    return made


def flag(word: str) -> str:
    """The name of an argument's setting."""
    name = word.lstrip("-").partition("=")[0]
    return SHORT.get(name, name)


def parse(words: t.Sequence[str], known: t.AbstractSet[str]) -> Values:
    """Read a command line; the last value of a setting wins, except for lists."""
    values: Values = {}
    queue = list(words)
    while queue:
        word = queue.pop(0)
        name = flag(word)
        if not word.startswith("-") or name not in known:
            raise SettingsError("flag provided but not defined: -%s" % name)
        if name in BOOLEANS:
            text = word.partition("=")[2] if "=" in word else "true"
            if text.lower() not in ("true", "false", "1", "0", "t", "f"):
                raise SettingsError('invalid boolean value "%s" for  -%s' % (text, name))
            values[name] = text.lower() in ("true", "1", "t")
            continue
        if "=" in word:
            text = word.partition("=")[2]
        elif queue:
            text = queue.pop(0)
        else:
            raise SettingsError("flag needs an argument: -%s" % name)
        if name in LISTS:
            values.setdefault(name, []).append(text)
        else:
            values[name] = text
    return values


def files(config: Path) -> t.List[Path]:
    """config.yaml and its drop-ins, in the order in which they are read."""
    folder = Path(str(config) + ".d")
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    drop_ins = [path for path in found if path.is_file() and path.name.lower().endswith((".yaml", ".yml"))]
    return [*([config] if config.exists() else []), *drop_ins]


def read(path: Path) -> t.Mapping[str, t.Any]:
    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        where = "line %d: " % (mark.line + 1) if mark else ""
        raise SettingsError("yaml: %s%s" % (where, getattr(problem, "problem", None) or problem)) from problem
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise SettingsError("yaml: unmarshal errors:\n  line 1: cannot unmarshal into yaml.MapSlice")
    return content


def load(role: str, words: t.Sequence[str]) -> t.Tuple[Values, t.List[str]]:
    """The settings of a server or an agent, and the unknown ones of the files, which rke2 skips with a warning."""
    known = KNOWN[role]
    given = parse(words, known)
    config = Path(os.environ.get("RKE2_CONFIG_FILE") or given.get("config") or CONFIG)
    from_files = arguments(merged(read(path) for path in files(config)))
    unknown = [word.partition("=")[0] for word in from_files if flag(word) not in known]
    environment = [
        "--%s=%s" % (name, os.environ[variable]) for name, variable in VARIABLES.items() if variable in os.environ
    ]
    accepted = [word for word in from_files if flag(word) in known]
    return {**DEFAULTS, **parse([*environment, *accepted, *words], known)}, unknown


VARIABLES = {
    name: "RKE2_" + name.upper().replace("-", "_") for name in ("token", "token-file", "node-name", "data-dir", "debug")
}
VARIABLES.update(server="RKE2_URL")


def validate(role: str, values: Values) -> None:
    """Reject what rke2 rejects before it changes anything."""
    if values.get("token-file") and not values.get("token"):
        try:
            values["token"] = Path(values["token-file"]).read_text().strip()
        except OSError as problem:
            raise SettingsError("open %s: %s" % (values["token-file"], (problem.strerror or "").lower())) from problem
    if values.get("agent-token-file") and not values.get("agent-token"):
        values["agent-token"] = Path(values["agent-token-file"]).read_text().strip()
    if role == "agent":
        for name in ("token", "server"):
            if not values.get(name):
                raise SettingsError("--%s is required" % name)
    if values.get("server") and not values["server"].startswith("https://"):
        raise SettingsError("only https:// URLs are supported, invalid scheme: %s" % values["server"])
    for each in [name for value in values["cni"] for name in value.split(",")]:
        if role == "server" and each not in CNIS:
            raise SettingsError(
                "Invalid value %s for --cni flag: must be one of %s" % (each, ",".join(name for name in CNIS[1:]))
            )
