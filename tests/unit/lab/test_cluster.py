# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's cluster: builds, credentials of nodes, and images for pods."""

from __future__ import annotations

import typing as t

from gpulab import cluster_files
from gpulab.nodes import Node

SERVER = Node("gpufleet-one", "192.0.2.11", "", True)
OTHER = Node("gpufleet-two", "192.0.2.12", "", True)


def written() -> t.Dict[str, cluster_files.File]:
    credentials = cluster_files.Credentials(SERVER)
    return {file.path: file for file in [*credentials.control_plane(), *credentials.kubelet(SERVER)]}


def test_only_root_can_read_keys() -> None:
    files = written()
    assert sum("PRIVATE KEY" in file.text for file in files.values()) == 7
    for file in files.values():
        secret = "PRIVATE KEY" in file.text or "client-key-data" in file.text
        assert file.mode == (0o600 if secret else 0o644), file.path


def test_nodes_have_different_addresses_for_pods() -> None:
    assert cluster_files.pod_subnet(SERVER) != cluster_files.pod_subnet(OTHER)
    assert cluster_files.pod_subnet(OTHER) in cluster_files.network(OTHER)
