# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulator's structures have the same layout as pynvml's, according to compiler and ctypes."""

from __future__ import annotations

import ctypes
import re
import subprocess
import typing as t

import pynvml
import pytest

from .support import SIMULATOR

SOURCES = SIMULATOR / "src"
HEADERS = ("nvml.h", "query.h")
DEFINITION = re.compile(r"^\} (nvml\w+_t);$", re.MULTILINE)
VERSIONED = re.compile(r"^nvml(\w+)_v(\d+)_t$")

Layout = t.Dict[str, int]  # "sizeof", a field's name for its offset, "tag" for the version tag


def our_types() -> list[str]:
    return sorted({name for header in HEADERS for name in DEFINITION.findall((SOURCES / header).read_text())})


def pynvml_type(name: str) -> type | None:
    for candidate in (name, "c_" + name, "c_" + name[: -len("_t")]):
        found = getattr(pynvml, candidate, None)
        if isinstance(found, type) and issubclass(found, (ctypes.Structure, ctypes.Union)):
            return found
    return None


SHARED = [name for name in our_types() if pynvml_type(name)]


def version_of(name: str) -> int | None:
    found = VERSIONED.match(name)
    return int(found.group(2)) if found and hasattr(pynvml, name[: -len("_t")]) else None


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Layout]:
    """Return the C compiler's layout of all shared structures, by pynvml's field names."""
    lines = []
    for name in SHARED:
        found = pynvml_type(name)
        assert found is not None
        lines.append('printf("%s sizeof %%zu\\n", sizeof(%s));' % (name, name))
        lines += ['printf("%s %s %%zu\\n", offsetof(%s, %s));' % (name, field, name, field) for field in fields(found)]
        version = version_of(name)
        if version is not None:
            lines.append('printf("%s tag %%u\\n", NVML_VERSION_TAG(%s, %d));' % (name, name, version))
    place = tmp_path_factory.mktemp("structures")
    program = place / "layout.c"
    program.write_text('#include <stdio.h>\n#include "query.h"\nint main(void)\n{\n%s\n}\n' % "\n".join(lines))
    subprocess.run(["cc", "-std=gnu11", "-I", str(SOURCES), str(program), "-o", str(place / "layout")], check=True)
    answer = subprocess.run([str(place / "layout")], check=True, capture_output=True, text=True).stdout
    layouts: dict[str, Layout] = {}
    for line in answer.splitlines():
        name, what, number = line.split()
        layouts.setdefault(name, {})[what] = int(number)
    return layouts


def fields(structure: type) -> list[str]:
    return [field[0] for field in structure._fields_]  # type: ignore[attr-defined]


def test_enough_structures_are_compared() -> None:
    assert len(SHARED) >= 25, (
        "pynvml and the headers share too few names, so one of them may have been renamed: %s" % SHARED
    )


@pytest.mark.parametrize("name", SHARED)
def test_structure_has_the_same_layout_as_in_pynvml(name: str, compiled: dict[str, Layout]) -> None:
    structure = pynvml_type(name)
    assert structure is not None
    expected = {field: getattr(structure, field).offset for field in fields(structure)}
    expected["sizeof"] = ctypes.sizeof(structure)
    version = version_of(name)
    if version is not None:
        expected["tag"] = getattr(pynvml, name[: -len("_t")])
    assert compiled[name] == expected
