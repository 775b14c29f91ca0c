# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Images of the lab that are built at the same time."""

from __future__ import annotations

import time
import typing as t
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from gpulab import images, places


def test_no_image_is_pruned_while_another_one_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unnamed: t.Set[str] = set()
    pruned = []

    def podman(_verb: str, name: str) -> str:
        unnamed.add(name)
        time.sleep(0.05)
        unnamed.remove(name)
        return ""

    def prune(*_command: str) -> bool:
        pruned.append(set(unnamed))
        return True

    monkeypatch.setattr(places, "LAB", tmp_path)
    monkeypatch.setattr(images, "podman", podman)
    monkeypatch.setattr(images, "succeeds", prune)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: images.store("import", name), ["a", "b", "c"]))
    assert pruned == [set(), set(), set()]
