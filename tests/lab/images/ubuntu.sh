# shellcheck shell=bash
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Makes Debian look like Ubuntu, for facts and for the roles; the driver comes from a repository of the lab.
#
#   ubuntu.sh VERSION CODENAME NAME

set -e
version=$1 codename=$2 name=$3

rm -f /etc/os-release /usr/lib/os-release
cat >/usr/lib/os-release <<RELEASE
PRETTY_NAME="Ubuntu $version LTS"
NAME="Ubuntu"
VERSION_ID="$version"
VERSION="$version LTS ($name)"
VERSION_CODENAME=$codename
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=$codename
RELEASE
ln -s ../usr/lib/os-release /etc/os-release
cat >/etc/lsb-release <<RELEASE
DISTRIB_ID=Ubuntu
DISTRIB_RELEASE=$version
DISTRIB_CODENAME=$codename
DISTRIB_DESCRIPTION="Ubuntu $version LTS"
RELEASE
