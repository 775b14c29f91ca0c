# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Imports go one way between the layers of plugins/, no file imports from a test file, and maps are complete."""

from __future__ import annotations

import ast
import re
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.unit.project_support import TOP, files, text_of

PLUGINS = TOP / "plugins"
COLLECTION = "ansible_collections.gpufleet.node."


class Import(t.NamedTuple):
    """One name that a file imports; relative to the collection's root if it belongs to the collection."""

    line: int
    name: str  # "plugins.module_utils._mig.model.Gpu", "json", "ansible.module_utils.basic"
    relative: bool
    for_types: bool  # under "if t.TYPE_CHECKING"
    at_top: bool  # executed when the file is imported


class Layer(t.NamedTuple):
    """A part of plugins/ and the imports it may have; a prefix includes everything below it."""

    path: str
    collection: t.Sequence[str]  # of the collection, below plugins
    others: t.Sequence[str] = ()  # neither the collection's nor the standard library's
    standard: t.Optional[t.Sequence[str]] = None  # of the standard library; None: all of it


# Modules without I/O. Threads and the clock do none themselves.
PURE = ("__future__", "collections", "difflib", "fnmatch", "functools", "itertools", "json", "re")
PURE = (*PURE, "threading", "time", "typing")

COMMON = "module_utils._common"
MIG = "module_utils._mig"
BACKEND = "module_utils._backend"
BOOT = "module_utils._boot"
# The folders of _module and of plugin_utils, and those that each may import.
OF_MODULES = {
    "common": (),
    "mig": (),
    "driver": (),
    "keys": (),
    "packages": (),
    "toolkit": (),
    "report": ("driver", "mig"),
    "rke2": ("toolkit",),
    "cluster": (),
}
SUBJECTS = {
    "_common": (),
    "_layout": (),
    "_inventory": ("_layout",),
    "_driver": ("_layout",),
    "_rke2": ("_inventory",),
    "_cluster": ("_layout",),
    "_drain": ("_cluster", "_layout"),
    "_charts": ("_drain", "_cluster", "_layout"),
    "_report": ("_drain", "_inventory", "_cluster", "_layout"),
    "_managed": ("_charts", "_drain", "_cluster", "_layout"),
    "_rehearsal": ("_report", "_cluster", "_inventory", "_layout"),
}
# On the controller, actions send the requests of these modules themselves.
OF_CLUSTER = {"_cluster": ["module_utils._module.cluster"]}
OTHERS = {
    "_common": ["ansible.plugins.action"],  # the base class of actions
    "_report": ["jinja2", "markupsafe"],  # the template of the page
    "_rehearsal": ["ansible.inventory", "ansible.vars", "nvsim"],  # reads a former inventory, uses the simulator
}
MODULE = "module_utils._module."
EXTERNAL = {"cluster": ["ansible_collections.kubernetes.core", "kubernetes", "urllib3"], "common": ["yaml"]}
LAYERS = (
    Layer("module_utils/_common", [COMMON], standard=PURE),
    # The backend protocol and its error belong to the engine.
    Layer("module_utils/_mig", [MIG, COMMON], standard=PURE),
    Layer("module_utils/_backend", [BACKEND, COMMON, MIG + ".model", MIG + ".backend", MIG + ".codes"]),
    # Runs on nodes without Ansible; those above run with it.
    Layer("module_utils/_boot", [BOOT, BACKEND, MIG, COMMON]),
    *(
        Layer(
            "module_utils/_module/" + name,
            [
                BACKEND,
                MIG,
                COMMON,
                *([BOOT] if name == "mig" else []),
                *(MODULE + each for each in (name, "common", *below)),
            ],
            ["ansible.module_utils", *EXTERNAL.get(name, ())],
        )
        for name, below in OF_MODULES.items()
    ),
    Layer("modules", ["module_utils._module"], ["ansible.module_utils"]),
    Layer(
        "action",
        ["plugin_utils", MIG, COMMON],
        ["ansible.constants", "ansible.errors", "ansible.plugins.action", "ansible.utils"],
    ),
    Layer("filter", ["plugin_utils", MIG, COMMON], ["ansible.errors"]),
    Layer("test", ["plugin_utils", MIG, COMMON], ["ansible.errors"]),
    *(
        Layer(
            "plugin_utils/" + name,
            [MIG, COMMON, *("plugin_utils." + each for each in (name, "_common", *below)), *OF_CLUSTER.get(name, [])],
            ["ansible.errors", "ansible.module_utils", "ansible.utils.display", "yaml", *OTHERS.get(name, [])],
        )
        for name, below in SUBJECTS.items()
    ),
    Layer("doc_fragments", []),
)
SOURCES = sorted(path.relative_to(PLUGINS) for path in PLUGINS.rglob("*.py"))


def imports(path: Path) -> t.Iterator[Import]:
    """Every import of a file below plugins/, at any nesting level."""

    def walk(node: ast.AST, for_types: bool, at_top: bool) -> t.Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name.removeprefix(COLLECTION), False, for_types, at_top)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ("plugins", *path.parent.parts)
                base = ".".join((*package[: len(package) + 1 - node.level], *filter(None, [base])))
            for alias in node.names:
                name = "%s.%s" % (base.removeprefix(COLLECTION), alias.name)
                yield Import(node.lineno, name, bool(node.level), for_types, at_top)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            for child in node.body:
                yield from walk(child, True, at_top)
            for child in node.orelse:
                yield from walk(child, for_types, at_top)
        else:
            inside = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            for child in ast.iter_child_nodes(node):
                yield from walk(child, for_types, at_top and not inside)

    return walk(ast.parse((PLUGINS / path).read_text()), False, True)


def within(name: str, prefixes: t.Sequence[str]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def violation(layer: Layer, found: Import) -> t.Optional[str]:
    """Why the layer may not import this, if it may not."""
    if found.name.startswith("plugins."):
        name = found.name.removeprefix("plugins.")
        if within(name, layer.collection):
            return None
        return "the layer may import %s" % ", ".join(layer.collection or ["nothing of the collection"])
    if found.name.startswith("tests."):
        return "nothing imports from tests"
    if found.name.split(".")[0] in sys.stdlib_module_names:
        if layer.standard is None or within(found.name, layer.standard):
            return None
        return "the layer does no I/O: of the standard library it may import %s" % ", ".join(layer.standard)
    if not within(found.name, layer.others):
        return "neither the collection's nor the standard library's"
    if layer.path.startswith("module") and found.at_top and not within(found.name, ["ansible.module_utils"]):
        return "may be missing on a node: import it where it is used, and report what is missing"
    return None


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_every_plugin_file_imports_only_what_its_layer_allows(path: Path) -> None:
    layer = next((layer for layer in LAYERS if path.is_relative_to(layer.path)), None)
    assert layer, "plugins/%s belongs to no layer of the design" % path
    wrong = [
        "%d: %s: %s" % (found.line, found.name, why) for found in imports(path) if (why := violation(layer, found))
    ]
    assert not wrong


def test_no_two_files_import_each_other() -> None:
    """Imports for type checking count, because readers of each file have to know the other."""
    modules = {"plugins." + ".".join(path.with_suffix("").parts): path for path in SOURCES}

    def target(found: Import) -> t.Optional[str]:
        return next((name for name in (found.name, found.name.rpartition(".")[0]) if name in modules), None)

    reached = {name: {target(found) for found in imports(path)} - {None, name} for name, path in modules.items()}
    assert [
        (one, other) for one in reached for other in reached[one] if one < str(other) and one in reached[str(other)]
    ] == []


NODE_SIDE = [Path("module_utils", name) for name in ("_common", "_mig", "_backend", "_boot")]


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name == "__init__.py"], ids=str)
def test_the_map_of_each_folder_lists_its_files(path: Path) -> None:
    listed = re.findall(r"^    (\w+\.py) ", (PLUGINS / path).read_text(), re.MULTILINE)
    assert sorted([*listed, path.name]) == [each.name for each in SOURCES if each.parent == path.parent]


@pytest.mark.parametrize("path", [path for path in SOURCES if path.parent in NODE_SIDE], ids=str)
def test_the_engine_also_runs_outside_ansible(path: Path) -> None:
    """It is copied to nodes as a plain package, where there is no ansible_collections."""
    collection = [found for found in imports(path) if found.name.startswith("plugins.")]
    assert all(found.relative for found in collection)


@pytest.mark.parametrize(
    ("layer", "name", "allowed"),
    [
        ("module_utils/_common", "plugins.module_utils._mig.model.Gpu", False),
        ("module_utils/_mig", "plugins.module_utils._mig.model.Gpu", True),
        ("module_utils/_mig", "plugins.module_utils._backend.command.run", False),
        ("module_utils/_mig", "plugins.module_utils._backend.nvml", False),
        ("module_utils/_mig", "plugins.module_utils._migrate.x", False),
        ("module_utils/_mig", "os", False),
        ("module_utils/_mig", "ansible.module_utils.basic", False),
        ("module_utils/_backend", "os.path", True),
        ("module_utils/_backend", "plugins.module_utils._mig.plan.plan", False),
        ("modules", "plugins.module_utils._mig.plan.plan", False),
        ("filter", "plugins.module_utils._backend.nvml", False),
        ("filter", "yaml", False),
        ("filter", "tests.unit.x", False),
    ],
)
def test_imports_across_layers_are_found(layer: str, name: str, allowed: bool) -> None:
    found = violation(next(each for each in LAYERS if each.path == layer), Import(1, name, False, False, True))
    assert (found is None) == allowed


# --- Imports of tests -------------------------------------------------------------------------------------------------


def imported(node: ast.AST) -> t.Sequence[str]:
    """The names that a statement imports: "json", ".test_plan.plan", "conftest.Cluster"."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return ["%s%s.%s" % ("." * node.level, node.module or "", alias.name) for alias in node.names]
    return []


def test_no_file_imports_from_a_test_file() -> None:
    """What several test files use is in a module of its own, or in conftest.py."""
    found = [
        "%s:%d: %s" % (path, node.lineno, name)
        for path in files()
        if path.parts[0] == "tests" and path.suffix == ".py"
        for node in ast.walk(ast.parse(text_of(path)))
        for name in imported(node)
        if any(part.startswith("test_") for part in name.split("."))
    ]
    assert found == []


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name == "__init__.py"], ids=str)
def test_the_map_of_each_folder_names_the_tests_that_are_not_in_the_mirror(path: Path) -> None:
    """``    NAME, NAME: TEST``, where TEST is a file of the mirrored folder, or has a path."""
    unit = TOP / "tests" / "unit" / "plugins"
    named, missing = [], []
    for names, test in re.findall(r"^    ([\w, ]+): (\S+\.py)$", (PLUGINS / path).read_text(), re.MULTILINE):
        named.extend(names.split(", "))
        folder = TOP if test.startswith("tests/") else unit if "/" in test else unit / path.parent
        if not (folder / test).is_file():
            missing.append(test)
    assert missing == []
    files_here = [each for each in SOURCES if each.parent == path.parent and each != path]
    assert sorted(named) == [
        each.stem for each in files_here if not (unit / each.with_name("test_%s" % each.name)).is_file()
    ]
