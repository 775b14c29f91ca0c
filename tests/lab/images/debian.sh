# shellcheck shell=bash
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# What mmdebstrap's hook does to a node's root directory, $1.

set -e
root=$1
images=$(dirname "$0")

install -D -m 644 "$images/gpufleet-lab.service" "$root/etc/systemd/system/gpufleet-lab.service"
chroot "$root" systemctl enable --quiet gpufleet-lab.service
chroot "$root" systemctl mask --quiet systemd-timesyncd.service console-getty.service getty@tty1.service \
    systemd-networkd-wait-online.service

# Every node has a key and a machine id of its own. It is not an RSA key, which takes seconds to make.
key=/etc/ssh/ssh_host_ed25519_key
rm -f "$root"/etc/ssh/ssh_host_* "$root/etc/hostname"
: >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/system/ssh.service.d"
cat >"$root/etc/systemd/system/ssh.service.d/keys.conf" <<UNIT
[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c '[ -e $key ] || exec ssh-keygen -q -t ed25519 -N "" -f $key'
ExecStartPre=/usr/sbin/sshd -t
UNIT
echo "HostKey $key" >"$root/etc/ssh/sshd_config.d/gpufleet-lab.conf"

# The kernel of a container loads no modules. The lab's does, and for all others modprobe fails as it does there.
cat >"$root/usr/lib/modprobe.d/gpufleet-lab.conf" <<'CONF'
install nvidia /opt/gpufleet-lab/bin/kernel load
install nvidia-current /opt/gpufleet-lab/bin/kernel load
install nvidia-current-open /opt/gpufleet-lab/bin/kernel load
install nvidia-uvm /opt/gpufleet-lab/bin/kernel load
install nvidia-modeset /opt/gpufleet-lab/bin/kernel load
remove nvidia /opt/gpufleet-lab/bin/kernel unload
remove nvidia-current /opt/gpufleet-lab/bin/kernel unload
CONF
