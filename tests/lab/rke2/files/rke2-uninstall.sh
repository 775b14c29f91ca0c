#!/bin/sh
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Remove rke2 and the node's part of the cluster.

[ "$(id -u)" = 0 ] || {
    echo "${0##*/}: must be run as root" >&2
    exit 1
}
data=${RKE2_DATA_DIR:-/var/lib/rancher/rke2}
here=$(dirname "$0")
prefix=${INSTALL_RKE2_ROOT:-$(dirname "$here")}

"$here/rke2-killall.sh"
for unit in rke2-server rke2-agent; do
    systemctl disable "$unit" 2>/dev/null
    systemctl reset-failed "$unit" 2>/dev/null
done
if command -v rpm >/dev/null && rpm -q rke2-common >/dev/null 2>&1; then
    yum remove -y 'rke2-*'
    rm -f /etc/yum.repos.d/rancher-rke2*.repo
fi
for folder in "$prefix/lib/systemd/system" /etc/systemd/system; do
    rm -f "$folder"/rke2-server.service "$folder"/rke2-agent.service "$folder"/rke2-server.env "$folder"/rke2-agent.env
done
systemctl daemon-reload

rm -rf --one-file-system "$prefix/share/rke2" /etc/rancher/rke2 /etc/rancher/node /etc/cni /opt/cni/bin /var/lib/kubelet \
    /var/lib/gpufleet-lab/rke2-containerd
rm -rf "$data" || {
    echo "failed to remove $data" >&2
    exit 1
}
rmdir /etc/rancher /var/lib/rancher 2>/dev/null
rm -f "$prefix/bin/rke2" "$prefix/bin/rke2-killall.sh" "$prefix/bin/rke2-uninstall.sh"
