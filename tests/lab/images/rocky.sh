# shellcheck shell=bash
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes Debian with dnf and rpm look like Rocky Linux: the real package manager, but none of its packages.
#
#   rocky.sh VERSION NAME

set -e
version=$1 name=$2
major=${version%%.*}

# Use the system's rpm database; Debian's default is one in each user's home.
mkdir -p /etc/rpm /etc/yum.repos.d /etc/pki/rpm-gpg /var/lib/rpm
echo '%_dbpath /var/lib/rpm' >/etc/rpm/macros
rpm --initdb

# dnf reads the release from the package that provides system-release.
work=$(mktemp -d)
cat >"$work/release.spec" <<SPEC
Name: rocky-release
Version: $version
Release: 1.el$major
Summary: Release files of the look-alike
License: MIT
BuildArch: noarch
Provides: system-release(releasever) = $major
# Debian has it, and the lab's packages require it.
Provides: /bin/sh
%description
Release files of the look-alike.
%install
mkdir -p %{buildroot}/etc
cat >%{buildroot}/etc/os-release <<RELEASE
NAME="Rocky Linux"
VERSION="$version ($name)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="$version"
PLATFORM_ID="platform:el$major"
PRETTY_NAME="Rocky Linux $version ($name)"
RELEASE
echo "Rocky Linux release $version ($name)" >%{buildroot}/etc/redhat-release
%files
/etc/os-release
/etc/redhat-release
SPEC
rpmbuild --quiet -bb --define "_topdir $work" "$work/release.spec"
rm -f /etc/debian_version /etc/os-release /etc/lsb-release /usr/lib/os-release /etc/dpkg/origins/default
rpm -i --force-debian --nodeps "$work"/RPMS/noarch/rocky-release-*.rpm
rm -rf "$work"
ln -sf ../../etc/os-release /usr/lib/os-release
ln -s redhat-release /etc/rocky-release
ln -s redhat-release /etc/system-release

# Disable the unsigned local repository that Debian's dnf adds.
sed -i 's/^enabled *=.*/enabled = false/' /etc/dnf/plugins/local.conf
printf '[main]\ngpgcheck=1\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\n' >/etc/dnf/dnf.conf
[ -e /usr/bin/yum ] || ln -s dnf /usr/bin/yum

# Ansible would detect Debian by these files.
mkdir -p /opt/debian/bin /opt/debian/python
mv /usr/bin/apt* /usr/bin/dpkg* /opt/debian/bin/
mv /usr/lib/python3/dist-packages/apt* /opt/debian/python/
