# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tables of driver packages and their selection for a node."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal
from ansible_collections.gpufleet.node.plugins.plugin_utils._driver import tables


@pytest.mark.parametrize(
    ("family", "distribution", "version", "name"),
    [
        ("Debian", "Debian", "12.13", "debian_12"),
        ("Debian", "Ubuntu", "24.04", "ubuntu_24.04"),
        ("RedHat", "Rocky", "9.6", "el_9"),
        ("RedHat", "RedHat", "10.1", "el_10"),
    ],
)
def test_systems(family: str, distribution: str, version: str, name: str) -> None:
    facts = {
        "os_family": family,
        "distribution": distribution,
        "distribution_version": version,
        "distribution_major_version": version.split(".")[0],
    }
    assert tables.system_name(facts) == name
    with pytest.raises(Refusal, match="no driver packages are known for %s 8.1: the supported" % distribution):
        tables.system_name({**facts, "distribution_version": "8.1", "distribution_major_version": "8"})


@pytest.mark.parametrize("name", tables.system_names())
def test_tables_are_complete(name: str) -> None:
    table = tables.load_table(name)
    assert table["default_source"] in table["sources"]
    for source in table["sources"].values():
        assert source["default_branch"] in source["branches"]
        assert {"headless", "desktop"} <= set(source["packages"])
