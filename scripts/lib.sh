# shellcheck shell=bash disable=SC2034
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Paths and messages for all scripts. To be sourced.

set -euo pipefail

# The physical path, so that tools that resolve symbolic links get the same path.
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cache=$top/.cache
venv=$cache/venv
collections=$cache/collections

# Variables of the caller's shell that would change the search paths of Python or Ansible.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONSAFEPATH PYTHONPYCACHEPREFIX VIRTUAL_ENV
unset ANSIBLE_CONFIG ANSIBLE_LIBRARY ANSIBLE_MODULE_UTILS ANSIBLE_ROLES_PATH ANSIBLE_INVENTORY
unset ANSIBLE_COLLECTIONS_PATH ANSIBLE_COLLECTIONS_PATHS

say() { printf '==> %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Install requirements into a virtual environment of their own, unless they are installed there.
separate_environment() { # TARGET REQUIREMENTS INTERPRETER
  local hash
  hash=$({ printf '%s\n' "$1" && "$3" -VV && cat "$2"; } | sha256sum)
  [ "$(cat "$1/.stamp" 2>/dev/null)" = "$hash" ] && "$1/bin/python" -c 'import pip' 2>/dev/null && return 0
  rm -rf "$1"
  mkdir -p "$(dirname "$1")"
  "$3" -m venv "$1"
  "$1/bin/python" -m pip --disable-pip-version-check --quiet install -r "$2"
  printf '%s\n' "$hash" >"$1/.stamp"
}

# Run a command that does not see the machine's other processes, such as the pods of the lab's clusters. Without root it
# sees them.
isolated() { # COMMAND...
  if unshare --pid --fork --mount-proc true 2>/dev/null; then
    unshare --pid --fork --kill-child --mount-proc "$@"
  else
    "$@"
  fi
}

# Exit with status 77 if the lab cannot run on this machine.
require_lab() {
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "the lab needs root on Debian or Ubuntu, for podman"
    exit 77
  fi
  if ! unshare --mount true 2>/dev/null; then
    echo "the lab needs more privileges than this container has: podman cannot mount file systems"
    exit 77
  fi
}
