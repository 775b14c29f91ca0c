# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An EnvironmentFile, read as systemd.exec(5) describes it."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.env_file import parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("A=1\nB=2\n", {"A": "1", "B": "2"}),
        ("A=1", {"A": "1"}),
        ("A=1\nA=2", {"A": "2"}),
        ("A=\nB=2", {"A": "", "B": "2"}),
        ("  A = 1 \t\nB=2 3  \r\n", {"A": "1", "B": "2 3"}),
        ("# A=1\n; B=2\n  # C=3\nD=4", {"D": "4"}),
        ("A=1 # not a comment", {"A": "1 # not a comment"}),
        ("not an assignment\nA=1", {"A": "1"}),
        ("=1\n1A=1\nexport B=1\nA=1", {"A": "1"}),
        ("A='x \"y\" $Z \\n'", {"A": 'x "y" $Z \\n'}),
        ('A="x \'y\' \\"z\\" \\$HOME \\\\ \\n"', {"A": "x 'y' \"z\" $HOME \\ \\n"}),
        ("A='one\ntwo'\nB=2", {"A": "one\ntwo", "B": "2"}),
        ("A='one' \"two\"three", {"A": "onetwothree"}),
        ("A=one'two'", {"A": "one'two'"}),
        ("A=one\\\ntwo\nB=2", {"A": "onetwo", "B": "2"}),
        ('A="one\\\ntwo"\nB=2', {"A": "onetwo", "B": "2"}),
        ("A=a\\ b\\\\c\\ ", {"A": "a b\\c "}),
        ("A=$(touch /tmp/x) `id` $HOME ~", {"A": "$(touch /tmp/x) `id` $HOME ~"}),
        ("A='open", {"A": "open"}),
        ("A=x\\", {"A": "x"}),
    ],
)
def test_files_are_parsed_as_by_systemd(text, expected):
    assert parse(text) == expected
