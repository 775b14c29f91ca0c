# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a mig-parted file on the node."""

from __future__ import annotations

import pytest
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._module import config

pytest.importorskip("yaml")


@pytest.mark.parametrize(
    "text",
    [
        '{"version": "v1", "mig-configs": {"a": [], "a": []}}',
        "version: v1\nmig-configs:\n  a: []\n  a: []\n",
    ],
    ids=["json", "yaml"],
)
def test_a_key_that_stands_twice_is_refused(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(LayoutError, match="'a' twice"):
        config.read(str(path))


def test_a_merged_key_may_be_overridden(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("base: &base {x: 1, y: 1}\nmine:\n  <<: *base\n  x: 2\n")
    assert config.read(str(path))["mine"] == {"x": 2, "y": 1}


@pytest.mark.parametrize("text", ["[" * 100000, "{a: " * 100000], ids=["json", "yaml"])
def test_nesting_without_end_is_refused_in_words(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(LayoutError, match="neither JSON nor YAML"):
        config.read(str(path))
