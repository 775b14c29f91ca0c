# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Installed and offered packages of the driver, and which version of them a node should get."""

from __future__ import annotations

import fnmatch
import re
import typing as t

from ._driver_plan import check_minimum, numbers
from ._refusal import Refusal

Data = t.Dict[str, t.Any]

# The driver's version at the start of a package's, after the epoch: "580.126.20" of "3:580.126.20-1.el9".
_UPSTREAM = re.compile(r"(?:\d+:)?(\d{3}\.\d+(?:\.\d+)?)(?![\d.])")
# Of these the version is the driver's; metapackages and tools may lag behind.
_TELLING = re.compile(
    r"^(libnvidia-ml1?|libnvidia-compute(-.+)?|nvidia-smi|nvidia-utils-.+|nvidia-driver-cuda(-libs)?|nvidia-driver-libs)$"
)
_FAMILY = re.compile(r"nvidia|^libcuda|^cuda-drivers|^libnv|^nv")
_TOOLKIT = re.compile(r"container")
_NOT_DRIVER = re.compile(r"container|cuda-toolkit|pinning|egl-|vaapi|nvtop")
# Of Ubuntu: these bring the modules of one kernel alone, or the kernel itself; all others bring later ones too.
_OF_ONE_KERNEL = re.compile(r"-\d+\.\d+\.\d+-\d+")
_BROKEN = {"F": "half-configured", "H": "half-installed", "U": "unpacked"}


def parse(text: str, manager: str) -> t.List[Data]:
    """Lines of ``dpkg-query`` (status, name, version) or ``rpm`` (name, version, release, architecture)."""
    found = []
    for line in text.splitlines():
        fields = line.split("\t")
        if manager == "apt" and len(fields) == 3 and fields[0][1:2] not in ("n", "c", ""):
            status, name, version = fields
            broken = _BROKEN.get(status[1]) or ("reinstall required" if status[2:3] == "R" else None)
            found.append(_package(name, version, held=status[0] == "h", broken=broken))
        elif manager == "dnf" and len(fields) == 4:
            name, version, release, architecture = fields
            package = _package(name, version + "-" + release)
            package["full_name"] = "%s-%s.%s" % (name, package["version"].split(":")[-1], architecture)
            found.append(package)
    return found


def _package(name: str, version: str, held: bool = False, broken: t.Optional[str] = None) -> Data:
    return {"name": name, "version": version, "upstream": upstream(version), "held": held, "broken": broken}


def upstream(version: str) -> t.Optional[str]:
    match = _UPSTREAM.match(version)
    return match.group(1) if match else None


def is_driver(name: str) -> bool:
    return _NOT_DRIVER.search(name) is None


def status(packages: t.Sequence[Data], plan: Data, independent: t.Sequence[str] = ()) -> Data:
    """What of the plan is there."""
    there = {package["name"] for package in packages if not package["broken"]}
    # The plan may name one with its version, as kernel-devel-5.14.0-503.el9.x86_64.
    there |= {package["full_name"] for package in packages if "full_name" in package}
    version = driver_version(packages)
    # What makes one driver: everything that carries its version.
    driver = [each for each in packages if version and each["upstream"] == version and is_driver(each["name"])]
    follow = [each for each in packages if plan.get("kernel_packages") and _follows_kernels(each["name"])]
    return {
        "version": version,
        "missing": [name for name in plan["packages"] if name not in there],
        "broken": ["%s (%s)" % (package["name"], package["broken"]) for package in packages if package["broken"]],
        "held": sorted(package["name"] for package in packages if package["held"]),
        "driver": sorted(package["name"] for package in driver),
        # A held driver keeps the modules of later kernels out, so that no later kernel may come either.
        "to_hold": sorted(package["name"] for package in [*driver, *follow]),
        "locks": sorted("%s-%s.*" % (package["name"], package["version"]) for package in driver),
        "mixed": [
            "%s %s" % (package["name"], package["version"])
            for package in packages
            if package["name"] in plan["packages"]
            and package["name"] not in independent
            and package["upstream"] not in (None, version)
        ],
        # The toolkit is another role's, which may be installing it at this moment.
        "present": sorted(
            {
                each["name"]
                for each in packages
                if _FAMILY.search(each["name"]) and not _TOOLKIT.search(each["name"]) and not _is_kernel(each["name"])
            }
            | (({each["name"] for each in packages} | there) & set(plan["packages"]))
        ),
    }


def problems(now: Data, plan: Data, hold: bool, locks: t.Optional[t.Sequence[str]] = None) -> t.List[str]:
    """What is not as it should be, of a :func:`status`. ``locks`` are the lines that dnf keeps to; None with apt."""
    have = now["version"]
    if have is None:
        return [
            "no package of a driver is installed, and branch %s is asked for (where the driver comes from elsewhere, leave "
            "nvidia_driver out of gpu_node_roles)" % plan["branch"]
        ]
    found = []
    if plan["version"] not in (None, "", have):
        found.append("driver %s is installed, and %s is asked for" % (have, plan["version"]))
    elif have.split(".", maxsplit=1)[0] != plan["branch"]:
        found.append("driver %s is installed, and branch %s is asked for" % (have, plan["branch"]))
    for what, names in (
        ("%s: not installed", now["missing"]),
        ("%s: left half done by the package manager", now["broken"]),
        ("%s: of another version than driver " + have, now["mixed"]),
    ):
        if names:
            found.append(what % ", ".join(names))
    loose = now["to_hold"] if locks is None else now["locks"]
    loose = sorted(set(loose) - {line.strip() for line in (now["held"] if locks is None else locks)})
    if hold and loose:
        found.append("not held, so that an upgrade of the system changes the driver: %s" % ", ".join(loose))
    return found


def _is_kernel(name: str) -> bool:
    return name.startswith("linux-image-") and _OF_ONE_KERNEL.search(name) is not None


def _follows_kernels(name: str) -> bool:
    return name.startswith(("linux-image-", "linux-modules-nvidia-")) and not _OF_ONE_KERNEL.search(name)


def driver_version(packages: t.Sequence[Data]) -> t.Optional[str]:
    known = [package for package in packages if package["upstream"] and is_driver(package["name"])]
    telling = [package for package in known if _TELLING.match(package["name"])] or known
    counts: t.Dict[str, int] = {}
    for package in telling:
        counts[package["upstream"]] = counts.get(package["upstream"], 0) + 1
    return max(counts, key=lambda version: (counts[version], numbers(version))) if counts else None


def offers(text: str, manager: str) -> t.Dict[str, t.List[str]]:
    """Versions offered by name, best first: lines of ``apt-cache madison`` or of ``dnf repoquery``.

    dnf's lines are of name, version and architecture. A package with its version in its name, as a plan has them of
    kernels, is there under that name too.
    """
    found: t.Dict[str, t.List[str]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")] if manager == "apt" else line.split()
        if len(fields) < 2:
            continue
        names = fields[:1]
        if manager == "dnf" and len(fields) == 3:
            names.append("%s-%s.%s" % (fields[0], fields[1].split(":")[-1], fields[2]))
        for name in names:
            if fields[1] not in found.setdefault(name, []):
                found[name].append(fields[1])
    return found


class Choice(t.NamedTuple):
    """What a node should get."""

    version: str
    install: t.List[str]  # as the package manager takes them; empty where nothing is to do
    downgrade: bool
    if_it_fits: t.List[str]  # to be installed with these unless their dependencies do not allow it


def choose(
    packages: t.Sequence[Data],
    offered: t.Mapping[str, t.Sequence[str]],
    plan: Data,
    manager: str,
    upgrade: bool = False,
    own_holds: t.Sequence[str] = (),
    independent: t.Sequence[str] = (),
    locks: t.Sequence[str] = (),
) -> Choice:
    """One version for everything that makes the driver.

    ``independent`` are packages of the driver whose version is their own, ``locks`` what somebody else has dnf lock. Without a version asked for, one that is
    installed and of the branch stays, unless ``upgrade``.
    """
    now = status(packages, plan, independent)
    have: t.Optional[str] = now["version"]
    in_branch = bool(have) and str(have).split(".", maxsplit=1)[0] == plan["branch"]
    if plan["version"]:
        version: str = plan["version"]
    elif have and in_branch and not upgrade:
        version = have
    else:
        version = _newest(offered, plan, independent)
        if have and in_branch and numbers(version) < numbers(have):
            version = have  # an upgrade never goes back
    check_minimum(plan["minimum_version"], plan["minimum_board"], version)
    kernel = _later_kernels(packages, offered, plan, upgrade or version != have)
    if version == have and not (now["missing"] or now["broken"] or now["mixed"] or kernel):
        return Choice(version, [], False, [])

    _refuse_holds(packages, version, own_holds)
    _refuse_locks(locks, {*plan["packages"], *now["driver"]} - set(independent), version)
    headers = plan["headers"]
    if headers in now["missing"] and not offered.get(headers):
        raise Refusal(
            "%s runs kernel %s, and its package sources offer no %s, which the kernel module is built with: upgrade the "
            "kernel and reboot first" % (plan["host"], plan["kernel"], headers)
        )
    install = []
    lacking = []
    for name in plan["packages"]:
        match = next((each for each in offered.get(name, ()) if upstream(each) == version), None)
        versions = [upstream(each) for each in offered.get(name, ()) if upstream(each)]
        if match:
            install.append(_spelt(name, match, manager))
        elif name in kernel:
            install.append(_spelt(name, kernel[name], manager))
        elif name in now["missing"] and not offered.get(name):
            lacking.append("%s is not offered at all" % name)
        elif versions and name not in independent and not _has(packages, name, version):
            lacking.append("%s is offered as %s" % (name, ", ".join(t.cast("t.List[str]", versions))))
        else:
            install.append(name)
    if lacking:
        raise Refusal(
            "driver %s cannot be installed as a whole: %s; check nvidia_driver_version, nvidia_driver_branch and the "
            "package sources of the node" % (version, "; ".join(lacking))
        )
    downgrade = bool(have) and numbers(version) < numbers(str(have))
    running = plan.get("running_modules")
    return Choice(version, install, downgrade, [running] if running and offered.get(running) else [])


def _later_kernels(
    packages: t.Sequence[Data], offered: t.Mapping[str, t.Sequence[str]], plan: Data, upgrade: bool
) -> t.Dict[str, str]:
    """New versions of packages that follow the kernel: only where the driver may change too."""
    have = {package["name"]: package["version"] for package in packages}
    return {
        name: offered[name][0]
        for name in plan.get("kernel_packages", ())
        if upgrade and offered.get(name) and have.get(name) not in (None, offered[name][0])
    }


def _newest(offered: t.Mapping[str, t.Sequence[str]], plan: Data, independent: t.Sequence[str]) -> str:
    """The newest version that every package of the driver is offered in."""
    common: t.Optional[t.Set[str]] = None
    told = []
    for name in plan["packages"]:
        versions = [each for each in map(upstream, offered.get(name, ())) if each]
        if not versions or name in independent:
            continue
        told.append("%s as %s" % (name, ", ".join(versions)))
        fitting = {each for each in versions if each.split(".")[0] == plan["branch"]}
        common = fitting if common is None else common & fitting
    if common:
        return max(common, key=numbers)
    raise Refusal(
        "the package sources of the node offer no driver of branch %s as a whole: %s; check nvidia_driver_branch, "
        "nvidia_driver_source and the node's package sources (on Debian the components contrib, non-free and "
        "non-free-firmware)" % (plan["branch"], "; ".join(told) or "none of %s is there" % ", ".join(plan["packages"]))
    )


def _refuse_holds(packages: t.Sequence[Data], version: str, own: t.Sequence[str]) -> None:
    foreign = [
        "%s %s" % (package["name"], package["version"])
        for package in packages
        if package["held"]
        and package["name"] not in own
        and package["upstream"] not in (None, version)
        and is_driver(package["name"])
    ]
    if foreign:
        raise Refusal(
            "somebody holds %s, which stands in the way of driver %s; release them (apt-mark unhold) or ask for that "
            "version in nvidia_driver_version" % (", ".join(foreign), version)
        )


def _refuse_locks(locks: t.Sequence[str], names: t.Collection[str], version: str) -> None:
    """A lock is spelt NAME-[EPOCH:]VERSION-RELEASE.ARCHITECTURE, with wildcards in any part but the name."""
    foreign = []
    for lock in locks:
        excluded = lock.startswith("!")
        for name in names:
            rest = re.match(r"!?%s-(?:(?:\d+|\*):)?([\d*?][^-]*)" % re.escape(name), lock)
            if rest and excluded == fnmatch.fnmatchcase(version, rest.group(1)):
                foreign.append(lock)
    if foreign:
        raise Refusal(
            "somebody locks %s, which stands in the way of driver %s; release them (dnf versionlock delete) or ask for "
            "that version in nvidia_driver_version" % (", ".join(dict.fromkeys(foreign)), version)
        )


def _has(packages: t.Sequence[Data], name: str, version: str) -> bool:
    return any(each["name"] == name and each["upstream"] == version and not each["broken"] for each in packages)


def _spelt(name: str, version: str, manager: str) -> str:
    return "%s=%s" % (name, version) if manager == "apt" else "%s-%s" % (name, version)


# --- Why an installation failed ---------------------------------------------------------------------------------------

# The first that matches is the cause; those that another one brings with it come later.
_CAUSES = (
    (
        r"No space left on device|enough free space",
        "The node has no space left: free some in /var, /usr or /boot, and run this again.",
    ),
    (r"Held packages were changed", "Packages that somebody holds stand in the way: see apt-mark showhold."),
    (
        r"Could not get lock|Unable to acquire the dpkg frontend lock|waiting for lock",
        "Another package manager is at work on the node: wait for it to end, and run this again.",
    ),
    (
        r"is not signed|NO_PUBKEY|EXPKEYSIG|BADSIG|GPG error|GPG check FAILED|repomd\.xml.*signature|Missing key"
        r"|validate GPG signature|Public key for .* is not installed",
        "A package source is not signed with the key that was given: check nvidia_driver_repository_url and "
        "nvidia_driver_repository_key.",
    ),
    (
        r"has unexpected size|Hash Sum mismatch|checksum doesn't match",
        "A package source changed while it was read: run this again.",
    ),
    (
        r"Could not resolve|Connection (refused|timed out|failed)|Cannot initiate|404 +Not Found|Failed to fetch"
        r"|Cannot download",
        "A package source cannot be reached, or lacks what it lists.",
    ),
    (
        r"Bad return status for module build|Error! Build of|make(\[\d+\])?: \*\*\* ",
        "The kernel module could not be built for a kernel of the node; the end of the build's log tells why. Another "
        "branch, another kernel, or nvidia_driver_kernel_modules may build. The next run finishes what is half done.",
    ),
    (
        r"kernel headers for kernel \S+ cannot be found",
        "The headers of the kernel that runs are not there, and the kernel module cannot be built without them.",
    ),
    (
        r"unmet dependencies|but it is not (going to be installed|installable)|nothing provides|conflicting requests",
        "The packages offered do not fit together.",
    ),
)


def cause(text: str) -> str:
    for pattern, meaning in _CAUSES:
        if re.search(pattern, text, re.IGNORECASE):
            return meaning
    return "The package manager's own words tell why."


def tail(text: str, lines: int = 20) -> t.List[str]:
    """The last lines, each once: package managers say the same in several places."""
    return list(dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip()))[-lines:]
