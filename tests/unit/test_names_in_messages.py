# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables with their values, tags, playbooks and documents that messages name exist."""

from __future__ import annotations

import ast
import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.unit.names_support import CHOICES, DOCUMENTATION, NAMES, OURS, TAGS, TASKS
from ansible_collections.gpufleet.node.tests.unit.project_support import TOP


def unknown(text: str) -> list[str]:
    """What the text of a message names that does not exist."""
    names = [name for name in re.findall(OURS, text) if name not in NAMES]
    names = [name for name in names if not (name.endswith("_") and any(each.startswith(name) for each in CHOICES))]
    # The role is a parameter of the message.
    names += [
        "%s" + suffix
        for suffix in re.findall(r"%s(_[a-z_]+)", text)
        if not any(each.endswith(suffix.removesuffix("_")) or suffix + "key" in each for each in CHOICES)
    ]
    for name, value in re.findall(r"(%s)(?: to|:) ([a-z_]+)\b" % OURS, text):
        names += ["%s: %s" % (name, value)] if value not in (CHOICES.get(name) or [value]) else []
    names += [tag for tag in re.findall(r"--(?:skip-)?tags ([a-z0-9_]+)", text) if tag not in TAGS]
    playbooks = re.findall(r"(?<![\w./%-])([a-z_]+\.yml)(?![\w.])", text)
    names += [name for name in playbooks if not (TOP / "playbooks" / name).is_file()]
    return names + [name for name in re.findall(r"docs/\w+\.md", text) if not (TOP / name).is_file()]


@pytest.mark.parametrize(
    "text, found",
    [
        ("set nvidia_driver_sauce", ["nvidia_driver_sauce"]),
        ("set nvidia_driver_source to cuda", ["nvidia_driver_source: cuda"]),
        ("set nvidia_driver_server to maybe", ["nvidia_driver_server: maybe"]),
        ("check %s_sauce", ["%s_sauce"]),
        ("Run sites.yml --tags drivers", ["drivers", "sites.yml"]),
        ("see docs/safety.md", ["docs/safety.md"]),
        ("set nvidia_driver_source to cuda_repository, %s_version, run site.yml --tags mig, see docs/security.md", []),
    ],
)
def test_wrong_names_are_found(text: str, found: list[str]) -> None:
    assert unknown(text) == found


def messages(path: Path) -> t.Iterator[tuple[int, str]]:
    """The lines and texts of strings with several words, without documentation."""
    tree = ast.parse(path.read_text())
    documents = [each.value for each in ast.walk(tree) if isinstance(each, ast.Expr)]
    documents += [
        each.value
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) in DOCUMENTATION
    ]
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and " " in node.value
            and node not in documents
        ):
            yield node.lineno, node.value


def test_names_in_messages_of_plugins_exist() -> None:
    sources = sorted(TOP.glob("plugins/**/*.py"))
    found = [
        "%s:%d: %s" % (path.relative_to(TOP), line, name)
        for path in sources
        for line, text in messages(path)
        for name in unknown(text)
    ]
    assert found == []


def test_names_in_tasks_exist() -> None:
    found = [
        "%s:%d: %s" % (path.relative_to(TOP), number, name)
        for path in TASKS
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for name in unknown(line.partition("#")[0])
    ]
    assert found == []
