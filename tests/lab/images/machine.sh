# shellcheck shell=bash
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# mmdebstrap's hook, after debian.sh: turns the root directory $1 into a virtual machine.

set -e
root=$1

cat >"$root/etc/fstab" <<'TABLE'
/dev/vda / ext4 errors=remount-ro 0 1
/dev/vdb /opt/gpufleet-lab ext4 ro 0 0
TABLE
mkdir -p "$root/opt/gpufleet-lab" "$root/var/lib/nvsim" "$root/etc/systemd/system/gpufleet-lab.service.d"
cat >"$root/etc/systemd/system/gpufleet-lab.service.d/machine.conf" <<'UNIT'
[Unit]
RequiresMountsFor=/opt/gpufleet-lab /var/lib/nvsim
After=systemd-remount-fs.service
UNIT
chroot "$root" systemctl enable --quiet systemd-networkd.service
chroot "$root" systemctl mask --quiet serial-getty@ttyS0.service

# Without KVM everything takes ten times as long. Therefore unused modules are not loaded, housekeeping at boot is off,
# and kernel modules for hardware that QEMU does not have are removed, because depmod would search them at every change.
printf 'blacklist %s\n' ata_generic ata_piix cfg80211 floppy i2c_piix4 kvm_amd kvm_intel pcspkr psmouse \
    >"$root/etc/modprobe.d/gpufleet-lab-machine.conf"
chroot "$root" systemctl disable --quiet apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer
chroot "$root" systemctl mask --quiet e2scrub_reap.service systemd-binfmt.service modprobe@configfs.service \
    modprobe@drm.service modprobe@efi_pstore.service modprobe@fuse.service modprobe@loop.service
for kernel in "$root"/lib/modules/*; do
    (
        cd "$kernel/kernel"
        rm -rf sound drivers/bluetooth drivers/infiniband drivers/isdn drivers/media/pci drivers/media/usb \
            drivers/media/dvb-frontends drivers/media/i2c drivers/net/ethernet drivers/net/wireless drivers/scsi \
            drivers/staging drivers/usb drivers/gpu/drm/amd drivers/gpu/drm/i915 drivers/gpu/drm/radeon
    )
    chroot "$root" depmod "${kernel##*/}"
done

# A small initramfs with fast compression. It contains nouveau, as on machines with an early display. A hook copies
# nouveau, because initramfs-tools would search for its firmware, file by file, for minutes.
mkdir -p "$root/etc/initramfs-tools/conf.d"
cat >"$root/etc/initramfs-tools/conf.d/gpufleet-lab" <<'CONF'
MODULES=list
COMPRESS=gzip
COMPRESSLEVEL=1
CONF
printf '%s\n' virtio_pci virtio_blk ext4 >>"$root/etc/initramfs-tools/modules"
cat >"$root/etc/initramfs-tools/hooks/gpufleet-lab" <<'HOOK'
#!/bin/sh
[ "$1" != prereqs ] || exit 0
. /usr/share/initramfs-tools/hook-functions
modprobe --set-version="$version" --ignore-install --show-depends nouveau |
    while read -r _insmod module _options; do copy_file module "$module"; done
HOOK
# QEMU has no such GPU: the kernel's command line names the device for which udev would load a module.
cat >"$root/etc/initramfs-tools/scripts/init-premount/gpufleet-lab" <<'SCRIPT'
#!/bin/sh
[ "$1" != prereqs ] || exit 0
for word in $(cat /proc/cmdline); do
    case $word in gpufleet.gpu=*) modprobe --use-blacklist --quiet "${word#*=}" || true ;; esac
done
SCRIPT
# All required Debian packages are installed; reading package lists would take minutes.
rm -f "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/*Packages*
chmod 755 "$root/etc/initramfs-tools/hooks/gpufleet-lab" \
    "$root/etc/initramfs-tools/scripts/init-premount/gpufleet-lab"
chroot "$root" update-initramfs -u -k all
