# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Playbooks, layouts and hosts of the tests of site.yml and verify.yml."""

from __future__ import annotations

import os

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS

SITE = PLAYBOOKS / "site.yml"
VERIFY = PLAYBOOKS / "verify.yml"
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 3}}]
OFF = [{"devices": "all", "mig_enabled": False}]
INSTANCES = ["1g.10gb at 0", "1g.10gb at 1", "1g.10gb at 2", "3g.40gb at 4"]
NOT_ROOT = int(os.geteuid() != 0)  # one more problem of the container toolkit
# Or the client's library is missing, which is no requirement of these tests.
UNREADABLE = "the (cluster cannot be read: .*Check gpu_cluster_host|controller's Python lacks)"
GONE = {
    "ansible_connection": "ssh",
    "ansible_host": "127.0.0.1",
    "ansible_port": 1,
    "ansible_ssh_common_args": "-F none",
}
TOO_MUCH = [{"devices": "all", "mig_enabled": True, "mig_devices": {"4g.40gb": 1, "1g.10gb": 4}}]
