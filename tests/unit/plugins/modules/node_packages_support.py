# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes with apt or dnf for the tests of the module node_packages: fakes with a state."""

from __future__ import annotations

import re

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record

OLD, NEW = "580.105.08-1", "580.126.20-1"
CUDA, LIBRARY, TOOL = "nvidia-driver-cuda", "libcuda1", "nvidia-modprobe"
URL, ARCHIVE = "http://mirror.example/cuda", "http://archive.example/ubuntu noble/restricted amd64"
INSTALL = "^(?!.*--simulate).*--yes "  # the pattern of the command that changes packages
LOCKED = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7"
DRIVER = {
    "role": "nvidia_driver",
    "packages": [CUDA],
    "branch": "580",
    "family": ["*nvidia*", "libcuda*", "!*container*"],
    "repository": {"url": URL},
    "lock_timeout": 0,
}


class Debian:
    """Answers the commands of apt and dpkg. CUDA depends on LIBRARY of the same version."""

    def __init__(self):
        self.state = {}  # name: [status, version]
        self.offers = {CUDA: [NEW, OLD], LIBRARY: [NEW, OLD], TOOL: ["1-1"]}
        self.archive = []  # (name, version) that the distribution offers
        self.needs = {CUDA: [LIBRARY]}
        self.conflicts = {}
        self.calls = []
        self.answers = []  # (pattern of the command, status, stderr); each once

    def install(self, name, version, status="ii "):
        self.state[name] = [status, version]

    def __call__(self, argv, data=None, **_more):
        words = [word for word in argv if not word.startswith("-") and ":" not in word]
        line = " ".join(argv)
        self.calls.append(line)
        for answer in self.answers:
            if re.search(answer[0], line):
                self.answers.remove(answer)
                return answer[1], "", answer[2]
        if words[0] == "dpkg-query":
            rows = sorted(self.state.items())
            return 0, "".join("%s\t%s\t%s\n" % (status, name, version) for name, (status, version) in rows), ""
        if words[:2] == ["apt-cache", "madison"]:
            rows = [(name, version, URL) for name in words[2:] for version in self.offers.get(name, ())]
            rows = [(*row, ARCHIVE) for row in self.archive if row[0] in words] + rows
            return 0, "".join(" %s | %s | %s  Packages\n" % row for row in rows), ""
        if words[0] == "sh" and data:
            for selection in data.splitlines():
                name, wanted = selection.split()
                self.state[name][0] = wanted[0] + self.state[name][0][1:]
            return 0, "", ""
        if words[0] == "dpkg":
            for row in self.state.values():
                row[0] = row[0].replace("F", "i")
            return 0, "", ""
        if words[1] in ("update", "check"):
            return 0, "", ""
        if words[1] == "purge":
            return self.purge(words[2:], "--simulate" in argv)
        return self.get(words[2:], "--simulate" in argv, "Dir::State::status" in line, "--allow-downgrades" in argv)

    def get(self, specifications, simulate, released, downgrade):
        coming = {}
        for specification in specifications:
            name, version = ([*specification.split("="), None])[:2]
            coming[name] = version or self.offers[name][0]
            coming.update(dict.fromkeys(self.needs.get(name, ()), coming[name]))
        held = [name for name in coming if self.state.get(name, "i")[0][0] == "h" and not released]
        if any(self.state[name][1] != coming[name] for name in held):
            return 100, "", "E: Unable to correct problems, you have held broken packages.\nunmet dependencies"
        former = {name: row[1] for name, row in self.state.items() if coming.get(name, row[1]) != row[1]}
        if not downgrade and any(precedence(coming[name]) < precedence(version) for name, version in former.items()):
            return 100, "", "E: Packages were downgraded and -y was used without --allow-downgrades."
        printed = "".join("Inst %s (%s)\n" % row for row in coming.items() if row[0] not in self.state)
        printed += "".join("Inst %s [%s] (%s)\n" % (name, version, coming[name]) for name, version in former.items())
        gone = [each for name in coming for each in self.conflicts.get(name, ()) if each in self.state]
        printed += "".join("Remv %s [1]\n" % name for name in gone)
        if not simulate:
            for name in gone:
                del self.state[name]
            for name, version in coming.items():
                assert self.state.get(name, ["i"])[0][0] != "h", "%s is held" % name
                self.install(name, version)
        return 0, printed, ""

    def purge(self, names, simulate):
        gone = {name for name in names if name in self.state}
        gone |= {name for name, needs in self.needs.items() if name in self.state and gone & set(needs)}
        if not simulate:
            for name in gone:
                assert self.state.pop(name)[0][0] != "h"
        return 0, "".join("Purg %s [1]\n" % name for name in sorted(gone)), ""

    def called(self, pattern):
        return [line for line in self.calls if re.search(pattern, line)]


def precedence(version):
    """A key as dpkg compares versions, with at most one release candidate."""
    release, candidate, _number = version.partition("~")
    return [int(part) for part in re.findall("[0-9]+", release)], not candidate


class Rpm(Debian):
    """Answers the commands of rpm and dnf. The driver is upgraded together with the headers."""

    table = "Upgrading:\n %s x86_64 3:580.126.20-1 cuda 1 k\n kernel-devel x86_64 5.14.0-503.el9 base 1 k\n" % CUDA

    def __call__(self, argv, data=None, **_more):
        self.calls.append(" ".join(argv))
        if argv[0] == "rpm":
            return 0, "%s\t3:580.105.08-1\tx86_64\nkernel-devel\t0:5.14.0-427.el9\tx86_64\n" % CUDA, ""
        if "repoquery" in argv:
            words = {"name": CUDA, "evr": "3:580.126.20-1", "arch": "x86_64", "repoid": "cuda"}
            form = argv[argv.index("--queryformat") + 1]
            return 0, re.sub(r"%{(\w+)}", lambda match: words[match.group(1)], form), ""
        return 0, self.table, ""


def recorded(role="nvidia_driver"):
    return record.read(role)


def pinned(debian):
    path = debian.folder / "preferences.d" / "gpufleet-nvidia-driver"
    return path.read_text() if path.exists() else None
