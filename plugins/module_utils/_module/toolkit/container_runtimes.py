# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The supported container runtimes, and which of them to configure on a node."""

from __future__ import annotations

import typing as t

PROGRAM = "nvidia-container-runtime"


class Runtime(t.NamedTuple):
    """A container runtime and the files that nvidia-ctk writes for it."""

    programs: t.Sequence[str]  # the service's program first
    config: str
    drop_in: str  # the file that nvidia-ctk adds; empty if it changes the configuration itself
    # Where nvidia-ctk reads the settings of the default runtime. For containerd that is `containerd config dump`: up to
    # 2.0, an imported file replaces all settings of the CRI plugin, so the drop-in must be complete.
    source: str
    # Prints or checks the configuration as the service would read it. dockerd has --validate since 23.0.
    reader: t.Sequence[str] = ()


RUNTIMES: t.Mapping[str, Runtime] = {
    "containerd": Runtime(
        ["containerd"],
        "/etc/containerd/config.toml",
        "/etc/containerd/conf.d/99-nvidia.toml",
        "command",
        ["containerd", "config", "dump"],
    ),
    "docker": Runtime(
        ["dockerd", "docker"],
        "/etc/docker/daemon.json",
        "",
        "file",
        ["dockerd", "--validate", "--config-file=/etc/docker/daemon.json"],
    ),
    "crio": Runtime(
        ["crio"], "/etc/crio/crio.conf", "/etc/crio/crio.conf.d/99-nvidia.toml", "file", ["crio", "config"]
    ),
}

AUTO = "auto"

# These ship their own containerd, and detect the nvidia runtime. By the name of a role that installs them.
KUBERNETES: t.Mapping[str, t.Sequence[str]] = {
    "rke2": ["/usr/local/bin/rke2", "/opt/rke2/bin/rke2", "/usr/bin/rke2", "/etc/rancher/rke2"],
    "k3s": ["/usr/local/bin/k3s", "/opt/bin/k3s", "/usr/bin/k3s", "/etc/rancher/k3s"],
}


class RuntimeFacts(t.NamedTuple):
    """The facts that the selection depends on."""

    programs: t.Collection[str]  # keys of RUNTIMES: those that are installed
    distribution: str
    os_family: str
    kubernetes: bool = False  # has RKE2 or K3s, or will
    cri_disabled: bool = False  # containerd's configuration disables its CRI plugin


class RuntimeChoice(t.NamedTuple):
    """The runtimes to configure, whether to install containerd first, and the problems that prevent it."""

    runtimes: t.List[str]
    install_containerd: bool = False
    problems: t.Sequence[str] = ()


def choose_runtimes(requested: t.Sequence[str], facts: RuntimeFacts) -> RuntimeChoice:
    """Select the runtimes to configure."""
    if AUTO not in requested:
        return RuntimeChoice(list(requested), problems=_missing(requested, facts))
    if len(requested) > 1:
        return RuntimeChoice(
            [], problems=["nvidia_container_toolkit_runtimes combines auto with other values. Remove one"]
        )
    if facts.kubernetes:
        return RuntimeChoice([])
    found = [name for name in sorted(RUNTIMES) if not _lacking(name, facts)]
    if found == ["containerd"] and facts.cri_disabled:
        return RuntimeChoice(found, problems=[_CRI_DISABLED])
    if "docker" in found and facts.cri_disabled:  # this containerd only serves docker
        found.remove("containerd")
    if found:
        return RuntimeChoice(found)
    if facts.os_family == "Debian":
        return RuntimeChoice(["containerd"], install_containerd=True)
    return RuntimeChoice(["containerd"], problems=[_NO_RUNTIME % facts.distribution])


_CRI_DISABLED = (
    "The configuration of containerd disables its CRI plugin, as that of Docker's package does, and no other container "
    "runtime is installed. Remove cri from disabled_plugins in /etc/containerd/config.toml, or name the runtimes in "
    "nvidia_container_toolkit_runtimes ([] for none)"
)
_NO_RUNTIME = (
    "No container runtime is installed, and %s has no package of containerd. Install containerd (containerd.io in "
    "Docker's repository), docker or CRI-O first, or set nvidia_container_toolkit_runtimes to [] on a node that will run "
    "RKE2 or K3s"
)


def _lacking(name: str, facts: RuntimeFacts) -> t.List[str]:
    return [program for program in RUNTIMES[name].programs if program not in facts.programs]


def _missing(requested: t.Sequence[str], facts: RuntimeFacts) -> t.List[str]:
    lacking = [program for name in requested for program in _lacking(name, facts)]
    if not lacking:
        return []
    return [
        "%s %s not installed, but nvidia_container_toolkit_runtimes is [%s]. Install what is missing first, or set "
        "nvidia_container_toolkit_runtimes to what the node has: auto detects it, and [] is for a node of RKE2 or K3s, "
        "which ship their own containerd and detect the nvidia runtime"
        % (" and ".join(lacking), "is" if len(lacking) == 1 else "are", ", ".join(requested))
    ]
