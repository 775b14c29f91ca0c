#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rke2_artifacts
short_description: Internal to the collection's roles, verify files of an RKE2 release
version_added: 0.9.0
description:
  - Internal to the collection's roles.
  - Verifies files against the release's list of checksums. Changes nothing.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.no_diff
author:
  - The gpufleet.node authors (@gpufleet)
options:
  checksums:
    description:
      - The list of checksums, in the format of C(sha256sum).
    type: path
    required: true
  files:
    description:
      - The files to verify.
    type: list
    elements: path
    required: true
"""

EXAMPLES = r"""
- name: Verify the archive
  gpufleet.node.rke2_artifacts:
    checksums: /var/lib/gpufleet/rke2/v1.35.7+rke2r1/sha256sum-amd64.txt
    files: [/var/lib/gpufleet/rke2/v1.35.7+rke2r1/rke2.linux-amd64.tar.gz]
  register: compared
"""

RETURN = r"""
files:
  description: The files, with C(path), the expected C(sha256), and whether they are C(current).
  returned: success
  type: list
  elements: dict
problems:
  description: Files that are missing, not listed, or do not match.
  returned: success
  type: list
  elements: str
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2.artifacts import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
