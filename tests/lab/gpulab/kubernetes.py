# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real programs of a Kubernetes cluster, built with Go from their modules.

Go verifies all downloads with its checksum database. The versions of all dependencies follow from the versions here.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import typing as t
from pathlib import Path

from . import containerd
from .places import BUILDING, LAB, PROGRAMS, LabError, alone, call, fingerprint, say
from .toolkit import go

BUILT = LAB / "kubernetes"
BIN = PROGRAMS / "bin"
VERSION = "1.36.3"
PAUSE_VERSION = "3.10.2"  # of the pause program in this version of Kubernetes


class Source(t.NamedTuple):
    module: str
    version: str
    programs: t.Mapping[str, str]  # file name: package, below the module
    prints_version: t.Sequence[str]
    variables: t.Mapping[str, str] = {}  # set by the linker


def kubernetes(*names: str, version: str = "v" + VERSION) -> Source:
    """Programs of Kubernetes that report ``version``."""
    major, minor, _patch = VERSION.split(".")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    variables = {
        "k8s.io/%s.%s" % (package, name): value
        for package in ("component-base/version", "client-go/pkg/version")
        for name, value in values.items()
    }
    programs = {name: "/cmd/" + name for name in names}
    return Source(
        "k8s.io/kubernetes", VERSION, programs, ["kubelet" if "kubelet" in names else names[0], "--version"], variables
    )


SOURCES = {
    "kubernetes": kubernetes("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"),
    "etcd": Source("go.etcd.io/etcd/server/v3", "3.7.3", {"etcd": ""}, ["etcd", "--version"]),
    "helm": Source(
        "helm.sh/helm/v3",
        "3.22.0",
        {"helm": "/cmd/helm"},
        ["helm", "version"],
        {"helm.sh/helm/v3/internal/version.version": "v3.22.0"},
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
        [],
    ),
    "kube-proxy": kubernetes("kube-proxy"),
    "crictl": Source(
        "sigs.k8s.io/cri-tools",
        "1.36.0",
        {"crictl": "/cmd/crictl"},
        ["crictl", "--version"],
        {"sigs.k8s.io/cri-tools/pkg/version.Version": "v1.36.0"},
    ),
    "helm-controller": Source(
        "github.com/k3s-io/helm-controller",
        "0.17.9",
        {"helm-controller": ""},
        ["helm-controller", "--version"],
        {"github.com/k3s-io/helm-controller/pkg/version.Version": "v0.17.9"},
    ),
}
CLUSTER = ("kubernetes", "kube-proxy", "etcd", "helm", "cni")  # sources of `lab cluster`; rke2 needs all
# Simulates nodes and pods for benchmarks.
KWOK = Source("sigs.k8s.io/kwok", "0.8.0", {"kwok": "/cmd/kwok"}, ["kwok", "--version"])


@functools.lru_cache(maxsize=None)
def download(module: str, version: str) -> t.Dict[str, t.Any]:
    """Download a module; the result has the paths of its sources and of its go.mod."""
    BUILDING.mkdir(parents=True, exist_ok=True)
    wanted = "%s@v%s" % (module, version)
    return t.cast(t.Dict[str, t.Any], json.loads(call(go(), "mod", "download", "-json", wanted, cwd=BUILDING)))


def go_mod(source: Source, upstream: str) -> str:
    """A go.mod to build a module's programs. ``upstream`` is that module's own go.mod.

    Kubernetes requires its own parts at version 0.0.0 and replaces them with directories; outside its source tree they
    are modules, with version 0.36.3 for Kubernetes 1.36.3.
    """
    lines = ["module gpufleet.invalid/lab", *re.findall(r"^go(?:debug)? .*", upstream, re.MULTILINE)]
    version = "v0." + source.version.partition(".")[2]
    for name in re.findall(r"^\s+(\S+) v0\.0\.0$", upstream, re.MULTILINE):
        lines += ["require %s %s" % (name, version), "replace %s => %s %s" % (name, name, version)]
    return "\n".join(lines) + "\n"


def build(name: str, source: t.Optional[Source] = None) -> Path:
    """Build the programs of a source if they are missing or out of date, and return their directory."""
    source = source or SOURCES[name]
    target = BUILT / ("%s-%s" % (name, source.version))
    complete, wanted = target / "complete", fingerprint(repr(source))
    with alone("kubernetes-" + name):
        if complete.exists() and complete.read_text() == wanted:
            return target
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        upstream = Path(download(source.module, source.version)["GoMod"]).read_text()
        (target / "go.mod").write_text(go_mod(source, upstream))
        environment = {**os.environ, "GOFLAGS": "-mod=mod -modcacherw", "CGO_ENABLED": "0"}
        packages = {program: source.module + below for program, below in source.programs.items()}
        versioned = ["%s@v%s" % (package, source.version) for package in packages.values()]
        call(go(), "get", "-tool", *versioned, env=environment, cwd=target)
        linking = ["-s", "-w", *("-X %s=%s" % each for each in source.variables.items())]
        for program, package in packages.items():
            say("building %s %s with Go" % (program, source.version))
            call(
                *(go(), "build", "-trimpath", "-ldflags", " ".join(linking), "-o", target / program, package),
                env=environment,
                cwd=target,
            )
        if source.prints_version:
            program, *arguments = source.prints_version
            said = call(target / program, *arguments)
            if source.version not in said:
                raise LabError("%s should report version %s, but printed: %s" % (program, source.version, said))
        complete.write_text(wanted)
    return target


def pause() -> Path:
    """Build the program that holds the namespaces of a pod."""
    target = BUILT / ("pause-" + PAUSE_VERSION)
    with alone("kubernetes-pause"):
        if not target.exists():
            source = Path(download("k8s.io/kubernetes", VERSION)["Dir"], "build", "pause", "linux", "pause.c")
            new = target.with_name(".new-pause")
            version = "-DVERSION=v" + PAUSE_VERSION
            call(os.environ.get("CC", "cc"), "-Os", "-static", version, "-o", new, source)
            os.replace(new, target)
    return target


def kwok_stages(*names: str) -> str:
    """The stages of kwok in these files of its module: they simulate the lifecycle of nodes and pods."""
    folder = Path(download(KWOK.module, KWOK.version)["Dir"], "kustomize", "stage")
    return "\n---\n".join((folder / (name + ".yaml")).read_text() for name in names)


def prepare(names: t.Iterable[str] = CLUSTER) -> None:
    """Build programs, and link them into the directory that all nodes mount."""
    wanted = {program: build(name) / program for name in names for program in SOURCES[name].programs}
    built = containerd.build()
    wanted.update({program: built / program for program in (*containerd.PROGRAMS, "runc")})
    with alone("kubernetes"):  # two scenarios may start at the same time
        BIN.mkdir(parents=True, exist_ok=True)
        for program, path in wanted.items():
            link(path, BIN / program)


def link(source: Path, target: Path) -> None:
    """Replace the target with a hard link, which also works in a directory that nodes mount."""
    if target.exists() and target.samefile(source):
        return
    new = target.with_name(".new-" + target.name)
    new.unlink(missing_ok=True)
    os.link(source, new)
    os.replace(new, target)
