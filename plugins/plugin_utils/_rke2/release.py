# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The archives, images and packages of a release, and their sources."""

from __future__ import annotations

from ...module_utils._common.data import Data
from . import config as rke2_config
from .membership import SERVER, NodeFacts

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_ENTERPRISE_LINUX = ("8", "9", "10")  # major versions with packages
_RPM_SITE = "https://rpm.rancher.io/"
# Variables that the packages set in /etc/sysconfig, which the units read after /etc/default.
_RPM_ENVIRONMENT = ("HOME", "RKE2_SELINUX")


def architecture_problems(node: NodeFacts) -> list[str]:
    if node.architecture in _ARCHITECTURES:
        return []
    known = ", ".join(sorted(_ARCHITECTURES))
    return ["RKE2 does not support the architecture %s, only %s" % (node.architecture, known)]


def method_problems(settings: Data, node: NodeFacts) -> list[str]:
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


def download_problems(kind: str, settings: Data) -> list[str]:
    """Problems of the variables for downloads: the files of the release, and the kubeconfig."""
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


def archives(settings: Data, node: NodeFacts) -> Data:
    """The archives and their source. Packages replace the archive of RKE2, but not those of images."""
    architecture = _ARCHITECTURES[node.architecture]
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


def _images(settings: Data, architecture: str) -> list[str]:
    """The image archives: one archive for the default network plugin, separate ones for others."""
    if not settings["airgap_mode"]:
        return []
    if settings["airgap_images"]:
        return [str(each) for each in settings["airgap_images"]]
    config = settings["config"]
    plugins = rke2_config.network_plugins(config)
    parts = [""] if plugins == ["canal"] else ["-core", *("-" + name for name in plugins if name != "none")]
    parts += ["-traefik"] if "traefik" in rke2_config.names(config, "ingress-controller") else []
    return ["rke2-images%s.linux-%s.tar.zst" % (part, architecture) for part in parts]


def packages(kind: str, settings: Data, node: NodeFacts) -> Data:
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


def _has_archive(settings: Data) -> bool:
    return bool(settings["install_method"] == "tar")
