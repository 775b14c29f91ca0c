#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_repository_key
short_description: Internal to the collection's roles, install the verified key of a package repository
version_added: 0.9.0
description:
  - Installs the OpenPGP public key of an apt or rpm repository, once its checksum or its fingerprint is the expected
    one. A key that does not match is rejected, and the installed one is kept.
  - A key that is installed and matches is not downloaded again, unless O(refresh=true).
  - Downloads are tried three times, and are limited to 1 MiB.
  - The file belongs to the user that runs the module, with mode V(0644), and is replaced atomically. A link in its
    place is replaced too.
  - With O(rpm), rpm also trusts the key. It stays in rpm's database, and O(state=recorded) shows it.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Downloads and verifies the key. If the server cannot be reached, warns and reports a change, because the key may
        be available later. If the server answers that it does not have the key, fails as the installation would.
  diff_mode:
    support: full
    details:
      - Shows fingerprints, checksum, mode and owner, and not the key.
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  role:
    description:
      - The role that uses the module, without the collection's name. Key of its entry in the record, and prefix of the
        variables that messages name, such as C(ROLE_repository_url) and C(ROLE_repository_key_fingerprint).
    type: str
    required: true
  state:
    description:
      - V(present) installs the key.
      - V(recorded) changes nothing, and shows the keys of the role that rpm still trusts, according to its record.
    type: str
    choices: [present, recorded]
    default: present
  src:
    description:
      - The key, armoured or binary. A URL that the node can reach, or the path of a file on the controller, which is searched
        for as C(ansible.builtin.copy) does.
      - Required if O(state=present).
    type: str
  content:
    description:
      - The key in Base64. Set by the action plugin for a file on the controller.
    type: str
  dest:
    description:
      - The file to install. Its directory is created if it is missing.
      - Required if O(state=present).
    type: path
  fingerprints:
    description:
      - Fingerprints of the keys that are trusted, 40 hexadecimal digits each. Spaces and colons are ignored.
      - The file must contain at least one key, and each key in it must be one of these.
      - Not compared if O(checksum) is given.
    type: list
    elements: str
    default: []
  checksum_without_version:
    description:
      - The SHA-256 of the file without the C(Version) lines of its armour, as C(sha256:DIGITS). Compared if neither
        O(checksum) nor O(fingerprints) is given, for a key of which no fingerprint is published.
    type: str
    default: ""
  checksum:
    description:
      - Checksum of the file, as V(sha256:...), V(sha384:...) or V(sha512:...).
    type: str
    default: ""
  refresh:
    description:
      - Whether to download a key that is installed and matches by its fingerprint. Its owner may have extended its
        validity, or added a signing subkey.
      - Has no effect if O(checksum) is given.
    type: bool
    default: false
  timeout:
    description:
      - Seconds to wait for the server.
    type: int
    default: 10
  rpm:
    description:
      - Whether to import the key into rpm, with C(ansible.builtin.rpm_key), and to record it.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Install the repository's key
  gpufleet.node.node_repository_key:
    role: nvidia_container_toolkit
    src: https://nvidia.github.io/libnvidia-container/gpgkey
    dest: /etc/apt/keyrings/gpufleet-nvidia-container-toolkit.asc
    fingerprints: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]

- name: Show the keys that stay in rpm's database
  gpufleet.node.node_repository_key:
    role: nvidia_container_toolkit
    state: recorded
"""

RETURN = r"""
fingerprints:
  description:
    - Fingerprints of the keys in the file. Empty for keys that have no fingerprint of version 4, and in check mode if
      the key cannot be downloaded. If O(state=recorded), those that the role has imported into rpm.
  returned: success
  type: list
  elements: str
  sample: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
diff:
  description: Fingerprints, checksum and attributes of the file, before and after.
  returned: if O(state=present)
  type: dict
msg:
  description: What rpm still trusts, and how to remove it.
  returned: if O(state=recorded)
  type: list
  elements: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.keys.repository_key import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
