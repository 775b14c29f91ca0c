# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys that rpm trusts. The integration target has the keys that are files on the controller."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.action import node_repository_key
from ansible_collections.gpufleet.node.tests.unit.plugins.action.action_support import Data, action, host

ONE, OTHER = "A" * 40, "B" * 40
KEY = {"role": "rke2", "src": "https://example.invalid/key", "dest": "/etc/key"}


class Node:
    """The results of the two modules, and what they are called with."""

    def __init__(self, key: Data, imported: t.Optional[Data] = None) -> None:
        self.results = {"": key, "ansible.builtin.rpm_key": imported or {"changed": False}}
        self.imports: t.List[Data] = []

    def __call__(self, module_name: str = "", module_args: t.Optional[Data] = None, **_others: object) -> Data:
        if module_name:
            self.imports.append(module_args or {})
        return dict(self.results[module_name])

    def run(self, check: bool = False, **arguments: t.Any) -> Data:
        found = action(node_repository_key, "node_repository_key", {**KEY, **arguments})
        found._execute_module, found._task.check_mode = self, check
        result: Data = found.run(task_vars=host("a"))
        return result


@pytest.mark.parametrize("changes", [(False, False), (True, False), (False, True)])
def test_rpm_imports_the_key_that_was_verified(changes: t.Tuple[bool, bool]) -> None:
    node = Node({"changed": changes[0], "fingerprints": [ONE, OTHER]}, {"changed": changes[1]})
    assert node.run(rpm="yes")["changed"] is any(changes)
    assert node.imports == [{"key": "/etc/key", "fingerprint": ONE + "," + OTHER}]


def test_a_key_that_only_a_checksum_verifies_is_imported_too() -> None:
    node = Node({"changed": True, "fingerprints": []})
    node.run(rpm=True)
    assert node.imports == [{"key": "/etc/key"}]


def test_nothing_is_imported_without_a_verified_key() -> None:
    for node, options in (
        (Node({"changed": True, "fingerprints": [ONE]}), {}),
        (Node({"changed": False, "failed": True, "msg": "is refused"}), {"rpm": True}),
        (Node({"changed": True, "fingerprints": [ONE]}), {"rpm": True, "check": True}),  # the file may not exist yet
    ):
        node.run(**options)
        assert node.imports == []
    node = Node({"changed": False, "fingerprints": [ONE]}, {"changed": True})
    assert node.run(check=True, rpm=True)["changed"]


def test_a_failed_import_is_the_result() -> None:
    result = Node({"changed": True, "fingerprints": [ONE]}, {"failed": True, "msg": "no gpg"}).run(rpm=True)
    assert (result["failed"], result["changed"], result["msg"]) == (True, True, "no gpg")


def test_keys_that_stay_in_rpm_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: t.List[str] = []
    monkeypatch.setattr(node_repository_key, "show", shown.append)
    Node({"changed": False, "fingerprints": [ONE]}).run(state="recorded")
    assert shown == [
        "a still trusts packages that are signed with the key %s, because other repositories may need it. If not, remove "
        "it with: rpm --erase gpg-pubkey-aaaaaaaa" % ONE
    ]
