# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules of the project that linters do not cover: delegated tasks, documents, pins and forbidden texts."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.tests.unit.project_support import TOP, files, text_of

# --- Tasks on other hosts ---------------------------------------------------------------------------------------------

# These run after a check, or are included by the action rke2_plan, which makes it too.
CHECKED_BEFORE = {
    "roles/gpu_chart/tasks/compare.yml",
    "roles/gpu_chart/tasks/install.yml",
    "roles/gpu_cluster/tasks/undo.yml",
    "roles/rke2/tasks/delete_node.yml",
}
# connect.yml of gpu_cluster checks, and its drain.yml connects.
CHECKED_FIRST = re.compile(r"tasks/connect\.yml|tasks_from: (connect|drain)\b")


def test_a_node_does_not_choose_what_runs_on_other_hosts() -> None:
    """Modules on the node may have returned facts with the names of variables."""
    found = {
        str(path)
        for path in files()
        if path.match("roles/*/tasks/*.yml") and "delegate_to:" in text_of(path)
        if "gpufleet.node.gpu_node_reject_forged_facts:" not in text_of(path)
        and not CHECKED_FIRST.search(text_of(path))
    }
    assert found == CHECKED_BEFORE


# --- Documents --------------------------------------------------------------------------------------------------------


def public(kind: str) -> t.Set[str]:
    """The plugins that users call. Modules say in their documentation whether they are internal."""
    paths = TOP.glob("plugins/%s/*.py" % kind)
    return {path.stem for path in paths if "\nshort_description: Internal to " not in path.read_text()}


def test_the_documents_list_every_plugin_that_users_call() -> None:
    listed = set(re.findall(r"(?:module|filter|test) `(\w+)`", text_of(Path("docs/README.md"))))
    assert listed == public("modules") | public("filter") | public("test")
    (row,) = re.findall(r"\n\| use modules and filters in your own playbooks \|.*", text_of(Path("README.md")))
    assert set(re.findall(r"`(\w+)`", row)) == listed


def test_the_action_group_has_the_modules_that_users_call_with_options() -> None:
    """Internal modules get their options from the roles only."""
    groups = yaml.safe_load((TOP / "meta/runtime.yml").read_text())["action_groups"]
    with_options = {
        name
        for name in public("modules")
        if re.search(r"^options:\n", text_of(Path("plugins/modules/%s.py" % name)), re.M)
    }
    assert set(groups["gpu"]) == with_options


LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")


def headings(document: Path) -> t.Set[str]:
    """The names that links give to a document's headings."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", [path for path in files() if path.suffix == ".md"], ids=str)
def test_links_lead_to_files_and_headings(path: Path) -> None:
    missing = []
    for name, heading in LINK.findall(text_of(path)):
        target = (TOP / path.parent / name) if name else TOP / path
        document = target / "README.md" if target.is_dir() else target
        if not target.exists() or (heading and heading not in headings(document)):
            missing.append("%s#%s" % (name, heading))
    assert missing == []


def test_paths_in_contributing_exist() -> None:
    """Except those with a placeholder, such as NAME, and those in a role."""
    folders = {path.name for path in TOP.iterdir()} - {".cache", "meta"}
    named = re.findall(r"`([\w.-]+/[\w./*-]+)`", text_of(Path("CONTRIBUTING.md")))
    paths = [name for name in named if name.partition("/")[0] in folders and not re.search("[A-Z]{4}", name)]
    assert len(paths) > 40
    assert [name for name in paths if not any(TOP.glob(name))] == []


def test_the_version_is_that_of_galaxy_yml() -> None:
    """In the simulator's package, the README and the tags of AWX's image."""
    version = yaml.safe_load((TOP / "galaxy.yml").read_text())["version"]
    places = {"simulator/pyproject.toml": '(?m)^version = "(.*)"', "README.md": r"(?:Version|Status:) (\d[\d.]*\d)"}
    named = [
        (str(path), found)
        for path in files()
        for found in re.findall(places.get(str(path), r"/gpufleet-node:(\d[\d.]*)"), text_of(path))
    ]
    assert "simulator/pyproject.toml" in dict(named) and "awx/README.md" in dict(named)
    assert [(path, found) for path, found in named if found != version] == []


def test_the_addresses_of_the_project_are_those_of_galaxy_yml() -> None:
    repository = yaml.safe_load((TOP / "galaxy.yml").read_text())["repository"]
    found = {
        str(path): address
        for path in files()
        for address in re.findall(r"https://github\.com/gpufleet/[^/\s]*", text_of(path))
        if address.removesuffix(".git") != repository
    }
    assert found == {}


# --- Pins and forbidden texts -------------------------------------------------------------------------------


# The brackets keep this file from matching its own patterns.
FORBIDDEN = {
    "a package host: mirrors are the user's choice": re.compile(
        r"https?://[a-z.]*(debian|pypi|python[h]osted|npmjs|golang)[a-z]*\.(org|com|net)"
    ),
    "a path of one machine": re.compile(r"/(root|home/[a-z]+)/\.[p]yenv|%s/" % re.escape(str(TOP))),
    "work left for later": re.compile(r"\b([T]ODO|[F]IXME|[X]XX)\b"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_has_forbidden_text(what: str) -> None:
    found = [
        "%s:%d: %s" % (path, number, line.strip())
        for path in files()
        if path.name != "COPYING"
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]
    assert found == []


PIN = re.compile(r"^[A-Za-z0-9_.-]+==[0-9][0-9a-z.]*(; python_version < \"3\.[0-9]+\")?(\s+# \S.*)?$")


@pytest.mark.parametrize("path", sorted((TOP / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_every_requirement_is_pinned_exactly(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert lines
    assert [line for line in lines if not PIN.match(line)] == []
