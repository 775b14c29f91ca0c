# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compare installed and offered packages with the desired ones: which version, and which packages to install."""

from __future__ import annotations

import fnmatch
import re
import typing as t

Offers = t.Mapping[str, t.Sequence[str]]  # versions by name, best first

# A version that can be compared: 580.126.20
_NUMBERS = re.compile(r"\d+(\.\d+)+")
# Ubuntu: packages of one kernel build; all others of these names follow later kernels.
_ONE_KERNEL = re.compile(r"-\d+\.\d+\.\d+-\d+")

# Packages with a kernel module, and the versions of a driver: nvidia-fs-dkms 2.26.6 is none.
_MODULE = re.compile(r"dkms|kmod|kmp")
_DRIVER_VERSION = re.compile(r"\d{3}(\.\d+)+")


class Refusal(Exception):
    """The desired packages cannot be installed. The message has the reason and the remedy."""


class Package(t.NamedTuple):
    name: str
    version: str  # in the package manager's format, with an epoch other than 0
    held: bool = False
    broken: str = ""  # what is wrong with it
    full_name: str = ""  # of rpm: name, version, release and architecture


class Desired(t.NamedTuple):
    """The options of the module that this part needs."""

    role: str
    packages: t.Sequence[str]
    version: str = ""
    branch: str = ""
    family: t.Sequence[str] = ()
    independent: t.Sequence[str] = ()
    kernel_packages: t.Sequence[str] = ()
    optional_packages: t.Sequence[str] = ()
    headers: str = ""
    upgrade: bool = False
    minimum_version: str = ""
    minimum_for: str = ""

    @property
    def versioned(self) -> bool:
        """Whether this collection selects a common version for the packages."""
        return bool(self.version or self.branch)

    def label(self, version: str) -> str:
        """The part of a version that the family shares: all of it, or the part before the packaging revision."""
        bare = version.split(":")[-1]
        return bare if "-" in self.version else bare.rsplit("-", 1)[0]

    def in_branch(self, label: str) -> bool:
        return label.split(".")[0] == self.branch

    def is_family(self, name: str) -> bool:
        """Patterns as in the option: the last that matches applies, and an exclamation mark excludes."""
        found = False
        for pattern in self.family or self.packages:
            if fnmatch.fnmatchcase(name, pattern.lstrip("!")):
                found = not pattern.startswith("!")
        return found

    def in_scope(self, name: str) -> bool:
        return self.is_family(name) or name in self.packages

    def shares_version(self, name: str) -> bool:
        return (
            self.versioned and self.is_family(name) and name not in self.independent and not name.startswith("linux-")
        )


class Status(t.NamedTuple):
    """Which of the desired packages are installed."""

    version: t.Optional[str]  # the version of most packages of the family
    missing: t.List[str]
    broken: t.List[str]
    mixed: t.List[str]  # whose version differs from the others'
    scope: t.List[str]  # installed packages that the role may remove or hold
    to_hold: t.List[Package]

    @property
    def incomplete(self) -> bool:
        return bool(self.missing or self.broken or self.mixed)

    @property
    def absent(self) -> t.List[str]:
        """The missing packages that are not even half installed."""
        return [name for name in self.missing if not any(each.startswith(name + " ") for each in self.broken)]


class Choice(t.NamedTuple):
    version: t.Optional[str]
    install: t.List[str]  # in the package manager's syntax; empty if there is nothing to do
    optional: t.List[str]  # installed with these if their dependencies can be satisfied


def order(version: str) -> t.Tuple[int, ...]:
    """The key that sorts versions. As for the package managers, X~rc1 comes before X."""
    return (*(-1 if part == "~" else int(part) for part in re.findall(r"\d+|~", version)), 0)


def package_status(packages: t.Sequence[Package], desired: Desired) -> Status:
    version = _common_version(packages, desired)
    installed = {name for each in packages if not each.broken for name in (each.name, each.full_name) if name}
    scope = [each for each in packages if desired.in_scope(each.name) or each.full_name in desired.packages]
    return Status(
        version=version,
        missing=[name for name in desired.packages if name not in installed],
        broken=["%s (%s)" % (each.name, each.broken) for each in scope if each.broken],
        mixed=[
            "%s %s" % (each.name, each.version)
            for each in scope
            if each.name in desired.packages
            and desired.shares_version(each.name)
            and desired.label(each.version) != version
        ],
        scope=sorted(_recorded_name(each, desired) for each in scope),
        to_hold=[
            each
            for each in packages
            if (version and desired.is_family(each.name) and desired.label(each.version) == version)
            or (desired.kernel_packages and _follows_kernels(each.name))
        ],
    )


def _recorded_name(package: Package, desired: Desired) -> str:
    return package.full_name if package.full_name in desired.packages else package.name


def _follows_kernels(name: str) -> bool:
    """A held driver has no modules for later kernels, so these are held with it."""
    return name.startswith(("linux-image-", "linux-modules-nvidia-")) and not _ONE_KERNEL.search(name)


def _common_version(packages: t.Sequence[Package], desired: Desired) -> t.Optional[str]:
    """The version of most desired packages, or of most packages of the family if none of those is installed."""
    voters = [each for each in packages if desired.shares_version(each.name)]
    voters = [each for each in voters if each.name in desired.packages] or voters
    labels = [label for label in (desired.label(each.version) for each in voters) if _NUMBERS.match(label)]
    return max(labels, key=lambda label: (labels.count(label), order(label)), default=None)


def package_differences(now: Status, desired: Desired) -> t.List[str]:
    """The differences between the installed and the desired packages, as sentences."""
    found = []
    have = now.version
    if desired.versioned:
        if have is None:
            requested = "version %s" % desired.version if desired.version else "branch %s" % desired.branch
            return [
                "no package of the %s is installed, and %s is requested (if it is provided otherwise, leave %s out of "
                "gpu_node_roles)" % (title(desired.role), requested, desired.role)
            ]
        if needs_other_version(now, desired):
            text = "%s %s is installed, and %s is requested"
            if is_downgrade(now, desired):
                text = "%s %s is installed, and %s is requested, which is a downgrade"
            found.append(text % (title(desired.role), have, desired.version or "branch " + desired.branch))
    for what, names in (
        ("%s: not installed", now.absent),
        ("%s: left half installed by the package manager", now.broken),
        ("%%s: version differs from %s %s" % (title(desired.role), have), now.mixed),
    ):
        if names:
            found.append(what % ", ".join(names))
    return found


def title(role: str) -> str:
    """The name of a role's packages in messages: "driver" for nvidia_driver."""
    return role.split("_", 1)[-1].replace("_", " ")


def needs_other_version(now: Status, desired: Desired) -> bool:
    """Whether the installed version is not the requested one, or not of the requested branch."""
    if not desired.versioned or now.version is None:
        return False
    return now.version != desired.version if desired.version else not desired.in_branch(now.version)


def is_downgrade(now: Status, desired: Desired) -> bool:
    """Whether the requested version or branch is older than the installed one."""
    have = str(now.version) if desired.version else str(now.version).split(".", maxsplit=1)[0]
    return needs_other_version(now, desired) and order(desired.version or desired.branch) < order(have)


def needs_offers(now: Status, desired: Desired) -> bool:
    """Whether the package sources are needed: not if all packages are installed at the version to keep."""
    return desired.upgrade or now.incomplete or needs_other_version(now, desired)


def kept_version(now: Status, desired: Desired) -> t.Optional[str]:
    """The version to install, unless it is the newest that the package sources offer."""
    if desired.version or not desired.branch:
        return desired.version or None
    return now.version if now.version and desired.in_branch(now.version) and not desired.upgrade else None


def choose_packages(
    packages: t.Sequence[Package], now: Status, offers: Offers, desired: Desired, separator: str
) -> Choice:
    """Decide on one version, and on the packages to install for it.

    Without a requested version, an installed one of the branch stays, unless an upgrade is requested.
    """
    version = select_version(now, offers, desired)
    problems = _minimum_problems(version, desired)
    kernel = _later_kernels(packages, offers, desired, desired.upgrade or version != now.version)
    if not (problems or now.incomplete or kernel or version != now.version):
        return Choice(version, [], [])
    if desired.headers in now.missing and not offers.get(desired.headers):
        problems.append(
            "the node's package sources offer no %s, which the module for the running kernel is built with: upgrade the "
            "kernel and reboot first" % desired.headers
        )
    install, lacking = [], []
    for name in desired.packages:
        offered = offers.get(name, ())
        match = next((each for each in offered if version and desired.label(each) == version), None)
        if match and desired.is_family(name):
            install.append(name + separator + match)
        elif name in kernel:
            install.append(name + separator + kernel[name])
        elif name in now.missing and not offered and name != desired.headers:
            lacking.append("%s is not offered" % name)
        elif desired.shares_version(name) and version and not _has(packages, name, version, desired):
            lacking.append("%s is offered as %s" % (name, ", ".join(_labels(offered, desired)) or "nothing"))
        elif name in now.missing or any(broken.startswith(name + " ") for broken in now.broken):
            install.append(name)
    if lacking:
        what = " ".join(filter(None, (title(desired.role), version)))
        check = "%s_version and " % desired.role if desired.versioned else ""
        problems.append(
            "%s cannot be installed: %s. Check %sthe package sources of the node" % (what, "; ".join(lacking), check)
        )
    if problems:
        raise Refusal("; ".join(problems))
    optional = [name for name in desired.optional_packages if offers.get(name)]
    return Choice(version, install, optional)


def select_version(now: Status, offers: Offers, desired: Desired) -> t.Optional[str]:
    kept = kept_version(now, desired)
    if kept or not desired.branch:
        return kept
    newest, have = _newest(offers, desired), now.version
    # An upgrade never installs an older version.
    return have if have and desired.in_branch(have) and order(have) >= order(newest) else newest


def _newest(offers: Offers, desired: Desired) -> str:
    """The newest version of the branch in which all packages are offered."""
    common: t.Optional[t.Set[str]] = None
    listed = []
    for name in filter(desired.shares_version, desired.packages):
        labels = _labels(offers.get(name, ()), desired)
        if labels:
            listed.append("%s as %s" % (name, ", ".join(labels)))
            fitting = set(filter(desired.in_branch, labels))
            common = fitting if common is None else common & fitting
    if common:
        return max(common, key=order)
    raise Refusal(
        "the package sources of the node offer no %s of branch %s in one version: %s. Check %s_branch, %s_source and the "
        "node's package sources (on Debian the components contrib, non-free and non-free-firmware)"
        % (
            title(desired.role),
            desired.branch,
            "; ".join(listed) or "none of %s is offered" % ", ".join(desired.packages),
            desired.role,
            desired.role,
        )
    )


def _labels(versions: t.Sequence[str], desired: Desired) -> t.List[str]:
    return list(dict.fromkeys(desired.label(each) for each in versions))


def _minimum_problems(version: t.Optional[str], desired: Desired) -> t.List[str]:
    if not (version and desired.minimum_version and order(version) < order(desired.minimum_version)):
        return []
    return [
        "%s needs %s %s or later, and %s would be installed; set %s_branch or %s_version"
        % (desired.minimum_for, title(desired.role), desired.minimum_version, version, desired.role, desired.role)
    ]


def _later_kernels(packages: t.Sequence[Package], offers: Offers, desired: Desired, change: bool) -> t.Dict[str, str]:
    """New versions of packages that follow the kernel: only if the driver may change too."""
    have = {each.name: each.version for each in packages}
    return {
        name: offers[name][0]
        for name in desired.kernel_packages
        if change and offers.get(name) and have.get(name) not in (None, offers[name][0])
    }


def _has(packages: t.Sequence[Package], name: str, version: str, desired: Desired) -> bool:
    return any(each.name == name and desired.label(each.version) == version and not each.broken for each in packages)


def leftover_modules(
    packages: t.Sequence[Package], touched: t.Container[str], own: t.Set[str], version: str, desired: Desired
) -> t.List[str]:
    """Kernel modules of others that would stay beside a driver that they do not belong to.

    ``touched`` are the packages that change or are removed, ``own`` those that the role installed.
    """
    prebuilt = any(name.startswith("linux-modules-nvidia-") for name in desired.packages)
    return [
        "%s %s" % (each.name, each.version)
        for each in packages
        if desired.is_family(each.name) and each.name not in touched and not {each.name, each.full_name} & own
        if (_other_module(each, version, desired) or (each.name.startswith("linux-modules-nvidia-") and not prebuilt))
    ]


def _other_module(package: Package, version: str, desired: Desired) -> bool:
    label = desired.label(package.version)
    return bool(
        _MODULE.search(package.name)
        and package.name not in desired.independent
        and label != version
        and _DRIVER_VERSION.fullmatch(label)
    )
