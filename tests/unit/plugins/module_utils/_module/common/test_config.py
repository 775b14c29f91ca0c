# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a mig-parted file on the node."""

from __future__ import annotations

import json
import os
import string
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import mig_parted
from ansible_collections.gpufleet.node.plugins.module_utils._mig.errors import LayoutError
from ansible_collections.gpufleet.node.plugins.module_utils._module.common import config

pytest.importorskip("yaml")

VALID = """\
version: v1
mig-configs:
  all-disabled:
    - devices: all
      mig-enabled: false
  custom: &custom
    - device-filter: ["0x20B210DE", "0x233010DE"]
      devices: [0, 1]
      mig-enabled: true
      mig-devices:
        "1g.10gb": 2
        "3g.40gb": 1
  other: *custom
"""


def read(path, content: str):
    """The document and the warnings."""
    path.write_text(content)
    warnings: list[str] = []
    return config.read(str(path), warnings.append), warnings


def refusal(path, content) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LayoutError) as error:
        config.read(str(path), pytest.fail)
    message = str(error.value)
    assert message.startswith("config_file %s " % path)
    return message


def test_yaml_without_pyyaml_is_refused_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    message = refusal(tmp_path / "config", VALID)
    assert "PyYAML" in message and "from_yaml" in message


# Documents that nvidia-mig-parted reads: tried with its parser at bd7160f (2026-08-21).
@pytest.mark.parametrize(
    "text, document, warning",
    [
        ('{"x": {"a": 1, "a": 2}}', {"x": {"a": 2}}, "repeats keys in one mapping, of which the last applies: 'a'. "),
        (
            "x:\n  a: 1\n  b: 0\n  'a': 2\n",
            {"x": {"a": 2, "b": 0}},
            "of which the last applies: 'a' (line 4, column 3)",
        ),
        ("x: {a: 1}\nx: {b: 2}\n", {"x": {"b": 2}}, "of which the last applies: 'x' (line 2, column 1). Remove"),
        ("a: 1\n---\na: 2\n", {"a": 1}, "more than one YAML document, of which only the first is read"),
        ("---\na: 1\n---\nb: [\n", {"a": 1}, "more than one YAML document"),
        ('{"a": 1} b', {"a": 1}, "more than one YAML document"),
        ("a: 1\n...\n# b\n", {"a": 1}, None),
        ("{7: 1, 1.10: 2, on: 3}", {7: 1, 1.1: 2, True: 3}, None),
        ("2026-02-30: 1:30", {"2026-02-30": "1:30"}, None),
        ("[y, Y, n, N, 'y', 1:30.5]", [True, True, False, False, "y", "1:30.5"], None),
    ],
)
def test_what_nvidia_mig_parted_reads_is_read_the_same_way(tmp_path, text, document, warning):
    found, warnings = read(tmp_path / "config", text)
    assert found == document
    assert len(warnings) == (warning is not None)
    for text in warnings:
        assert text.startswith("config_file %s/config " % tmp_path)
        assert warning in text


def test_of_many_repeated_keys_the_first_are_named(tmp_path):
    _found, (warning,) = read(tmp_path / "config", "".join("%d: 1\n%d: 2\n" % (key, key) for key in range(100)))
    assert "'0' (line 2, column 1), '1' (line 4, column 1)" in warning
    assert "and 96 more. Remove the others" in warning


@pytest.mark.parametrize(
    "text, merged",
    [
        ("base: &base {x: 1, z: 1}\nmine:\n  <<: *base\n  x: 2\n", {"x": 2, "z": 1}),
        # Constructed only after the mapping that it is merged into.
        ("deep: {base: &base {<<: {x: 1, z: 1}, x: 2}}\nmine: {<<: *base}\n", {"x": 2, "z": 1}),
    ],
)
def test_a_merged_key_may_be_overridden(tmp_path, text, merged):
    found, warnings = read(tmp_path / "config.yaml", text)
    assert (found["mine"], warnings) == (merged, [])


@pytest.mark.parametrize("text", ["[" * 100000, "{a: " * 100000], ids=["json", "yaml"])
def test_deep_nesting_is_refused_with_a_message(tmp_path, text):
    assert "neither JSON nor YAML" in refusal(tmp_path / "config", text)


@pytest.mark.parametrize(
    "value, kind",
    [
        ("!!timestamp 2026-02-30", "timestamp"),
        ("!!timestamp", "timestamp"),
        ("!!timestamp abc", "timestamp"),
        ("!!int abc", "int"),
        ("!!int ''", "int"),
        ("!!bool abc", "bool"),
        ("!!float abc", "float"),
        ("0x_", "int"),
        ("9" * 5000, "int"),
        ("0x" + "f" * 5000, "int"),
        ("!!int 1" + ":1" * 100000, "int"),  # sexagesimal: its value would take minutes
        ("!!float 1" + ":1" * 1000 + ".0", "float"),
    ],
    ids=lambda value: value[:20],
)
def test_a_yaml_value_that_cannot_be_constructed_is_refused_with_its_place(tmp_path, value, kind):
    for text in ("version: v1\nmig-configs:\n  %s\n" % value, "version: v1\nmig-configs:\n  [%s ]\n" % value):
        message = refusal(tmp_path / "config.yaml", text)
        assert "at line 3, column " in message
        assert "not a valid %s: correct it, or put it in quotes" % kind in message


@pytest.mark.parametrize(
    "content, words",
    [
        ("a: [1\nb: 2", "neither JSON nor YAML: line 2, column 2: "),
        ("a: *b\n", "line 1, column 4: found undefined alias 'b'"),
        ("a: !!python/name:os.system x\n", "line 1, column 4: could not determine a constructor"),
        ("a: !%s 1\n" % ("x" * 10000), "line 1, column 4: could not determine a constructor"),
        ("!!map [1]", "line 1, column 1: expected a mapping"),
        ("a: \0", "unacceptable character #x0000"),
        ('"\\UFFFFFFFF"', "neither JSON nor YAML: line 1, column 4: "),
        ("%%YAML 1.%s\n---\na\n" % ("9" * 5000), "neither JSON nor YAML: line 1, column 9: "),
        ("a: &a [*a]", "has an alias at line 1, column 8 to a value that contains it"),
        ("a: &a {<<: *a}", "has an alias at line 1, column 12 to a value that contains it"),
        (b"a: \xff", "cannot be read on the node: .*utf-8.* position 3"),
        ('{"a": %s}' % ("9" * 5000), "an integer of 5000 digits"),
        ('{"a": NaN}', "NaN as a value"),
        ('{"a": [-Infinity]}', "-Infinity as a value"),
    ],
)
def test_an_invalid_document_is_refused_with_the_place_in_a_short_message(tmp_path, content, words):
    message = refusal(tmp_path / "config", content)
    with pytest.raises(LayoutError, match=words):
        raise LayoutError(message)
    assert "\n" not in message
    assert len(message) < 700


BOMB = "a: &a [%s]\n" % ", ".join("x" * 10) + "".join(
    "%s: &%s [%s]\n" % (name, name, ", ".join(["*" + before] * 10))
    for before, name in zip(string.ascii_lowercase, string.ascii_lowercase[1:20])
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB + "version: v1\nmig-configs: {x: [{devices: *t}]}\n",
        BOMB.replace("[x, x, x, x, x, x, x, x, x, x]", "{x: 1}").replace("[*", "{<<: [*").replace("]\n", "]}\n"),
        "[" + "1," * 200000 + "]x",
    ],
    ids=["values", "merged keys", "no alias"],
)
def test_a_document_of_too_many_values_is_refused_early(tmp_path, text):
    before = time.process_time()
    message = refusal(tmp_path / "config", text)
    assert "more than 50000 values at line " in message
    assert time.process_time() - before < 15


def test_a_file_that_is_not_regular_or_too_large_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_text("a: 1 #" + "x" * (1024 * 1024))
    for path, words in [
        (str(tmp_path / "fifo"), "fifo is not a regular file: give the path of a file"),
        ("/dev/null", "/dev/null is not a regular file"),
        (str(tmp_path), "cannot be read on the node: Is a directory"),
        (str(tmp_path / "large"), "large is larger than 1048576 bytes"),
        ("/a\0b", "cannot be read on the node: embedded null byte"),
    ]:
        with pytest.raises(LayoutError, match=words):
            config.read(path, pytest.fail)


# --- any content is read or refused


@pytest.fixture(name="file", scope="module")
def fixture_file(tmp_path_factory):
    return tmp_path_factory.mktemp("config") / "config"


def try_to_use(file, content: bytes, name: str | None = None) -> None:
    file.write_bytes(content)
    warnings: list[str] = []
    try:
        mig_parted.parse(config.read(str(file), warnings.append), name, warnings.append)
    except LayoutError as error:
        warnings.append(str(error))
    for text in warnings:
        assert len(text) < 1600


FRAGMENTS = st.sampled_from(
    [": ", "- ", "? ", "[", "]", "{", "}", ",", "\n", "\n  ", "\t", '"', "'", "|", ">", "#", "%", "---\n", "...\n", "~"]
    + [
        "&a ",
        "*a",
        "*custom",
        "&custom ",
        "<<: *custom",
        "!",
        "!!int ",
        "!!bool ",
        "!!timestamp ",
        "!!binary ",
        "!!set ",
    ]
    + ["!!omap ", "!!pairs ", "!!null ", "!!float ", "!!str ", "!!map ", "!!seq ", "0x_", "0b_", "1:1", "-.inf", ".nan"]
    + [
        "2026-02-30",
        "0001-01-01T00:00:00+99:99",
        "NaN",
        "-1",
        "1e999",
        "\0",
        "\x85",
        "\ufeff",
        "\ud7ff",
        "é",
        "9" * 5000,
    ]
)


@given(content=st.one_of(st.binary(), st.text().map(str.encode), st.lists(FRAGMENTS).map("".join).map(str.encode)))
def test_any_content_is_read_or_refused(file, content):
    try_to_use(file, content)


@given(
    cuts=st.lists(
        st.tuples(st.integers(0, len(VALID)), st.integers(0, 20), FRAGMENTS | st.text(max_size=5)),
        min_size=1,
        max_size=4,
    )
)
def test_a_valid_file_with_mistakes_is_read_or_refused(file, cuts):
    text = VALID
    for start, length, new in cuts:
        text = text[:start] + new + text[start + length :]
    try_to_use(file, text.encode(), "custom")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["all", "1g.10gb"]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(
            st.text(max_size=5)
            | st.sampled_from(["devices", "device-filter", "mig-enabled", "mig-devices", "profile"]),
            inner,
        )
    ),
)


@given(
    entries=VALUES | st.lists(st.fixed_dictionaries({"devices": VALUES, "mig-enabled": VALUES, "mig-devices": VALUES}))
)
def test_any_json_is_read_or_refused(file, entries):
    try_to_use(file, json.dumps({"version": "v1", "mig-configs": {"x": entries}}).encode())
