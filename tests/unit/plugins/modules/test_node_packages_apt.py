# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_packages with the real apt and dpkg, on packages of a private root directory."""

from __future__ import annotations

import hashlib
import shutil
import subprocess

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import apt
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import node_packages as packages
from ansible_collections.gpufleet.node.plugins.modules import node_packages

from .module_support import run

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="only Debian and Ubuntu have apt and dpkg-deb")

CUDA, LIBRARY = "nvidia-driver-cuda", "libcuda1"
VERSIONS = ("570.211.01", "580.126.09", "580.126.20")
CONFIGURATION = """\
Dir "{root}";
Dir::Etc "{root}/etc/apt";
Dir::State "{root}/var/lib/apt";
Dir::State::status "{root}/var/lib/dpkg/status";
Dir::Cache "{root}/var/cache/apt";
Dir::Log "{root}/var/log/apt";
Dir::Bin::dpkg "/usr/bin/dpkg";
APT::Sandbox::User "";
APT::Architecture "amd64";
DPkg::Options {{ "--root={root}"; "--admindir={root}/var/lib/dpkg"; "--force-not-root"; "--force-bad-path";
                 "--force-script-chrootless"; "--log=/dev/null"; }};
DPkg::Use-Pty "0";
DPkg::Path "/usr/sbin:/usr/bin:/sbin:/bin";
"""


class Root:
    """A root directory with a package source, a database of packages and nothing else."""

    def __init__(self, path):
        self.path = path
        for name in ("etc/apt/preferences.d", "etc/apt/apt.conf.d", "var/lib/apt/lists/partial", "var/log/apt",
                     "var/cache/apt/archives/partial", "var/lib/dpkg/updates", "var/lib/dpkg/info", "source"):  # fmt: skip
            (path / name).mkdir(parents=True)
        for name in ("status", "available"):
            (path / "var/lib/dpkg" / name).touch()
        (path / "etc/apt/sources.list").write_text("deb [trusted=yes] file:%s/source ./\n" % path)
        (path / "apt.conf").write_text(CONFIGURATION.format(root=path))
        self.listed = []

    def offer(self, name, version, **fields):
        """Build a package without files, for example with depends="libcuda1 (= 1)"."""
        folder = self.path / "build" / ("%s_%s_%s" % (name, version, fields.get("architecture", "amd64")))
        (folder / "DEBIAN").mkdir(parents=True)
        control = {"package": name, "version": version, "architecture": "amd64", "maintainer": "nobody", **fields}
        text = "".join("%s: %s\n" % (key.capitalize(), value) for key, value in control.items()) + "Description: none\n"
        (folder / "DEBIAN/control").write_text(text)
        target = self.path / "source" / (folder.name + ".deb")
        self.run("dpkg-deb", "--root-owner-group", "-Znone", "--build", folder, target)
        data = target.read_bytes()
        sums = "Filename: ./%s\nSize: %d\nSHA256: %s\n\n" % (target.name, len(data), hashlib.sha256(data).hexdigest())
        self.listed.append(text + sums)
        (self.path / "source/Packages").write_text("".join(self.listed))

    def offer_driver(self, version, **library):
        self.offer(CUDA, version + "-1", depends="%s (= %s-1)" % (LIBRARY, version))
        self.offer(LIBRARY, version + "-1", **library)

    def add_architecture(self, name):
        (self.path / "var/lib/dpkg/arch").write_text("amd64\n%s\n" % name)
        with (self.path / "apt.conf").open("a") as file:
            file.write('APT::Architectures { "amd64"; "%s"; };\n' % name)

    def run(self, *argv):
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def install(self, *names):
        self.run("apt-get", "--quiet", "update")
        self.run("apt-get", "--quiet", "--yes", "--allow-downgrades", "install", *names)

    def state(self):
        form = "${db:Status-Abbrev}${Package}=${Version}\\n"
        return sorted(self.run("dpkg-query", "--show", "--showformat=" + form).split("\n")[:-1])


@pytest.fixture(name="root")
def fixture_root(tmp_path, monkeypatch):
    root = Root(tmp_path / "root")
    monkeypatch.setenv("APT_CONFIG", str(root.path / "apt.conf"))
    monkeypatch.setenv("DPKG_ADMINDIR", str(root.path / "var/lib/dpkg"))
    monkeypatch.setattr(record, "PATH", str(tmp_path / "facts.d" / "gpufleet.fact"))
    monkeypatch.setattr(record, "LOCK", str(tmp_path / "run" / "record.lock"))
    monkeypatch.setattr(packages, "LOCK", str(tmp_path / "run" / "packages.lock"))
    monkeypatch.setattr(apt, "PREFERENCES", str(root.path / "etc/apt/preferences.d"))
    monkeypatch.setattr(apt, "SOURCES", str(root.path / "etc/apt/sources.list"))
    monkeypatch.setattr(apt, "STATUS", str(root.path / "var/lib/dpkg/status"))
    monkeypatch.setattr(apt, "PAUSE", 0.0)
    return root


def driver(check=False, **more):
    given = {"role": "nvidia_driver", "manager": "apt", "packages": [CUDA], "lock_timeout": 0}
    given["family"] = ["*nvidia*", "libcuda*"]
    return run(node_packages.main, check, **{**given, **more})


def pair(mark, version):
    return ["%s %s=%s-1" % (mark, name, version) for name in sorted((CUDA, LIBRARY))]


def test_another_version_of_a_held_driver_is_previewed_and_installed(root):
    for version in VERSIONS:
        root.offer_driver(version)
    old, middle, new = VERSIONS
    path = [old, middle, new, old, new, middle, old]  # every change of version
    driver(version=old, branch=old[:3])
    for before, after in zip(path, path[1:]):
        assert root.state() == pair("hi", before)
        preview = driver(check=True, version=after, branch=after[:3])
        assert root.state() == pair("hi", before)
        assert (preview["changed"], preview["version"]) == (True, after)
        names = sorted(preview["msg"][len("Would install ") : -1].split(", "))
        assert names == ["%s=%s-1" % (name, after) for name in sorted((CUDA, LIBRARY))]
        result = driver(version=after, branch=after[:3])
        assert (result["changed"], result["version"]) == (True, after)
    assert root.state() == pair("hi", old)


def test_an_upgrade_of_a_held_driver_is_previewed_and_installed(root):
    for version in VERSIONS:
        root.offer_driver(version)
    for version in ("1", "2"):
        root.offer("game", version)
    root.install("game=1")
    root.run("apt-mark", "hold", "game")
    driver(version="580.126.09", branch="580")
    assert driver(check=True, branch="580", upgrade=True)["version"] == "580.126.20"
    assert driver(branch="580", upgrade=True)["version"] == "580.126.20"
    assert root.state() == sorted([*pair("hi", "580.126.20"), "hi game=1"])


def test_libraries_of_two_architectures_are_held(root):
    """As Ubuntu's nvidia-driver packages recommend them: github.com/NVIDIA/k8s-device-plugin issue 178."""
    root.add_architecture("i386")
    for version in VERSIONS[1:]:
        root.offer_driver(version, **{"multi-arch": "same"})
        root.offer(LIBRARY, version + "-1", architecture="i386", **{"multi-arch": "same"})
    root.install(CUDA + "=580.126.09-1", LIBRARY + "=580.126.09-1", LIBRARY + ":i386=580.126.09-1")
    for version in VERSIONS[1:]:
        result = driver(version=version, branch="580")
        assert result["changed"], result["msg"]
        assert root.state() == sorted([*pair("hi", version), "hi %s=%s-1" % (LIBRARY, version)])
        assert not driver(version=version, branch="580")["changed"]


@pytest.mark.parametrize("check", [True, False])
def test_an_upgrade_of_a_held_driver_removes_no_packages_of_others(root, check):
    root.offer_driver("580.126.09")
    root.offer("game", "1-1")
    root.install("game")
    driver(branch="580")
    before = root.state()
    root.offer_driver("580.126.20", conflicts="game")
    root.run("apt-get", "update")
    result = driver(check, branch="580", upgrade=True)
    assert result["msg"].startswith("installing %s=580.126.20-1 would remove game, which this role" % CUDA)
    assert root.state() == before


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "name, version, fields, stays",
    [
        ("nvidia-tesla-535-kernel-dkms", "535.309.01-1", {}, True),
        ("linux-modules-nvidia-580-generic", "6.8.0-79.79", {}, True),
        ("nvidia-dkms-570", "570.211.01-1", {"provides": "nvidia-dkms"}, False),  # the new driver replaces it
        ("nvidia-fs-dkms", "2.26.6-1", {}, False),  # GPUDirect Storage has its own versions
    ],
)
def test_kernel_modules_of_others_do_not_stay_beside_the_driver(root, check, name, version, fields, stays):
    root.offer(name, version, **fields)
    root.install(name)
    before = root.state()
    root.offer_driver("580.126.09", conflicts="nvidia-dkms")
    root.run("apt-get", "update")
    result = driver(check, branch="580", family=["*nvidia*", "libcuda*", "!linux-*", "linux-modules-nvidia-*"])
    assert result["changed"] != stays
    assert (root.state() == before) == (check or stays)
    if stays:
        words = "%s %s, which this role did not install, would stay beside driver 580.126.09" % (name, version)
        assert result["msg"].startswith(words)


@pytest.mark.parametrize("check", [True, False])
def test_a_foreign_hold_on_a_dependency_blocks_the_preview_too(root, check):
    root.offer_driver("580.126.09", depends="tool (>= 1)")
    root.offer("tool", "1")
    driver(branch="580")
    root.run("sh", "-c", "echo tool hold | dpkg --set-selections")
    before = root.state()
    root.offer("tool", "2")
    root.offer_driver("580.126.20", depends="tool (>= 2)")
    root.run("apt-get", "update")
    assert driver(check, branch="580", upgrade=True)["msg"] == (
        "somebody else holds tool 1, which blocks driver 580.126.20. Release them (apt-mark unhold)"
    )
    assert root.state() == before


def test_a_hold_on_a_package_that_is_not_installed_is_an_obstacle(root):
    root.offer_driver("580.126.09")
    root.run("apt-get", "update")
    assert driver(state="verified", branch="580")["obstacles"] == []
    root.run("apt-mark", "hold", CUDA)
    (problem,) = driver(state="verified", branch="580")["obstacles"]
    assert problem.startswith("somebody else holds %s, which is not installed, which blocks driver" % CUDA)
    assert "somebody else holds" in driver(branch="580")["msg"]
    assert root.state() == []


@pytest.mark.parametrize("check", [True, False])
def test_optional_packages_are_previewed_as_they_are_installed(root, check):
    root.offer_driver("580.126.09")
    root.offer("nvidia-extra", "580.126.09-1")
    root.offer("nvidia-misfit", "580.126.09-1", depends="missing")
    root.run("apt-get", "update")
    installed = driver(check, branch="580", optional_packages=["nvidia-extra"])
    assert ("nvidia-extra" in installed["msg"]) if check else "hi nvidia-extra=580.126.09-1" in root.state()
    assert driver(check, branch="580", packages=[CUDA], optional_packages=["nvidia-misfit"])["changed"] == check


def test_undo_removes_the_held_driver_as_previewed(root):
    root.offer_driver("580.126.09")
    driver(branch="580")
    preview = driver(check=True, state="absent")
    assert (preview["kept"], preview["diff"]["after"]) == ([], "")
    assert driver(state="absent")["kept"] == []
    assert root.state() == []
