# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the documents for users show exists: YAML, commands, variables, messages, boards and releases of charts."""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
import typing as t
from functools import cache
from pathlib import Path

import pytest
import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables
from ansible_collections.gpufleet.node.tests.unit.names_support import DOCUMENTATION, NAMES, OURS, TAGS
from ansible_collections.gpufleet.node.tests.unit.project_support import TOP, files, text_of

DOCUMENTS = [path for path in files() if path.match("docs/*.md") or path.match("roles/*/README.md")]
DOCUMENTS += [Path("README.md"), Path("awx/README.md")]
for_each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=str)

# Variables of other tools, which documents compare with ours.
OTHERS = {"nvidia_driver_ubuntu_use_open_kernel_modules", *variables.equivalents()["nvidia.nvidia_driver"]}
# Names in examples, which Ansible or the example itself defines.
EXAMPLES = {
    "mig_parted",
    "release_checksums",
    "ansible_connection",
    "ansible_become",
    "ansible_python_interpreter",
    "ansible_ssh_common_args",
}
FOLDERS = (
    "awx/",
    "benchmarks/",
    "demo/",
    "docs/",
    "extensions/",
    "inventory/",
    "playbooks/",
    "roles/",
    "scripts/",
    "simulator/",
    "tests/",
)
TARGETS = set(re.findall(r"(?m)^([a-z][a-z-]*):", (TOP / "Makefile").read_text()))


ROLES = sorted(path.parents[1].name for path in TOP.glob("roles/*/defaults/main.yml"))


class Block(t.NamedTuple):
    language: str
    text: str
    line: int


def blocks(path: Path) -> t.Iterator[Block]:
    for found in re.finditer(r"(?ms)^( *)```(\w+)\n(.*?)^\1```$", text_of(path)):
        line = text_of(path).count("\n", 0, found.start()) + 1
        yield Block(found[2], textwrap.dedent(found[3]), line)


def titled(path: Path) -> set[str]:
    """The names of files that a document shows: in the first line of a block."""
    first = (block.text.partition("\n")[0] for block in blocks(path))
    return {Path(name).name for line in first for name in re.findall(r"^# (?:\[?)([\w/.-]+\.yml)", line)}


# --- YAML -------------------------------------------------------------------------------------------------------------


def inventory(data: object) -> dict[str, t.Any]:
    """The variables, if a block is a file of variables."""
    if not isinstance(data, dict) or not any(re.fullmatch(OURS, str(name)) for name in data):
        return {}
    return data


def problems_of_yaml(text: str) -> list[str]:
    out = []
    for data in yaml.safe_load_all(text):
        values = inventory(data)
        out += [name for name in values if name not in variables.known_variables() | EXAMPLES]
        # Not templates, which Ansible evaluates, and values that are shown in part.
        plain = {name: value for name, value in values.items() if not re.search(r"{{|\.\.\.", str(value))}
        roles = [role for role in ROLES if any(name.startswith(role + "_") for name in plain)]
        out += variables.check_variables(plain, plain, {}, roles).problems
    # A block may be a part of a file.
    return [each for each in out if not each.startswith("missing required arguments: ")]


@pytest.mark.parametrize(
    "text, problem",
    [
        ("nvidia_mig_layuot: []", "nvidia_mig_layuot"),
        ("{nvidia_mig_reset: true, gpu_nodes_boards: []}", "gpu_nodes_boards"),
        ("nvidia_mig_busy: never", "nvidia_mig_busy"),
        ("nvidia_mig_layout: [{devices: all, mig_enabled: true, mig_devices: {3g: 1}}]", "3g"),
    ],
)
def test_wrong_yaml_is_found(text: str, problem: str) -> None:
    assert any(problem in each for each in problems_of_yaml(text))


@for_each_document
def test_yaml_in_documents_is_valid(path: Path) -> None:
    found = {block.line: problems_of_yaml(block.text) for block in blocks(path) if block.language == "yaml"}
    assert {line: problems for line, problems in found.items() if problems} == {}


@for_each_document
def test_variables_in_documents_exist(path: Path) -> None:
    names = re.findall(OURS + r"(?![a-z0-9_]|\.md)", text_of(path))
    names = {name for name in names if not name.endswith("_")}
    assert names - NAMES - OTHERS == set()


# --- Commands ---------------------------------------------------------------------------------------------------------


def commands(path: Path) -> t.Iterator[str]:
    """The commands in blocks, and those in the text that begin with a program of ours."""
    for block in blocks(path):
        if block.language == "console":
            lines = block.text.replace("\\\n", " ").splitlines()
            yield from (line[2:] for line in lines if line.startswith(("$ ", "# ")))
    prose = re.sub(r"(?ms)^( *)```.*?^\1```$", "", text_of(path))
    yield from re.findall(r"`((?:ansible-playbook|make|ansible) [^`]+)`", prose)


def problems_of_command(command: str, shown: t.Collection[str] = ()) -> list[str]:
    """What a command names that does not exist. ``shown`` are the files that its document shows."""
    words = shlex.split(command.partition(" # ")[0].partition(" > ")[0])
    out = [word for word in words if word.startswith(FOLDERS) and not (TOP / word).exists()]
    if "make" in words[:1] and "-C" not in words:
        out += [word for word in words[1:] if re.fullmatch("[a-z-]+", word) and word not in TARGETS]
    program = next((word for word in words if word in ("ansible-playbook", "ansible")), None)
    if program is None:
        return out
    for option, value in zip(words, words[1:], strict=False):
        if option in ("--tags", "--skip-tags"):
            out += [tag for tag in value.split(",") if tag not in TAGS]
        elif option == "-e" and value.startswith("@"):
            out += [value] if value[1:] not in shown else []
        elif option == "-e":
            names = yaml.safe_load(value) if value.startswith("{") else [value.partition("=")[0]]
            out += [name for name in names if name not in variables.known_variables() | EXAMPLES]
        elif option == "-m":
            name = value.removeprefix("gpufleet.node.")
            out += [value] if name != value and not (TOP / "plugins/modules" / (name + ".py")).exists() else []
        elif option in ("-i", "--inventory", "--limit", "-a"):
            continue
    for word in words if program == "ansible-playbook" else []:
        name = word.removeprefix("gpufleet.node.")
        if name != word and name != "NAME" and not (TOP / "playbooks" / (name + ".yml")).exists():
            out.append(word)
        elif word.endswith(".yml") and not word.startswith(("@", *FOLDERS)) and word not in {*shown, "site.yml"}:
            out.append(word)
    return out


@pytest.mark.parametrize(
    "command, problem",
    [
        ("ansible-playbook gpufleet.node.sites -i inventory", "gpufleet.node.sites"),
        ("ansible-playbook gpufleet.node.site --tags drivers", "drivers"),
        ("ansible-playbook gpufleet.node.mig -e gpu_node_batch=1", "gpu_node_batch"),
        ("ansible-playbook gpufleet.node.mig -e @other.yml", "@other.yml"),
        ("ansible-playbook other.yml", "other.yml"),
        ("ansible gpu_nodes -m gpufleet.node.nvidia_migs", "gpufleet.node.nvidia_migs"),
        ("make tests", "tests"),
        ("simulator/nvsims run", "simulator/nvsims"),
        ("ansible-playbook gpufleet.node.site -i inventory -e @gpu.yml --tags mig", None),
    ],
)
def test_wrong_commands_are_found(command: str, problem: str | None) -> None:
    assert problems_of_command(command, ["gpu.yml"]) == ([problem] if problem else [])


@for_each_document
def test_commands_in_documents_exist(path: Path) -> None:
    shown = titled(path)
    found = {command: problems_of_command(command, shown) for command in commands(path)}
    assert {command: problems for command, problems in found.items() if problems} == {}


# --- Messages ---------------------------------------------------------------------------------------------------------


@cache
def texts() -> str:
    """All strings in plugins, and all texts of tasks, one in each line."""
    out = []
    for source in TOP.glob("plugins/**/*.py"):
        tree = ast.parse(source.read_text())
        documents = [
            each.value
            for each in tree.body
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) in DOCUMENTATION
        ]
        out += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documents
        ]
    for tasks in [*TOP.glob("roles/*/tasks/*.yml"), *TOP.glob("playbooks/**/*.yml")]:
        out += strings(yaml.safe_load(tasks.read_text()))
    return "\n".join(" ".join(text.split()) for text in out)


def strings(data: object) -> list[str]:
    if isinstance(data, dict):
        return [text for value in data.values() for text in strings(value)]
    if isinstance(data, list):
        return [text for value in data for text in strings(value)]
    return [data] if isinstance(data, str) else []


def exists(message: str) -> bool:
    """Whether a string of the code has the parts of the message between its dots, in this order."""
    parts = [re.escape(part.strip(" ")) for part in message.split("...") if len(part.strip()) > 1]
    return re.search(".*".join(parts), texts()) is not None


def shown_messages(path: Path) -> list[str]:
    """The first cells of the tables whose first column is titled message."""
    tables = re.findall(r"(?m)^\| message \|.*\n\| --- .*\n((?:\|.*\n)+)", text_of(path))
    return [message for rows in tables for message in re.findall(r"(?m)^\| `([^`]+)` \|", rows)]


def test_wrong_messages_are_found() -> None:
    assert exists("it cannot be reached: ...")
    assert not exists("it could not be reached: ...")
    assert not exists("... is not reached, so nothing was done")


def test_messages_in_documents_exist() -> None:
    found = {message: exists(message) for path in DOCUMENTS for message in shown_messages(path)}
    assert len(found) > 80
    assert [message for message, known in found.items() if not known] == []


# --- The support matrix -----------------------------------------------------------------------------------------------


PLACEMENTS = {
    "transcript": "from output of real GPUs",
    "mock": "from NVIDIA's mocks of NVML",
    "derived": "derived from similar boards",
    "unknown": "not published: only profiles are checked",
}


def section(title: str) -> str:
    found = re.search(r"(?ms)^## %s$(.*?)(?=^## |\Z)" % title, text_of(Path("docs/support_matrix.md")))
    assert found
    return found[1]


def test_the_support_matrix_has_the_source_of_the_placements_of_every_board() -> None:
    documented = dict(re.findall(r"(?m)^\| ([^|`]+) \| (`[^|]+`) \|$", section("GPUs")))
    found: dict[str, set[str]] = {}
    for path in TOP.glob("plugins/plugin_utils/_layout/models/*.yml"):
        (source,) = {row["evidence"]["placements"] for row in yaml.safe_load(path.read_text())["profiles"]}
        found.setdefault(PLACEMENTS[source], set()).add(path.stem)
    assert {title: set(re.findall(r"`(.*?)`", names)) for title, names in documented.items()} == found
    assert "%d boards" % sum(map(len, found.values())) in text_of(Path("README.md"))


def releases(chart: str) -> list[str]:
    paths = TOP.glob("plugins/plugin_utils/_charts/values/%s-*.yml" % chart)
    found = [path.stem.removeprefix(chart + "-") for path in paths]
    return sorted(found, key=lambda release: [int(number) for number in release.split(".")])


def test_the_support_matrix_has_the_releases_of_the_charts() -> None:
    rows = dict(re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|", section("Kubernetes")))
    assert rows["GPU operator"] == ", ".join(releases("gpu-operator"))
    assert rows["device plugin"] == "{0} to {3}".format(*releases("nvidia-device-plugin"))


def test_the_support_matrix_has_the_systems_of_the_driver() -> None:
    names = [path.stem for path in TOP.glob("plugins/plugin_utils/_driver/distributions/*_*.yml")]
    rows = section("Nodes")
    for name in names:
        system, version = name.split("_")
        title = {"el": "Enterprise Linux"}.get(system, system.title())
        assert re.search(r"(?m)^\| %s [^|]*\b%s\b" % (title, re.escape(version)), rows), name


# --- The recording of the demo ----------------------------------------------------------------------------------------


def test_the_recording_has_the_chapters_of_the_demo() -> None:
    """If not, run scripts/record-demo."""
    sources = (text_of(Path("demo", name)) for name in ("demo_engine.py", "layout_changes.py"))
    chapters = [title for source in sources for title in re.findall(r'screen\.chapter\("([^"]+)"\)', source)]
    assert chapters
    assert re.findall(r"(?m)^-- \d+\. (.+?) -+$", text_of(Path("docs/demo.md"))) == chapters
