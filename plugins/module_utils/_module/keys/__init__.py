# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys of package repositories.

    repository_key.py  module node_repository_key: verifies, installs and records keys
    openpgp.py         fingerprints of keys, without gpg

Imports common.

Tested under another name (folders are those of tests/unit/plugins):
    repository_key: modules/test_node_repository_key.py
"""
