# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of dnf, rpm and dkms, and causes of package manager failures."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import apt, causes, dkms, dnf
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.choice import Package
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.manager import (
    CommandError,
    Output,
    Repository,
)

KERNEL = "5.14.0-503.el9.x86_64"


class Commands:
    """Answers by the first words that a command contains."""

    def __init__(self, **answers: t.Tuple[int, str]) -> None:
        self.answers = answers
        self.calls: t.List[str] = []

    def attempt(self, argv: t.Sequence[str], data: t.Optional[str] = None) -> Output:
        self.calls.append(" ".join(argv))
        status, text = next((self.answers[word] for word in argv if word in self.answers), (0, ""))
        return Output(status, text, "")

    def run(self, argv: t.Sequence[str], data: t.Optional[str] = None) -> Output:
        output = self.attempt(argv, data)
        if output.status:
            raise CommandError(output.text)
        return output


def with_dnf(commands: Commands, check: bool = False, file: str = "") -> dnf.Dnf:
    return dnf.Dnf(commands, "nvidia_driver", check, Repository(file=file))  # type: ignore[arg-type]


def manager(**answers: t.Tuple[int, str]) -> dnf.Dnf:
    return with_dnf(Commands(**answers))


# --- apt ---------------------------------------------------------------------------------------------------------------

CUDA = "https://repo.example/cuda/repos/debian12/x86_64/"
TOOLKIT = "https://repo.example/stable/deb/amd64"
KEY = "/usr/share/keyrings/gpufleet.asc"
STANZA = "Types: deb\nURIs: %s\nSuites: /\nSigned-By: /other.gpg\n"


@pytest.mark.parametrize(
    "text, url, conflict",
    [
        ("deb [signed-by=/other.gpg] %s /" % CUDA, CUDA, True),
        ("deb [arch=amd64 signed-by=/other.gpg] %s /" % CUDA.rstrip("/"), CUDA, True),
        ("deb [signed-by=/other.gpg] https://repo.example/stable/deb/$(ARCH) /", TOOLKIT, True),
        ("# Mine\ndeb http://a.example stable main\n deb [signed-by=/other.gpg] %s / # CUDA" % CUDA, CUDA, True),
        ("deb [signed-by=/other.gpg] %s /" % CUDA.replace("https", "http"), CUDA, True),
        ("deb [signed-by=/other.gpg] %s /" % CUDA.replace("//", "//me:secret@"), CUDA, True),
        (STANZA % CUDA, CUDA, True),
        ("Types: deb\nURIs: http://a.example\nSuites: a\n\n" + STANZA % CUDA, CUDA, True),
        (STANZA % CUDA + "Enabled: yes\n", CUDA, True),
        ("", CUDA, False),
        ("#deb [signed-by=/other.gpg] %s /" % CUDA, CUDA, False),
        ("deb [signed-by=%s] %s /" % (KEY, CUDA), CUDA, False),
        ("deb %s /" % CUDA, CUDA, False),
        ("deb [signed-by=/other.gpg] %s ./" % CUDA, CUDA, False),
        ("deb [signed-by=/other.gpg] %s-other /" % TOOLKIT, TOOLKIT, False),
        ("deb [signed-by=/other.gpg] https://a.example /\ndeb %s /" % CUDA, CUDA, False),
        (STANZA % CUDA + "Enabled: no\n", CUDA, False),
        (STANZA % "http://a.example" + "\n" + (STANZA % CUDA).replace("/other.gpg", KEY), CUDA, False),
    ],
)
def test_sources_with_another_key(text: str, url: str, conflict: bool) -> None:
    assert apt.has_other_key(text, url, KEY) == conflict


# --- dnf --------------------------------------------------------------------------------------------------------------

TRANSACTION = """\
Dependencies resolved.
================================================================================
 Package                 Arch    Version              Repository           Size
================================================================================
Installing:
 nvidia-driver-cuda      x86_64  3:580.126.20-1.el9   gpufleet            6.5 k
Upgrading:
 dkms                    noarch  3.3.0-1.el9          epel                  1 k
Downgrading:
 libnvidia-cfg           x86_64  3:580.126.20-1.el9   gpufleet              1 k
Installing dependencies:
 kmod-nvidia-open-dkms-with-a-long-name
                         noarch  3:580.126.20-1.el9   gpufleet            6.5 k
     replacing  kmod-game.x86_64 1:2.0-1.el9
 libnvidia-ml            x86_64  3:580.126.20-1.el9   gpufleet            6.5 k

Transaction Summary
================================================================================
Install  3 Packages
Operation aborted.
"""


def test_new_packages_of_a_transaction() -> None:
    found = manager(install=(1, TRANSACTION)).simulate(["nvidia-driver-cuda"])
    assert found.possible
    assert found.new == ["nvidia-driver-cuda", "kmod-nvidia-open-dkms-with-a-long-name", "libnvidia-ml"]
    assert (found.removed, found.downgraded) == (["kmod-game"], ["libnvidia-cfg"])
    assert found.changed == [
        ("nvidia-driver-cuda", "580.126.20-1.el9.x86_64"),
        ("dkms", "3.3.0-1.el9.noarch"),
        ("libnvidia-cfg", "580.126.20-1.el9.x86_64"),
        ("kmod-nvidia-open-dkms-with-a-long-name", "580.126.20-1.el9.noarch"),
        ("libnvidia-ml", "580.126.20-1.el9.x86_64"),
    ]
    assert not manager(install=(1, "Error: Unable to find a match: x")).simulate(["x"]).possible
    assert manager(install=(0, "Nothing to do.")).simulate(["x"]).possible


def test_offers_have_full_names_too() -> None:
    listed = "kernel-devel 5.14.0-503.el9 x86_64 os\n\nnvidia-driver-cuda 3:580.126.20-1.el9 x86_64 cuda\n"
    found = manager(repoquery=(0, listed)).offers(["kernel-devel"])
    assert found["kernel-devel-" + KERNEL] == ["5.14.0-503.el9"]
    assert found["nvidia-driver-cuda"] == ["3:580.126.20-1.el9"]


def test_versions_of_other_repositories_do_not_count(tmp_path: Path) -> None:
    listed = (
        "kernel-devel 5.14.0-503.el9 x86_64 os\n"
        "nvidia-driver-cuda 3:580.178.04-1.el9 x86_64 other\n"
        "nvidia-driver-cuda 3:580.126.20-1.el9 x86_64 gpufleet\n"
        "kmod-nvidia 3:580.126.20-1.el9 x86_64 other\n"
    )
    file = tmp_path / "gpufleet.repo"
    names = ["kernel-devel", "nvidia-driver-cuda", "kmod-nvidia"]
    commands = Commands(repoquery=(0, listed), install=(0, ""))
    packages = with_dnf(commands, file=str(file))
    assert packages.offers(names, own=names[1:])["nvidia-driver-cuda"] == ["3:580.178.04-1.el9", "3:580.126.20-1.el9"]
    file.write_text("[gpufleet]\nbaseurl = http://mirror.example\n")
    found = packages.offers(names, own=names[1:])
    assert found["nvidia-driver-cuda"] == ["3:580.126.20-1.el9"]
    assert found["kernel-devel"] == ["5.14.0-503.el9"]
    assert found["kmod-nvidia"] == ["3:580.126.20-1.el9"]  # the role's repository has none


def test_packages_come_from_the_role_s_repository_if_it_has_them(tmp_path: Path) -> None:
    file = tmp_path / "gpufleet.repo"
    file.write_text("[gpufleet]\nbaseurl = http://mirror.example\n")
    commands = Commands(install=(0, ""))
    packages = with_dnf(commands, file=str(file))
    packages.simulate(["a-1"])
    packages.install(["a-1"], downgrade=False, own_holds=[])
    assert all("--setopt=gpufleet.priority=1" in call for call in commands.calls)
    assert len(commands.calls) == 2


def test_foreign_locks_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "versionlock.list"
    monkeypatch.setattr(dnf, "LOCKS", str(file))
    monkeypatch.setattr(dnf, "PLUGIN", (str(tmp_path / "versionlock.conf"), "plugin"))
    commands = Commands()
    packages = with_dnf(commands)
    lock = packages.holds_for([Package("nvidia-driver-cuda", "3:580.126.20-1.el9")])
    assert lock == ["nvidia-driver-cuda-3:580.126.20-1.el9.*"]
    packages.hold(lock, [])
    assert commands.calls[0].endswith("install plugin")
    file.write_text("# Mine\nkernel-0:5.14.0-503.el9.*\n" + file.read_text())
    packages.hold(lock, [])
    assert packages.holds() == ["kernel-0:5.14.0-503.el9.*", *lock]
    packages.hold([], lock)
    assert file.read_text() == "# Mine\nkernel-0:5.14.0-503.el9.*\n"


def test_the_list_of_locks_may_be_a_link_with_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.list"
    file.write_bytes(b"# Caf\xe9\n")
    file.chmod(0o640)
    link = tmp_path / "versionlock.list"
    link.symlink_to(file)
    monkeypatch.setattr(dnf, "LOCKS", str(link))
    monkeypatch.setattr(dnf, "PLUGIN", (str(tmp_path), "plugin"))
    manager().hold(["a-1-1.*"], [])
    assert file.read_bytes() == b"# Caf\xe9\na-1-1.*\n"
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_stream_is_enabled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dnf, "MODULES", str(tmp_path))
    commands = Commands(list=(0, "nvidia-driver  580-open  default"))
    packages = with_dnf(commands)
    assert not packages.enable_stream("nvidia-driver:595-open", optional=True)
    assert packages.enable_stream("nvidia-driver:580-open", optional=True)
    assert [call.split("module ")[1] for call in commands.calls[-2:]] == [
        "reset nvidia-driver",
        "enable nvidia-driver:580-open",
    ]
    (tmp_path / "nvidia-driver.module").write_text("[nvidia-driver]\nname=nvidia-driver\nstream=580-open\n")
    assert not packages.enable_stream("nvidia-driver:580-open", optional=False)


def test_check_mode_enables_no_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dnf, "MODULES", str(tmp_path))
    commands = Commands()
    assert with_dnf(commands, check=True).enable_stream("nvidia-driver:580-open", optional=False)
    assert commands.calls == []


def test_packages_that_others_need_are_not_removed() -> None:
    row = " %s x86_64 3:580.126.20-1.el9 @gpufleet 0\n"

    class Needed(Commands):
        def attempt(self, argv: t.Sequence[str], data: t.Optional[str] = None) -> Output:
            names = list(argv)[argv.index("--noautoremove") + 1 :]
            table = "Removing:\n" + "".join(row % name.split("-580")[0] for name in names)
            if "libnvidia-ml" in names:
                table += "Removing dependent packages:\n" + row % "game"
            return Output(1, table + "\nTransaction Summary\n", "Operation aborted.")

    packages = with_dnf(Needed())
    assert packages.removable(["libnvidia-ml", "nvidia-driver-cuda"], []) == ["nvidia-driver-cuda"]
    assert packages.removable(["libnvidia-ml"], ["game"]) == ["libnvidia-ml"]
    full = "kmod-nvidia-580.126.20-1.el9.x86_64"  # recorded with its version
    assert packages.removable(["libnvidia-ml", full], []) == [full]
    assert (
        manager(remove=(1, "Error: The operation would result in removing protected packages")).removable(["a"], [])
        == []
    )


# --- DKMS -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "listed, source",
    [
        ("nvidia/580.126.20: added", "nvidia/580.126.20"),
        ("nvidia-open/580.126.20, 5.14.0-427.el9.x86_64, x86_64: installed", "nvidia-open/580.126.20"),
        ("nvidia/580.126.20, %s, x86_64: installed" % KERNEL, None),
        ("nvidia/580.126.20: added\nnvidia/580.126.20, %s, x86_64: installed (original_module exists)" % KERNEL, None),
        ("nvidia/580.105.08: added", None),
        ("", None),
    ],
)
def test_modules_that_have_to_be_built(listed: str, source: t.Optional[str]) -> None:
    assert dkms.missing(listed, "580.126.20", KERNEL) == source


# --- Causes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, words",
    [
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "no space"),
        ("dpkg: error: failed to write: No space left on device", "no space"),
        ("E: Held packages were changed and -y was used without --allow-change-held-packages.", "somebody else holds"),
        (
            "Failed to validate GPG signature for a-1.rpm: Public key for a-1.rpm is not installed",
            "not signed with the key",
        ),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend.", "Another package manager"),
        ("E: Unable to lock directory /var/lib/apt/lists/", "Another package manager"),
        ("E: The repository 'http://x ./ Release' is not signed.", "not signed"),
        ("GPG error: http://x InRelease: NO_PUBKEY 0123456789ABCDEF", "not signed"),
        ("Bad return status for module build on kernel: 6.12.117 (x86_64)", "could not be built"),
        ("Error! Build of nvidia.ko failed for: 6.12.117", "could not be built"),
        (
            "Error! Your kernel headers for kernel 5.14.0-570.el9.x86_64 cannot be found at /lib",
            "headers of the running kernel",
        ),
        ("The following packages have unmet dependencies:", "have conflicting dependencies"),
        ("Problem: nothing provides dkms needed by kmod-nvidia-open-dkms", "have conflicting dependencies"),
        ("E: Failed to fetch http://x/y.deb 404 Not Found", "cannot be reached"),
        ("E: Failed to fetch http://x/y.deb  File has unexpected size (916 != 918).", "run this again"),
        ("dpkg: something new", "output has the reason"),
    ],
)
def test_causes(text: str, words: str) -> None:
    assert words in causes.cause("Reading package lists...\n" + text, "nvidia_driver").text


def test_causes_name_variables_of_roles_with_a_package_source_of_their_own() -> None:
    for output, name in (("is not signed", "repository_*"), ("Failed to fetch", "repository_url")):
        assert "nvidia_container_toolkit_" + name in causes.cause(output, "nvidia_container_toolkit").text
        assert "containerd" not in causes.cause(output, "containerd", has_source=False).text


def test_the_last_lines_are_reported_once() -> None:
    assert causes.tail("\n".join(map(str, range(30))), lines=2) == ["28", "29"]
    assert causes.tail("Reading\nE: it broke\n\nReading\nE: it broke\n") == ["Reading", "E: it broke"]
