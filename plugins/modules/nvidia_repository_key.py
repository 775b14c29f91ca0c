#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_repository_key
short_description: Internal to the collection's roles, installs the verified key of a package repository
version_added: 0.1.0
description:
  - Installs the OpenPGP public key of an apt or rpm repository, once its checksum or its fingerprint is the expected
    one. A key that does not match is rejected, and the installed one is kept.
  - A key that is installed and matches is not downloaded again, unless O(refresh=true).
  - Downloads are tried three times, and are limited to 1 MiB.
  - The file belongs to the user that runs the module, with mode V(0644), and is replaced atomically. A link in its
    place is replaced too.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Downloads and verifies the key. If it cannot be downloaded, warns and reports a change, because the key may be
        available later.
  diff_mode:
    support: full
    details:
      - Shows fingerprints, checksum, mode and owner, and not the key.
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  src:
    description:
      - The key, armoured or binary. A URL that the node can reach, or the path of a file on the controller, which is searched
        for as C(ansible.builtin.copy) does.
    type: str
    required: true
  content:
    description:
      - The key in Base64. Set by the action plugin for a file on the controller.
    type: str
  dest:
    description:
      - The file to install. Its directory is created if it is missing.
    type: path
    required: true
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
  variables:
    description:
      - Prefix of the role variables that error messages name, such as V(nvidia_driver_repository) for
        C(nvidia_driver_repository_url), C(nvidia_driver_repository_key), C(nvidia_driver_repository_key_fingerprint) and
        C(nvidia_driver_repository_key_checksum).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Install the repository's key
  gpufleet.node.nvidia_repository_key:
    src: https://nvidia.github.io/libnvidia-container/gpgkey
    dest: /etc/apt/keyrings/nvidia-container-toolkit.asc
    fingerprints: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
    variables: nvidia_container_toolkit_repository
"""

RETURN = r"""
fingerprints:
  description:
    - Fingerprints of the keys in the file. Empty for keys that have no fingerprint of version 4, and in check mode if
      the key cannot be downloaded.
  returned: success
  type: list
  elements: str
  sample: [C95B321B61E88C1809C4F759DDCAE044F796ECB0]
diff:
  description: Fingerprints, checksum and attributes of the file, before and after.
  returned: success
  type: dict
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.keys.repository_key import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
