# shellcheck shell=bash
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# apt in a private root, for scripts that need files of Debian's packages. To be sourced, after `say` and `die`.
#
# It needs no root privileges, and neither uses nor changes the machine's sources, lists and cache. The archive's signature
# is verified with Debian's keys (package debian-archive-keyring, also on Ubuntu).
#
# GPUFLEET_DEBIAN_MIRROR    mirror to use; otherwise the machine's own Debian mirror, or the default of an installed
#                           debootstrap or mmdebstrap
# GPUFLEET_DEBIAN_KEYRING   keyring file, if it is not at its default path

keyring=${GPUFLEET_DEBIAN_KEYRING:-/usr/share/keyrings/debian-archive-keyring.gpg}
mirror=

debian_mirror() {
    local found
    found=${GPUFLEET_DEBIAN_MIRROR:-}
    if [ -z "$found" ]; then
        # shellcheck disable=SC2016  # $(...) is apt's own format syntax
        found=$(apt-get indextargets --format '$(REPO_URI)' 'ORIGIN: Debian' 'LABEL: Debian' 2>/dev/null |
            awk 'NR == 1')
    fi
    if [ -z "$found" ] && [ -r /usr/share/debootstrap/scripts/sid ]; then
        found=$(awk '$1 == "default_mirror" { print $2; exit }' /usr/share/debootstrap/scripts/sid)
    fi
    if [ -z "$found" ] && command -v mmdebstrap >/dev/null; then
        found=$(grep -om1 'https\?://[a-z.]*debian\.[a-z]*/debian' "$(command -v mmdebstrap)" || true)
    fi
    printf '%s' "$found"
}

# Create apt's private root for one suite, set APT_CONFIG to it, and read the suite's list of packages.
private_apt() { # SUITE SECTION ROOT
    local suite=$1 section=$2 root=$3 tool
    for tool in apt-get apt-cache apt-config dpkg-deb; do
        command -v "$tool" >/dev/null || die "needs $tool: this works on Debian and Ubuntu only"
    done
    [ -r "$keyring" ] || die "needs Debian's archive keys in $keyring: install the package debian-archive-keyring"
    mirror=${mirror:-$(debian_mirror)}
    [ -n "$mirror" ] || die "this machine has no Debian mirror configured: set GPUFLEET_DEBIAN_MIRROR to the URL of one"
    mkdir -p "$root/lists/partial" "$root/cache/archives/partial" "$root/empty"
    : >"$root/status"
    printf 'deb [signed-by=%s] %s %s %s\n' "$keyring" "$mirror" "$suite" "$section" >"$root/sources.list"
    {
        # Keep the machine's proxy settings, but not its hooks, which would change the machine's cache.
        apt-config dump Acquire
        cat <<CONFIG
Dir::Etc::main "/dev/null";
Dir::Etc::parts "$root/empty";
Dir::Etc::sourcelist "$root/sources.list";
Dir::Etc::sourceparts "$root/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$root/empty";
Dir::State "$root";
Dir::State::lists "$root/lists/";
Dir::State::status "$root/status";
Dir::Cache "$root/cache/";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
CONFIG
    } >"$root/apt.conf"
    export APT_CONFIG=$root/apt.conf
    say "reading the package list of Debian $suite from $mirror"
    apt-get -qq update >&2 ||
        die "cannot read Debian $suite from $mirror. Check the network, or set GPUFLEET_DEBIAN_MIRROR to a mirror"
}
