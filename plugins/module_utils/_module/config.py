# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Read a configuration file on the node. The engine validates its content."""

from __future__ import annotations

import json
import os
import stat
import typing as t

from .._mig.errors import LayoutError

# Far more than any real file needs, and few enough to be read in seconds.
_MOST_BYTES = 1024 * 1024
_MOST_VALUES = 50000  # values repeated by an alias count each time
_LONGEST_INTEGER = 100
_LONGEST_REASON = 200

_FROM_CONTROLLER = "\"{{ (lookup('ansible.builtin.file', PATH) | from_yaml)['mig-configs'][NAME] }}\""

# Exceptions of PyYAML other than YAMLError, for example for !!int abc and for the date 2026-02-30.
_INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class _Refused(Exception):
    """Why the file is invalid, and the remedy, as the rest of a sentence that begins with its name."""


def read(path: str) -> t.Any:
    """The document in the file: JSON with the standard library, YAML if PyYAML is installed. Raises LayoutError."""
    try:
        text = _text(path)
        try:
            return json.loads(text, object_pairs_hook=_unique, parse_int=_integer, parse_constant=_constant)
        except (ValueError, RecursionError) as error:
            return _yaml(text, error)
    except _Refused as refused:
        raise LayoutError("config_file %.255s %s" % (path, refused)) from None


def _text(path: str) -> str:
    try:
        # Without O_NONBLOCK, opening a FIFO would block.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise _Refused("is not a regular file: give the path of a file")
            content = handle.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise _Refused("is larger than %d bytes: give a file that holds only MIG configurations" % _MOST_BYTES)
        return content.decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, bytes that are not UTF-8
        raise _Refused(
            "cannot be read on the node: %s. If the file is on the controller, use layout instead: %s"
            % (getattr(error, "strerror", None) or error, _FROM_CONTROLLER)
        ) from None


def _unique(pairs: t.Iterable[t.Tuple[str, t.Any]]) -> t.Dict[str, t.Any]:
    """The mapping, without duplicate keys, of which the standard library would keep the last."""
    found: t.Dict[str, t.Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Refused(_twice(key))
        found[key] = value
    return found


def _twice(key: str) -> str:
    return "has the key %s twice in one mapping: remove one of them" % _cut(repr(key))


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise _Refused("has an integer of %d digits: write a smaller one" % len(digits))
    return int(digits)


def _constant(name: str) -> t.Any:
    raise _Refused("has %s as a value, which is not JSON: write a whole number" % name)


def _yaml(text: str, not_json: Exception) -> t.Any:
    try:
        import yaml
    except ImportError:
        raise _Refused(
            "is not JSON (%s), and the Python that runs the module on the node has no PyYAML. Install it there "
            "(package python3-yaml or python3-pyyaml), or give the configuration in layout: %s"
            % (_cut(str(not_json)), _FROM_CONTROLLER)
        ) from None

    class Loader(yaml.SafeLoader):
        """Rejects duplicate keys, aliases that expand to too many values, and values that PyYAML fails to construct."""

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.values = 0
            self.sizes: t.Dict[int, int] = {}  # number of values of a complete node, by its id()

        def compose_node(self, parent: t.Any, index: t.Any) -> t.Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            before = self.values
            node = super().compose_node(parent, index)
            if not isinstance(event, yaml.AliasEvent):
                _check_keys(node)
                self.values += 1
                self.sizes[id(node)] = self.values - before
            elif id(node) in self.sizes:
                self.values += self.sizes[id(node)]
            else:
                raise _Refused("has an alias at %s to a value that contains it: remove it" % _place(event.start_mark))
            if self.values > _MOST_VALUES:
                raise _Refused(
                    "has more than %d values at %s, aliases expanded: give a file that holds only MIG configurations"
                    % (_MOST_VALUES, _place(event.start_mark))
                )
            return node

        def construct_object(self, node: t.Any, deep: bool = False) -> t.Any:
            kind = node.tag.rpartition(":")[2]
            try:
                if kind != "int" or len(node.value) <= _LONGEST_INTEGER:
                    return super().construct_object(node, deep)
            except _INVALID:
                pass
            value = _cut(node.value) if isinstance(node, yaml.ScalarNode) else node.id
            raise _Refused(
                "has the value %s at %s, which is not a valid %s: correct it, or put it in quotes if it is text"
                % (value, _place(node.start_mark), kind)
            )

    def _check_keys(node: t.Any) -> None:
        """Reject duplicate keys, of which PyYAML would keep the last. Overriding merged keys is allowed."""
        seen: t.Set[str] = set()
        for key, _value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise _Refused("%s (%s)" % (_twice(key.value), _place(key.start_mark)))
                seen.add(key.value)

    try:
        loader = Loader(text)
        try:
            return loader.get_single_data()
        except _INVALID as error:
            reason = "%s: %s" % (_place(loader.get_mark()), _cut(str(error)))
    except yaml.YAMLError as error:
        reason = _problem(error)
    except RecursionError:
        reason = "it is nested too deeply"
    raise _Refused("is neither JSON nor YAML: %s. Correct it there" % reason)


def _problem(error: t.Any) -> str:
    """PyYAML's error and its position."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        return _cut(str(error))
    return "%s: %s" % (_place(mark), _cut(", ".join(filter(None, (error.context, error.problem)))))


def _place(mark: t.Any) -> str:
    return "line %d, column %d" % (mark.line + 1, mark.column + 1)


def _cut(text: str) -> str:
    """Text on one line, cut for a message."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[: _LONGEST_REASON - 3] + "..."
