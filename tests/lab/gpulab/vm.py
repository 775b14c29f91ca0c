# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A virtual machine with a kernel of its own, for what containers cannot show: modules, initramfs, order at boot.

QEMU with a software CPU and user networking: no interface, no rule, no kernel support is needed. The kernel and the
initramfs are taken out of its disk at every boot, so that those which the machine made itself are what it boots.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from . import images, shared
from .places import BUILDING, LAB, SSH_KEY, LabError, alone, call, fingerprint, say

HOME = LAB / "vm"
PID = HOME / "pid"
PORT = 20000 + int(fingerprint(str(LAB)), 16) % 10000  # of its ssh, on this machine's loopback
PACKAGES = (*images.PACKAGES, "ifupdown", "initramfs-tools", "isc-dhcp-client", "linux-image-amd64", "udev")
NETWORK = "auto eth0\niface eth0 inet dhcp\n"
KERNEL_OPTIONS = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off"
SIZE = "8G"
READY = 240  # seconds; a software CPU takes 20 and more


def ssh(*command: str) -> t.List[str]:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=5"]
    flags = [part for option in options for part in ("-o", option)]
    return ["ssh", "-i", str(SSH_KEY), "-p", str(PORT), *flags, "root@127.0.0.1", *command]


def build(suite: str) -> Path:
    """A fresh disk's original."""
    disk = HOME / (suite + ".img")
    mark = HOME / (suite + ".stamp")
    wanted = fingerprint(Path(__file__), SSH_KEY.with_suffix(".pub"))
    with alone("vm"):
        if disk.exists() and mark.exists() and mark.read_text() == wanted:
            return disk
        say("building the virtual machine's disk (about a minute)")
        HOME.mkdir(parents=True, exist_ok=True)
        BUILDING.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix="vm-", dir=BUILDING))
        try:
            root = work / "root"
            call(
                *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--skip=cleanup/apt/lists"),
                *("--components=" + images.COMPONENTS, "--include=" + ",".join(PACKAGES), suite, root),
                *filter(None, [os.environ.get("GPUFLEET_DEBIAN_MIRROR")]),
            )
            settle(root)
            made = work / "disk.img"
            call("truncate", "--size", SIZE, made)
            call("mkfs.ext4", "-q", "-F", "-d", root, made)
            os.replace(made, disk)
            mark.write_text(wanted)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return disk


def settle(root: Path) -> None:
    keys = root / "root" / ".ssh"
    keys.mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(SSH_KEY.with_suffix(".pub"), keys / "authorized_keys")
    (root / "etc" / "network" / "interfaces").write_text(NETWORK)
    (root / "etc" / "fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
    (root / "etc" / "hostname").write_text("gpufleet-vm\n")


def up(suite: str) -> None:
    """Start it anew, with a fresh disk, and wait until it answers."""
    shared.prepare()
    original = build(suite)
    down()
    call("cp", "--sparse=always", original, HOME / "disk.img")
    with (HOME / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpulab.vm", "boot"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    PID.write_text(str(process.pid))
    deadline = time.monotonic() + READY
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise LabError("the virtual machine ended: %s" % (HOME / "log").read_text()[-2000:])
        if subprocess.run(ssh("true"), capture_output=True, stdin=subprocess.DEVNULL, check=False).returncode == 0:
            return
        time.sleep(1)
    raise LabError("the virtual machine does not answer after %d seconds: see %s" % (READY, HOME / "console"))


def down() -> None:
    if PID.exists():
        pid = int(PID.read_text())
        try:
            ours = b"gpulab.vm" in Path("/proc/%d/cmdline" % pid).read_bytes()
        except OSError:
            ours = False
        if ours:
            os.killpg(pid, signal.SIGKILL)  # its session: the loop below, and QEMU
        PID.unlink()
    (HOME / "disk.img").unlink(missing_ok=True)


def take_out(name: str) -> Path:
    """The newest kernel or initramfs that is on the disk."""
    disk, target = HOME / "disk.img", HOME / name
    listed = call("debugfs", "-R", "ls -p /boot", disk).splitlines()
    names = sorted(line.split("/")[5] for line in listed if line.count("/") > 5 and line.split("/")[5].startswith(name))
    if not names:
        raise LabError("no %s in the machine's /boot" % name)
    call("debugfs", "-R", "dump /boot/%s %s" % (names[-1], target), disk)
    return target


def boot() -> None:
    """Boot, again after every reboot, until it is killed."""
    while True:
        kernel, initramfs = take_out("vmlinuz-"), take_out("initrd.img-")
        started = time.monotonic()
        done = subprocess.run(
            [
                *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1536", "-smp", "2"),
                *("-nodefaults", "-display", "none", "-no-reboot", "-serial", "file:%s" % (HOME / "console")),
                *("-kernel", str(kernel), "-initrd", str(initramfs), "-append", KERNEL_OPTIONS),
                *("-drive", "file=%s,format=raw,if=virtio,cache=unsafe" % (HOME / "disk.img")),
                *("-netdev", "user,id=n0,hostfwd=tcp:127.0.0.1:%d-:22" % PORT, "-device", "virtio-net-pci,netdev=n0"),
            ],
            check=False,
        )
        if done.returncode or time.monotonic() - started < 2:
            sys.exit("QEMU ended with status %d" % done.returncode)


if __name__ == "__main__":
    boot()
