# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Virtual machines: nodes with their own kernel, for what containers cannot show: modules, initramfs, boot order.

QEMU with user networking needs no interface and no firewall rule. It uses KVM if that works, else a software CPU.
Inside, the network looks like that of the other nodes; connections to the gateway end at this host's loopback, where
the web server listens too.

Before every boot, kernel and initramfs are copied from the machine's disk, as a boot loader does, so that it boots the
initramfs that it has built itself.
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
# To build the driver's module, and to start a GPU client.
PACKAGES = (
    *images.PACKAGES,
    *"containerd dkms dpkg-dev e2fsprogs gcc initramfs-tools libc6-dev".split(),
    *"linux-headers-amd64 linux-image-amd64 make udev".split(),
)
SIZE = "8G"
MEMORY = "1536"  # MiB
KVM = ("-accel", "kvm", "-cpu", "host", "-smp", "2")
# Emulating the features of a newer CPU takes more time than they save.
SOFTWARE_CPU = ("-accel", "tcg,tb-size=1024", "-cpu", "Nehalem", "-smp", "1")
PROBE = 15  # seconds within which a kernel without a root file system panics, if KVM works
# With every program at the same addresses, the software CPU can reuse translated code: four times as fast.
KERNEL_OPTIONS = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 norandmaps nokaslr mitigations=off audit=0 cryptomgr.notests quiet"
)
GPU = "pci:v000010DEd000020B2sv000010DEsd00001463bc03sc02i00"  # an A100's modalias
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


def names() -> t.List[str]:
    return sorted(path.parent.name for path in NODES.glob("*/disk.img"))


def ssh(name: str, *command: str) -> t.List[str]:
    """The command line that runs a command, or else a shell, on a machine."""
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "ConnectTimeout=10"]
    flags = [part for option in options for part in ("-o", option)]
    port = (NODES / name / "port").read_text()
    return ["ssh", "-i", str(SSH_KEY), "-p", port, *flags, "root@" + LOOPBACK, *([shlex.join(command)] * bool(command))]


def build(image: str) -> Path:
    """Build the disk image that new machines start with, unless it is cached."""
    suite = images.IMAGES[image].suite if image in images.IMAGES else None
    if not suite:
        raise LabError("a virtual machine cannot have the image %s: use bookworm or trixie" % image)
    disk, stamp = DISKS / (suite + ".img"), DISKS / (suite + ".stamp")
    recipes = (*images.DEBIAN_RECIPES, images.RECIPES / "machine.sh")
    wanted = fingerprint(" ".join(PACKAGES), SIZE, *recipes)
    with alone("machine-" + suite):
        if disk.exists() and stamp.exists() and stamp.read_text() == wanted:
            return disk
        say("building the disk of machines with %s (about two minutes)" % suite)
        DISKS.mkdir(parents=True, exist_ok=True)
        work = BUILDING / ("machine-" + suite)
        shutil.rmtree(work, ignore_errors=True)  # of an interrupted run
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
    """Boot a machine for the first time, with a new disk."""
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
        time.sleep(0.02)  # a new process has no command line yet


def write_on(disk: Path, files: t.Mapping[str, str]) -> None:
    """Write files to the disk of a machine that is not running."""
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
                raise LabError("cannot write %s to %s" % (path, disk))


def alive(name: str) -> bool:
    return bool(processes("gpulab.vm", NODES / name))


def stop(name: str) -> None:
    end(processes("gpulab.vm", NODES / name))


def stop_all() -> None:
    """Stop all machines of this checkout, including those whose files were deleted."""
    end(processes("gpulab.vm", NODES))


def end(found: t.Iterable[int]) -> None:
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # QEMU too


def last_output(name: str) -> str:
    """The end of the console and of QEMU's output."""
    files = [NODES / name / file for file in ("log", "console")]
    return "".join(path.read_text(errors="replace")[-2000:] for path in files if path.exists())


def copy_from_disk(home: Path, name: str) -> Path:
    """Copy the kernel or the initramfs that the link in the root directory of the disk points to."""
    shown = call("debugfs", "-R", "stat /" + name, home / "disk.img")
    link = re.search(r'Fast link dest: "(.*)"', shown)
    if not link:
        raise LabError("no link /%s on the machine's disk:\n%s" % (name, shown))
    call("debugfs", "-R", "dump /%s %s" % (link.group(1).lstrip("/"), home / name), home / "disk.img")
    return home / name


def kvm_works(kernel: Path) -> bool:
    """Whether a kernel starts with KVM. That the device can be opened is not enough: nested KVM may not work."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    arguments = ["-nodefaults", "-display", "none", "-no-reboot", "-m", "256", "-append", "panic=-1"]
    try:
        done = subprocess.run(
            ["qemu-system-x86_64", *KVM, *arguments, "-kernel", str(kernel)], timeout=PROBE, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def boot(home: Path, port: str, options: t.Sequence[str]) -> None:
    """Boot the machine, and boot it again after every reboot, until this process is killed."""
    processor: t.Sequence[str] = ()
    while True:
        kernel, initramfs = copy_from_disk(home, "vmlinuz"), copy_from_disk(home, "initrd.img")
        processor = processor or (KVM if kvm_works(kernel) else SOFTWARE_CPU)
        subprocess.run(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("qemu-system-x86_64", *processor, "-m", MEMORY),
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
