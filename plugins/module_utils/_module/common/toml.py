# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read TOML 1.0 (https://toml.io/en/v1.0.0), through Python's own parser where there is one.

Python has tomllib since 3.11, but Ubuntu 22.04 and Enterprise Linux 9 have 3.10 and 3.9, and before the first start of
RKE2 there is no containerd that could parse its files. The collection's reader returns dates as text, and accepts some
faults: it merges tables that are defined twice.
"""

from __future__ import annotations

import re
import typing as t

try:
    import tomllib
except ImportError:
    tomllib = None  # type: ignore[assignment]

Table = t.Dict[str, t.Any]


class TomlError(ValueError):
    """The text is not TOML. The message gives the reason and the line."""


def loads(text: str) -> Table:
    """Parse a document. Raises TomlError."""
    if tomllib is None:
        return Reader(text).document()
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TomlError(str(error)) from error


def at(table: t.Any, *path: str) -> t.Any:
    """The value at a path of keys; None if it is missing."""
    for key in path:
        if not isinstance(table, dict):
            return None
        table = table.get(key)
    return table


_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\n|\Z)")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BASIC = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_LITERAL = re.compile(r"'([^'\n]*)'")
_LONG_BASIC = re.compile(r'"""\n?((?:[^"\\]|\\.|"(?!"")|"{1,2}(?="""(?!")))*)"""', re.DOTALL)
_LONG_LITERAL = re.compile(r"'''\n?((?:[^']|'(?!'')|'{1,2}(?='''(?!')))*)'''", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([ \t]*\n[ \t\n]*)|(.))", re.DOTALL)
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)?)?|\d\d:\d\d:\d\d(?:\.\d+)?")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")
_INTEGER = re.compile(
    r"[+-]?(?:0|[1-9](?:_?\d)*)|0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*"
)
_FLOAT = re.compile(r"[+-]?(?:(?:0|[1-9](?:_?\d)*)(?:\.\d(?:_?\d)*)?(?:[eE][+-]?\d(?:_?\d)*)?|inf|nan)")


class Reader:
    """A parser for Python without tomllib."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r\n", "\n")
        self.place = 0

    def document(self) -> Table:
        root: Table = {}
        table = root
        self._match(_BLANK)
        while self.place < len(self.text):
            if self._take("[["):
                table = self._appended(root, self._key())
                self._expect("]]")
            elif self._take("["):
                table = self._table(root, self._key())
                self._expect("]")
            else:
                self._pair(table)
            if not self._match(_REST_OF_LINE):
                raise self._error("unexpected text after the value")
            self._match(_BLANK)
        return root

    # --- Tables -------------------------------------------------------------------------------------------------------

    def _table(self, table: Table, key: t.Sequence[str]) -> Table:
        """The table of that name; of an array of tables, the last one."""
        for name in key:
            found = table.setdefault(name, {})
            if isinstance(found, list) and found:
                found = found[-1]
            if not isinstance(found, dict):
                raise self._duplicate(key)
            table = found
        return table

    def _appended(self, root: Table, key: t.Sequence[str]) -> Table:
        tables = self._table(root, key[:-1]).setdefault(key[-1], [])
        if not isinstance(tables, list):
            raise self._duplicate(key)
        table: Table = {}
        tables.append(table)
        return table

    def _pair(self, table: Table) -> None:
        key = self._key()
        self._expect("=")
        self._match(_SPACE)
        table = self._table(table, key[:-1])
        if key[-1] in table:
            raise self._duplicate(key)
        table[key[-1]] = self._value()

    def _key(self) -> t.List[str]:
        names = []
        while True:
            self._match(_SPACE)
            names.append(self._name())
            self._match(_SPACE)
            if not self._take("."):
                return names

    def _name(self) -> str:
        bare = self._match(_BARE_KEY)
        if bare:
            return bare.group()
        if self._peek() in ("'", '"'):
            return self._string()
        raise self._error("a key is missing or invalid")

    # --- Values -------------------------------------------------------------------------------------------------------

    def _value(self) -> t.Any:
        first = self._peek()
        if first in ("'", '"'):
            return self._string(long=True)
        if first == "[":
            return self._array()
        if first == "{":
            return self._inline()
        date = self._match(_DATE)
        if date:
            return date.group()
        start = self.place
        word = self._match(_WORD)
        value = _scalar(word.group()) if word else None
        if value is None:
            self.place = start
            raise self._error("a value is missing or invalid")
        return value

    def _string(self, long: bool = False) -> str:
        for pattern, escapes in (
            *(((_LONG_BASIC, True), (_LONG_LITERAL, False)) if long else ()),
            (_BASIC, True),
            (_LITERAL, False),
        ):
            found = self._match(pattern)
            if found:
                return _ESCAPE.sub(self._unescaped, found.group(1)) if escapes else found.group(1)
        raise self._error("a string is not closed")

    def _unescaped(self, match: t.Match[str]) -> str:
        code = match.group(1) or match.group(2)
        if code:
            number = int(code, 16)
            if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
                raise self._error("a string has an invalid escape")
            return chr(number)
        if match.group(3):
            return ""
        if match.group(4) not in _ESCAPED:
            raise self._error("a string has an invalid escape")
        return _ESCAPED[match.group(4)]

    def _array(self) -> t.List[t.Any]:
        self._expect("[")
        values: t.List[t.Any] = []
        while True:
            self._match(_BLANK)
            if self._take("]"):
                return values
            values.append(self._value())
            self._match(_BLANK)
            if not self._take(",") and self._peek() != "]":
                raise self._error("an array is not closed")

    def _inline(self) -> Table:
        self._expect("{")
        table: Table = {}
        self._match(_SPACE)
        if self._take("}"):
            return table
        while True:
            self._pair(table)
            self._match(_SPACE)
            if self._take("}"):
                return table
            self._expect(",")

    # --- Text ---------------------------------------------------------------------------------------------------------

    def _peek(self) -> str:
        return self.text[self.place : self.place + 1]

    def _match(self, pattern: t.Pattern[str]) -> t.Optional[t.Match[str]]:
        found = pattern.match(self.text, self.place)
        if found:
            self.place = found.end()
        return found

    def _take(self, word: str) -> bool:
        found = self.text.startswith(word, self.place)
        self.place += len(word) * found
        return found

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._error("%s is missing" % word)

    def _duplicate(self, key: t.Sequence[str]) -> TomlError:
        return self._error("%s is defined twice" % ".".join(key))

    def _error(self, reason: str) -> TomlError:
        return TomlError("%s (at line %d)" % (reason, self.text.count("\n", 0, self.place) + 1))


def _scalar(word: str) -> t.Any:
    if word in ("true", "false"):
        return word == "true"
    if _INTEGER.fullmatch(word):
        return int(word.replace("_", ""), 0 if word[:2] in ("0x", "0o", "0b") else 10)
    return float(word.replace("_", "")) if _FLOAT.fullmatch(word) else None
