# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Render a Go template of a configuration as far as its tables need it: each branch, with numbers instead of values.

Syntax: https://pkg.go.dev/text/template (Go 1.25). The data that RKE2 renders its templates with is unknown here.
"""

from __future__ import annotations

import itertools
import re
import typing as t

LIMIT = 64  # combinations of branches

_ACTION = re.compile(
    r"""\{\{(-(?=\s))?\s*(/\*.*?\*/|(?:"(?:\\.|[^"\\])*"|`[^`]*`|'(?:\\.|[^'\\])*'|[^}"`']|\}(?!\}))*?)\s*((?<=\s)-)?\}\}""",
    re.DOTALL,
)
_BASE = re.compile(r"template\s+(?:\"base\"|`base`)\s+\.")
_ASSIGNMENT = re.compile(r"\$\w+\s*:?=")
_INDEXED = re.compile(r"range\s+(\$\w+)\s*,\s*\$\w+\s*:?=")
_FIRST_NUMBER = 9000001

Key = t.Tuple[t.Tuple[int, ...], str]  # the loops around an action, and its text: equal ones have equal values


class TemplateError(Exception):
    """A template that this module cannot render. The message gives the reason."""


class Base(t.NamedTuple):
    """The place of RKE2's own configuration."""


class Branch(t.NamedTuple):
    key: Key
    alternatives: t.List[t.List[t.Any]]  # of str, Base and Branch


class Template(t.NamedTuple):
    nodes: t.List[t.Any]
    plain: bool  # the base and comments are its only actions
    unknown: bool  # some of its actions may render whole lines

    @property
    def has_base(self) -> bool:
        return any(isinstance(node, Base) for node in _walk(self.nodes))

    def renderings(self, base: str) -> t.Tuple[t.List[str], bool]:
        """The texts that the branches allow, and whether these are all. ``base``: RKE2's own configuration."""
        sizes = {node.key: len(node.alternatives) for node in _walk(self.nodes) if isinstance(node, Branch)}
        total = 1
        for size in sizes.values():
            total *= size
        choices: t.Iterable[t.Sequence[int]] = itertools.product(*(range(size) for size in sizes.values()))
        if total > LIMIT:  # all first and all last branches, then each branch beside the first ones
            first = [0] * len(sizes)
            single = ([*first[:at], 1, *first[at + 1 :]] for at in range(len(sizes)))
            choices = itertools.islice([first, [size - 1 for size in sizes.values()], *single], LIMIT)
        texts = [_render(self.nodes, dict(zip(sizes, choice)), base) for choice in choices]
        return list(dict.fromkeys(texts)), total <= LIMIT and not self.unknown


def parse(text: str) -> Template:
    """Parse a template. Raises TemplateError."""
    return _Parser(text).template()


class _Frame:
    """An action that ends with {{ end }}."""

    def __init__(self, word: str, key: Key) -> None:
        self.word = word
        self.key = key
        self.alternatives: t.List[t.List[t.Any]] = [[]]
        self.has_else = False
        indexed = _INDEXED.match(key[1])
        self.index = indexed.group(1) if indexed else ""


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.frames = [_Frame("", ((), ""))]
        self.loops: t.List[int] = []
        self.numbers: t.Dict[Key, int] = {}
        self.plain = True
        self.unknown = False

    def template(self) -> Template:
        place = 0
        strip = False
        for match in _ACTION.finditer(self.text):
            self._literal(self.text[place : match.start()], strip, bool(match.group(1)))
            self._action(match)
            place, strip = match.end(), bool(match.group(3))
        self._literal(self.text[place:], strip, False)
        if len(self.frames) > 1:
            raise TemplateError("{{ end }} is missing")
        return Template(self.frames[0].alternatives[0], self.plain, self.unknown)

    def _literal(self, text: str, strip_start: bool, strip_end: bool) -> None:
        if "{{" in text:
            raise TemplateError("an action is not closed")
        text = text.lstrip() if strip_start else text
        self._add(text.rstrip() if strip_end else text)

    def _add(self, node: t.Any) -> None:
        self.frames[-1].alternatives[-1].append(node)

    def _action(self, match: t.Match[str]) -> None:
        action = match.group(2)
        word = action.split(None, 1)[0] if action else ""
        if action.startswith("/*"):
            return
        if _BASE.fullmatch(action):
            self._add(Base())
            return
        self.plain = False
        key = (tuple(self.loops), action)
        if word in ("if", "with", "range", "define"):
            self.frames.append(_Frame(word, key))
            self.loops += [match.start()] if word in ("with", "range") else []
        elif word == "else":
            self.frames[-1].alternatives.append([])
            self.frames[-1].has_else = self.frames[-1].has_else or action == "else"
        elif word == "end":
            self._end()
        elif word in ("template", "block"):
            raise TemplateError("it uses {{ %s }}" % action)
        elif not (_ASSIGNMENT.match(action) or word in ("break", "continue")):
            self._value(match, key)

    def _end(self) -> None:
        if len(self.frames) == 1:
            raise TemplateError("{{ end }} has no beginning")
        frame = self.frames.pop()
        if frame.word in ("with", "range"):
            self.loops.pop()
        alternatives = frame.alternatives + ([] if frame.has_else else [[]])
        if frame.key[1] in ["if %s" % outer.index for outer in self.frames if outer.index]:
            del alternatives[0]  # loops are rendered once, with the index 0
        if frame.word != "define":
            self._add(Branch(frame.key, alternatives))

    def _value(self, match: t.Match[str], key: Key) -> None:
        line = self.text[: match.start()].rpartition("\n")[2] + self.text[match.end() :].partition("\n")[0]
        if line.strip():
            self._add(str(_FIRST_NUMBER + self.numbers.setdefault(key, len(self.numbers))))
        else:
            self.unknown = True


def _walk(nodes: t.Sequence[t.Any]) -> t.Iterator[t.Any]:
    for node in nodes:
        yield node
        if isinstance(node, Branch):
            for each in node.alternatives:
                yield from _walk(each)


def _render(nodes: t.Sequence[t.Any], choice: t.Mapping[Key, int], base: str) -> str:
    parts = []
    for node in nodes:
        if isinstance(node, Branch):
            # The same condition may have an else in one place and none in another.
            parts.append(_render(node.alternatives[min(choice[node.key], len(node.alternatives) - 1)], choice, base))
        else:
            parts.append(base if isinstance(node, Base) else node)
    return "".join(parts)
