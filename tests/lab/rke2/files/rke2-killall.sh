#!/bin/sh
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Stop all processes of rke2 on this node, and remove its kernel state. Files are kept.

[ "$(id -u)" = 0 ] || {
    echo "${0##*/}: must be run as root" >&2
    exit 1
}
PATH=/opt/gpufleet-kubernetes/iptables:$PATH
for unit in rke2-server rke2-agent gpufleet-lab-rke2-end; do
    systemctl stop "$unit.service" 2>/dev/null
done
/opt/gpufleet-lab/bin/stop-rke2

places='^/(run/k3s(/|$)|var/lib/kubelet(/|$)|run/netns/cni-)'
awk -v places="$places" '$5 ~ places || $4 ~ "/gpufleet-lab/sysctls/" { print $5 }' /proc/self/mountinfo |
    sort -r | while read -r place; do
    umount "$place"
done
rm -f /run/netns/cni-*
rm -rf --one-file-system /run/k3s /run/cni /run/nri /run/gpufleet-lab/sysctls /var/lib/cni /var/log/pods \
    /var/log/containers
ip route flush proto 199

for family in iptables ip6tables; do
    $family-save | grep -v -e KUBE- -e CNI- | $family-restore
done
find /sys/fs/cgroup/k8s.io -depth -type d -exec rmdir {} + 2>/dev/null
exit 0
