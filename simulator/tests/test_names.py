# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every function that a client may look up exists. Functions that are not modeled return NOT_SUPPORTED."""

from __future__ import annotations

import ctypes
import re
import typing as t
from pathlib import Path

import pynvml as nv
import pytest
from calls import bodies, calls, document
from conftest import SIMULATOR
from nvsim.library import library, library_path

Simulate = t.Callable[..., t.Any]

CALLS = calls()
NAMES = [call.name for call in CALLS]


def test_names_are_sorted_and_unique() -> None:
    assert NAMES == sorted(set(NAMES))
    assert len(NAMES) > 430


@pytest.mark.parametrize("source", ["pynvml", "own"])
def test_all_names_exist(source: str) -> None:
    expected = set(NAMES)
    if source == "pynvml":
        text = Path(t.cast(str, nv.__file__)).read_text()
        expected = set(re.findall(r"_nvmlGetFunctionPointer\(\s*[\"'](nvml\w+)[\"']", text))
        assert len(expected) > 380
    missing = [name for name in sorted(expected) if not hasattr(library(), name)]
    assert missing == []


def test_nothing_else_is_exported() -> None:
    """Internal functions must not be visible to the program that loads the library."""
    exported = set(re.findall(rb"\x00(sim_[a-z_]+)\x00", library_path().read_bytes()))
    assert not [name for name in exported if hasattr(library(), name.decode())]


def test_soname() -> None:
    assert ctypes.CDLL("libnvidia-ml.so.1").nvsim_show


def test_stubs_return_a_code_and_are_traced(simulate: Simulate) -> None:
    """A stub returns NOT_SUPPORTED after initialization and UNINITIALIZED before, and is traced."""
    stubs = [call.name for call in CALLS if call.answer == "not supported"]
    assert len(stubs) > 100
    for name in stubs:
        function = ctypes.CDLL(str(library_path()))[name]
        assert function(None, None, None, None, None, None) == nv.NVML_ERROR_UNINITIALIZED, name
    session = simulate("A100-80GB")
    session.node.trace()
    for name in stubs:
        function = ctypes.CDLL(str(library_path()))[name]
        assert function(None, None, None, None, None, None) == nv.NVML_ERROR_NOT_SUPPORTED, name
    calls = session.node.calls()
    assert [call["function"] for call in calls] == stubs
    assert {(call["implemented"], call["result"]) for call in calls} == {(False, nv.NVML_ERROR_NOT_SUPPORTED)}


def test_calls_md_is_that_of_the_code() -> None:
    assert (SIMULATOR / "CALLS.md").read_text() == document(), "run python3 tests/calls.py >CALLS.md"


def test_no_implemented_function_is_a_stub(simulate: Simulate) -> None:
    """The trace marks stubs: called without arguments, the others answer by themselves."""
    session = simulate("A100-80GB")
    session.node.trace()
    for call in CALLS:
        if call.answer != "not supported" and not call.name.startswith(("nvmlInit", "nvmlShutdown")):
            ctypes.CDLL(str(library_path()))[call.name](None, None, None, None, None, None)
    assert {call["implemented"] for call in session.node.calls()} == {True}


def test_differences_between_boards_are_noted() -> None:
    """Each function that is not supported on some boards has a note."""
    board = re.compile(r"(architecture|mig_capable|ecc_supported|remaps_rows|has_margin)[^;]*NVML_ERROR_NOT_SUPPORTED")
    differ = {name for name, body in bodies().items() if board.search(body)}
    assert len(differ) > 10
    assert differ - {call.name for call in CALLS if call.note} == set()


def test_error_texts() -> None:
    """Each code has its own text, which nvidia-smi prints and clients search for."""
    ask = library().nvmlErrorString
    texts = {code: ask(code).decode() for code in range(31)}
    assert len(set(texts.values())) == 31
    assert texts[nv.NVML_ERROR_IN_USE] == "In use by another client"
    assert texts[nv.NVML_ERROR_INSUFFICIENT_RESOURCES] == "Insufficient Resources"
    assert texts[nv.NVML_ERROR_NO_PERMISSION] == "Insufficient Permissions"
    assert ask(999) == ask(12345) == b"Unknown Error"


def test_versions(simulate: Simulate) -> None:
    for driver, cuda in (("515.86.01", 11070), ("535.261.03", 12020), ("550.163.01", 12040), ("580.126.09", 13000)):
        session = simulate("A100-80GB", driver=driver)
        assert nv.nvmlSystemGetDriverVersion() == driver
        assert nv.nvmlSystemGetCudaDriverVersion() == cuda
        assert nv.nvmlSystemGetNVMLVersion() == "%d.%s" % (cuda // 1000, driver)
        assert session.node.show()["driver_version"] == driver
        nv.nvmlShutdown()
    nv.nvmlInit()
