# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TOML on nodes whose Python has no tomllib. Where there is one, it is the reference for the collection's own reader."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import toml

# As administrators and tools write them, and the traps of the specification.
VALID = {
    "empty": "",
    "comment at the end": "# no line break",
    "spaced header": "[ plugins . 'a.b' . \"c\" ]  # a comment\nx = 1",
    "Windows": "a = 1\r\n[b]\r\nc = 'x'\r\n",
    "inline": "nvidia = {runtime_type = 'io.containerd.runc.v2', options = {BinaryName = \"x\"}}",
    "empty inline": "a = {}\nb = { }",
    "dotted": "a.b.c = 1\na.b.d = 2\n[a.e]\nf = 3",
    "dotted with spaces": "a . 'b c' = true",
    "super-table last": "[a.b.c]\nx = 1\n[a]\ny = 2\n[a.b]\nz = 3",
    "arrays": "a = [\n  1, # one\n  [2, 3],\n  {b = 'c'},\n]\nd = []",
    "tables in an array": "[[a]]\nb = 1\n[a.c]\nd = 2\n[[a]]\nb = 3\n[a.c]\n[[a.e]]\n[[a.e]]",
    "strings": r"""a = "t\tq\"b\\u\u00e9\U0001F600" """ + "\nb = 'C:\\x'\n\"\" = ''\n'a b' = \"#\"",
    "long strings": 'a = """\none "two" ""three\\\n   four"""\nb = \'\'\'it\'s\n""x\'\'\'\nc = """"q""""',
    "long strings of Windows": "a = \"\"\"\r\none\r\n\\\r\n two\"\"\"\r\nb = '''\r\none\r\n'''\r\n",
    "a line continued before a space that is not ASCII": 'a = """one\\\n  \u00a0two"""',
    "integers": "a = [0, +1, -17, 1_000, 0xDEAD_beef, 0o755, 0b1_0]",
    "floats": "a = [1.0, -0.01, 5e+22, 1e06, 6.626e-34, 9_224.5_5, inf]",
    "booleans": "a = [true, false]",
    "bare keys of digits": "1234 = 1\n3.14 = 2",
}
INVALID = {
    "a table that a key defines": "a = 1\n[a]",
    "a table inside a value": "a = 1\n[a.b]",
    "a key twice": "a = 1\na = 2",
    "a table as an array of tables": "[a]\n[[a]]",
    "two values in a line": "a = 1 b = 2",
    "no value": "a =",
    "no key": "= 1",
    "a bare word": "a = nvidia",
    "a template": '{{ template "base" . }}',
    "a header that is not closed": "[a",
    "text after a header": "[a] b",
    "an open string": 'a = "b',
    "an open array": "a = [1 2]",
    "an inline table over lines": "a = {b = 1,\nc = 2}",
    "a comma at the end of an inline table": "a = {b = 1,}",
    "a leading zero": "a = 01",
    "an unknown escape": r'a = "\q"',
    "an escape beyond Unicode": r'a = "\UFFFFFFFF"',
    "an escaped surrogate": r'a = "\uD800"',
    "a carriage return alone": "a = 1\rb = 2",
}


@pytest.mark.parametrize("name", VALID)
def test_documents(name):
    found = toml.Reader(VALID[name]).document()
    if toml.tomllib is not None:
        assert found == toml.tomllib.loads(VALID[name])
    assert json.dumps(found) == json.dumps(toml.loads(VALID[name]))


@pytest.mark.parametrize("name", INVALID)
def test_documents_that_are_refused(name):
    with pytest.raises(toml.TomlError):
        toml.Reader(INVALID[name]).document()
    with pytest.raises(toml.TomlError):
        toml.loads(INVALID[name])


def test_an_error_names_the_key_and_the_line():
    with pytest.raises(toml.TomlError, match=r"^a\.b is defined twice \(at line 3\)$"):
        toml.Reader("a.c = 1\na.b = 1\n[a.b]\n").document()


def test_tables_that_are_defined_twice_are_merged():
    assert toml.Reader("[a]\nb = 1\n[a]\nc.d = 2\n[a.c]\ne = 3\n").document() == {"a": {"b": 1, "c": {"d": 2, "e": 3}}}


def test_dates_are_text():
    assert toml.Reader("a = 1979-05-27T07:32:00Z\nb = 07:32:00\nc = 1979-05-27").document() == {
        "a": "1979-05-27T07:32:00Z",
        "b": "07:32:00",
        "c": "1979-05-27",
    }


def test_values_at_a_path():
    table = {"a": {"b": 1}}
    assert (toml.at(table, "a", "b"), toml.at(table, "a", "c"), toml.at(table, "a", "b", "c")) == (1, None, None)
