# shellcheck shell=bash
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# mmdebstrap's hook: turns the root directory $1 into a node.

set -e
root=$1
images=$(dirname "$0")

install -D -m 644 "$images/gpufleet-lab.service" "$root/etc/systemd/system/gpufleet-lab.service"
chroot "$root" systemctl enable --quiet gpufleet-lab.service
chroot "$root" systemctl mask --quiet systemd-timesyncd.service console-getty.service getty@tty1.service \
    systemd-networkd-wait-online.service

# Less work for apt and dpkg: no descriptions, and no fsync, since no node outlives a crash of the machine.
echo 'Acquire::Languages "none";' >"$root/etc/apt/apt.conf.d/80gpufleet-lab"
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/gpufleet-lab"
packages=$root/usr/lib/python3/dist-packages
install -m 644 "$images/bytecode/sitecustomize.py" "$packages/gpufleet_lab_modules.py"
echo 'import gpufleet_lab_modules' >"$packages/gpufleet_lab.pth"

# Each node generates its own host key and machine id. Not an RSA key, which takes seconds to generate.
key=/etc/ssh/ssh_host_ed25519_key
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname"
: >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/system/ssh.service.d" "$root/usr/lib/systemd/system/gpufleet-mig-restore.service.d"
# The simulator's state is a file, unlike the GPUs that it stands for.
cat >"$root/usr/lib/systemd/system/gpufleet-mig-restore.service.d/lab.conf" <<'UNIT'
[Service]
ReadWritePaths=-/var/lib/nvsim
UNIT
cat >"$root/etc/systemd/system/ssh.service.d/keys.conf" <<UNIT
[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c '[ -e $key ] || exec ssh-keygen -q -t ed25519 -N "" -f $key'
ExecStartPre=/usr/sbin/sshd -t
UNIT
echo "HostKey $key" >"$root/etc/ssh/sshd_config.d/gpufleet-lab.conf"

# A container cannot load modules: the lab's stand-in for the kernel "loads" the driver, and other modules fail.
cat >"$root/usr/lib/modprobe.d/gpufleet-lab.conf" <<'CONF'
install nvidia /opt/gpufleet-lab/bin/kernel load
install nvidia-current /opt/gpufleet-lab/bin/kernel load
install nvidia-current-open /opt/gpufleet-lab/bin/kernel load
install nvidia-uvm /opt/gpufleet-lab/bin/kernel load
install nvidia-modeset /opt/gpufleet-lab/bin/kernel load
remove nvidia /opt/gpufleet-lab/bin/kernel unload
remove nvidia-current /opt/gpufleet-lab/bin/kernel unload
CONF
