# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines: nodes with a kernel of their own, for what containers cannot show: modules, initramfs, order at boot.

QEMU with a software CPU and user networking: no interface, no rule, no kernel support is needed. A machine's network is
the nodes' in its own eyes; what it sends to the gateway goes to this machine's loopback, where the web server is too.

The kernel and the initramfs are taken out of its disk at every boot, as a boot loader would: those that the machine
made itself are what it boots.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

from . import images
from .places import (
    BUILDING,
    GATEWAY,
    LAB,
    LOOPBACK,
    NODES,
    SHARED,
    SSH_KEY,
    SUBNET,
    URL,
    LabError,
    alone,
    call,
    fingerprint,
    processes,
    say,
)

DISKS = LAB / "machines"
# What a machine has, for the driver to be built and its users to be started.
PACKAGES = (
    *images.PACKAGES,
    *"containerd dkms dpkg-dev e2fsprogs gcc initramfs-tools libc6-dev".split(),
    *"linux-headers-amd64 linux-image-amd64 make udev".split(),
)
SIZE = "8G"
CPU = "Nehalem"  # what newer ones can do more costs a software CPU more than it saves
MEMORY = "1536"  # MiB
# With every program at the same addresses, the software CPU can use again what it has translated: four times as fast.
KERNEL_OPTIONS = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 norandmaps nokaslr mitigations=off audit=0 cryptomgr.notests quiet"
)
GPU = "pci:v000010DEd000020B2sv000010DEsd00001463bc03sc02i00"  # as the kernel calls an A100 on its bus
INTERFACE = """\
[Match]
Name=eth0
[Network]
Address={subnet}.9/24
Gateway={gateway}
"""


def disk_of(name: str) -> Path:
    return NODES / name / "disk.img"


def exists(name: str) -> bool:
    return disk_of(name).exists()


def all_there() -> t.List[str]:
    return sorted(path.parent.name for path in NODES.glob("*/disk.img"))


def ssh(name: str, *command: str) -> t.List[str]:
    """The command line that runs a command on a machine, or a shell."""
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=10"]
    flags = [part for option in options for part in ("-o", option)]
    port = (NODES / name / "port").read_text()
    return ["ssh", "-i", str(SSH_KEY), "-p", port, *flags, "root@" + LOOPBACK, *([shlex.join(command)] * bool(command))]


def build(image: str) -> Path:
    """The disk that machines of an image start with."""
    suite = images.IMAGES[image].suite if image in images.IMAGES else None
    if not suite:
        raise LabError("no machine of %s; there are: bookworm, trixie" % image)
    disk, stamp = DISKS / (suite + ".img"), DISKS / (suite + ".stamp")
    recipes = [images.RECIPES / name for name in ("debian.sh", "machine.sh", "gpufleet-lab.service")]
    wanted = fingerprint(" ".join(PACKAGES), SIZE, *recipes)
    with alone("machine-" + suite):
        if disk.exists() and stamp.exists() and stamp.read_text() == wanted:
            return disk
        say("building the disk of machines with %s (about two minutes)" % suite)
        DISKS.mkdir(parents=True, exist_ok=True)
        work = BUILDING / ("machine-" + suite)
        shutil.rmtree(work, ignore_errors=True)  # of a run that was cut off
        work.mkdir(parents=True)
        try:
            hooks = [images.RECIPES / name for name in ("debian.sh", "machine.sh")]
            images.mmdebstrap(suite, PACKAGES, hooks, work / "root")
            call("truncate", "--size", SIZE, work / "disk.img")
            call("mkfs.ext4", "-q", "-F", "-d", work / "root", work / "disk.img")
            os.replace(work / "disk.img", disk)
            stamp.write_text(wanted)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return disk


def start(name: str, original: Path, hardware: str, gpus: bool) -> None:
    """Boot it for the first time, with a fresh disk."""
    home = NODES / name
    home.mkdir(parents=True)
    disk = disk_of(name)
    call("cp", "--sparse=always", original, disk)
    write_on(
        disk,
        {
            "/etc/hostname": name + "\n",
            "/etc/resolv.conf": "nameserver %s.3\n" % SUBNET,
            "/etc/systemd/network/eth0.network": INTERFACE.format(subnet=SUBNET, gateway=GATEWAY),
            "/etc/apt/apt.conf.d/90gpufleet-lab": 'Acquire::http::Proxy "%s";\n' % URL,
            "/var/lib/nvsim/hardware.json": hardware,
        },
    )
    call("truncate", "--size", "64M", home / "lab.img")
    call("mkfs.ext4", "-q", "-F", "-d", SHARED, home / "lab.img")
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port = str(probe.getsockname()[1])
    (home / "port").write_text(port)
    with (home / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpulab.vm", str(home), port, *(["gpufleet.gpu=" + GPU] * gpus)],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while process.poll() is None and not alive(name):
        time.sleep(0.02)  # for a moment, a new process has no command line


def write_on(disk: Path, files: t.Mapping[str, str]) -> None:
    """Put files on a disk that no machine runs from."""
    with tempfile.TemporaryDirectory() as work:
        commands = []
        for number, (path, text) in enumerate(files.items()):
            source = Path(work) / str(number)
            source.write_text(text)
            source.chmod(0o644)
            folder, _slash, name = path.rpartition("/")
            commands += ["cd " + folder, "rm " + name, "write %s %s" % (source, name)]
        (Path(work) / "commands").write_text("\n".join(commands) + "\n")
        call("debugfs", "-w", "-f", Path(work) / "commands", disk)
        for path, text in files.items():
            if call("debugfs", "-R", "cat " + path, disk) != text:
                raise LabError("%s could not be written on %s" % (path, disk))


def alive(name: str) -> bool:
    return bool(processes("gpulab.vm", NODES / name))


def stop(name: str) -> None:
    end(processes("gpulab.vm", NODES / name))


def stop_all() -> None:
    """Also those whose files are gone."""
    end(processes("gpulab.vm", NODES))


def end(found: t.Iterable[int]) -> None:
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # QEMU too


def last_words(name: str) -> str:
    """What it and QEMU said last."""
    files = [NODES / name / file for file in ("log", "console")]
    return "".join(path.read_text(errors="replace")[-2000:] for path in files if path.exists())


def take_out(home: Path, name: str) -> Path:
    """The kernel or the initramfs that the disk's root has a link to, as Debian keeps them."""
    shown = call("debugfs", "-R", "stat /" + name, home / "disk.img")
    link = re.search(r'Fast link dest: "(.*)"', shown)
    if not link:
        raise LabError("the machine's disk has no link /%s:\n%s" % (name, shown))
    call("debugfs", "-R", "dump /%s %s" % (link.group(1).lstrip("/"), home / name), home / "disk.img")
    return home / name


def boot(home: Path, port: str, options: t.Sequence[str]) -> None:
    """Boot, and again after every reboot, until it is killed."""
    while True:
        kernel, initramfs = take_out(home, "vmlinuz"), take_out(home, "initrd.img")
        subprocess.run(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("qemu-system-x86_64", "-accel", "tcg,tb-size=256", "-cpu", CPU, "-m", MEMORY, "-smp", "1"),
                *("-nodefaults", "-display", "none", "-no-reboot", "-serial", "file:%s" % (home / "console")),
                *("-kernel", str(kernel), "-initrd", str(initramfs)),
                *("-append", " ".join([KERNEL_OPTIONS, *options])),
                *("-drive", "file=%s,format=raw,if=virtio,cache=unsafe" % (home / "disk.img")),
                *("-drive", "file=%s,format=raw,if=virtio,readonly=on" % (home / "lab.img")),
                *("-device", "virtio-rng-pci", "-device", "virtio-net-pci,netdev=n0,romfile="),
                *(
                    "-netdev",
                    "user,id=n0,net=%s.0/24,host=%s,hostfwd=tcp:%s:%s-%s.9:22"
                    % (SUBNET, GATEWAY, LOOPBACK, port, SUBNET),
                ),
            ],
            check=True,
        )


if __name__ == "__main__":
    boot(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
