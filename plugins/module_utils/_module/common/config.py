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

from ..._common.text import cut, listed
from ..._mig.errors import LayoutError

# Far more than any real file needs, and few enough to be read in seconds.
_MAX_BYTES = 1024 * 1024
_MAX_VALUES = 50000  # values repeated by an alias count each time
_MAX_INTEGER_LENGTH = 100
_MAX_REASON_LENGTH = 200

_FROM_CONTROLLER = "\"{{ (lookup('ansible.builtin.file', PATH) | from_yaml)['mig-configs'][NAME] }}\""

# Exceptions of PyYAML other than YAMLError, for example for !!int abc and for the date 2026-02-30.
_INVALID = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


_SEVERAL = "has more than one YAML document, of which only the first is read: move the others to files of their own"


class _Refused(Exception):
    """Why the file is invalid, and the remedy, as the rest of a sentence that begins with its name."""


def read(path: str, warn: t.Callable[[str], None]) -> t.Any:
    """The document in the file: JSON with the standard library, YAML if PyYAML is installed. Raises LayoutError.

    Reads what nvidia-mig-parted reads, which converts YAML with sigs.k8s.io/yaml v1.6.0: the first document, and the
    last of duplicate keys. ``warn`` is called with these mistakes.
    """
    try:
        text = _text(path)
        try:
            data, warnings = _json(text)
        except (ValueError, RecursionError) as error:
            data, warnings = _yaml(text, error)
    except _Refused as refused:
        raise LayoutError("config_file %.255s %s" % (path, refused)) from None
    for warning in warnings:
        warn("config_file %.255s %s" % (path, warning))
    return data


def _text(path: str) -> str:
    try:
        # Without O_NONBLOCK, opening a FIFO would block.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)) as handle:
            if not stat.S_ISREG(os.fstat(handle.fileno()).st_mode):
                raise _Refused("is not a regular file: give the path of a file")
            content = handle.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise _Refused("is larger than %d bytes: give a file that holds only MIG configurations" % _MAX_BYTES)
        return content.decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, bytes that are not UTF-8
        raise _Refused(
            "cannot be read on the node: %s. If the file is on the controller, use layout instead: %s"
            % (getattr(error, "strerror", None) or error, _FROM_CONTROLLER)
        ) from None


def _json(text: str) -> t.Tuple[t.Any, t.List[str]]:
    """The document and the warnings."""
    twice: t.List[str] = []

    def mapping(pairs: t.Iterable[t.Tuple[str, t.Any]]) -> t.Dict[str, t.Any]:
        found: t.Dict[str, t.Any] = {}
        for key, value in pairs:
            if key in found:
                twice.append(_cut(repr(key)))
            found[key] = value
        return found

    data = json.loads(text, object_pairs_hook=mapping, parse_int=_integer, parse_constant=_constant)
    return data, _of_keys(twice)


def _of_keys(twice: t.Sequence[str]) -> t.List[str]:
    if not twice:
        return []
    return ["repeats keys in one mapping, of which the last applies: %s. Remove the others" % listed(twice, ", ")]


def _integer(digits: str) -> int:
    if len(digits) > _MAX_INTEGER_LENGTH:
        raise _Refused("has an integer of %d digits: write a smaller one" % len(digits))
    return int(digits)


def _constant(name: str) -> t.Any:
    raise _Refused("has %s as a value, which is not JSON: write a whole number" % name)


def _yaml(text: str, not_json: Exception) -> t.Tuple[t.Any, t.List[str]]:
    """The first document and the warnings."""
    try:
        import yaml
    except ImportError:
        raise _Refused(
            "is not JSON (%s), and the Python that runs the module on the node has no PyYAML. Install it there "
            "(package python3-yaml or python3-pyyaml), or give the configuration in layout: %s"
            % (_cut(str(not_json)), _FROM_CONTROLLER)
        ) from None
    try:
        loader = _loader(text)
        try:
            data = loader.get_data()
            return data, _of_keys(loader.twice) + ([_SEVERAL] if _has_more(loader) else [])
        except _INVALID as error:
            reason = "%s: %s" % (_place(loader.get_mark()), _cut(str(error)))
    except yaml.YAMLError as error:
        reason = _problem(error)
    except RecursionError:
        reason = "it is nested too deeply"
    raise _Refused("is neither JSON nor YAML: %s. Correct it there" % reason)


def _loader(text: str) -> t.Any:
    """A loader of PyYAML, which may be missing on the node."""
    import yaml

    class Loader(yaml.SafeLoader):
        """Rejects aliases that expand to too many values, and values that PyYAML fails to construct."""

        bool_values = dict(yaml.SafeLoader.bool_values, y=True, n=False)

        def __init__(self, stream: str) -> None:
            super().__init__(stream)
            self.values = 0
            self.sizes: t.Dict[int, int] = {}  # number of values of a complete node, by its id()
            self.twice: t.List[str] = []  # keys that repeat another one of their mapping

        def resolve(self, kind: t.Any, value: t.Any, implicit: t.Any) -> t.Any:
            """The type of a plain value. For mig-parted, y and n are booleans, and times (2026-02-28, 1:30) strings."""
            tag = super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
            if kind is yaml.ScalarNode and implicit[0]:
                if value in ("y", "Y", "n", "N"):
                    return "tag:yaml.org,2002:bool"
                if tag.endswith(":timestamp") or (":" in value and tag.endswith((":int", ":float"))):
                    return "tag:yaml.org,2002:str"
            return tag

        def compose_node(self, parent: t.Any, index: t.Any) -> t.Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            before = self.values
            node = super().compose_node(parent, index)
            if not isinstance(event, yaml.AliasEvent):
                self.twice.extend(_repeated_keys(node))
                self.values += 1
                self.sizes[id(node)] = self.values - before
            elif id(node) in self.sizes:
                self.values += self.sizes[id(node)]
            else:
                raise _Refused("has an alias at %s to a value that contains it: remove it" % _place(event.start_mark))
            if self.values > _MAX_VALUES:
                raise _Refused(
                    "has more than %d values at %s, aliases expanded: give a file that holds only MIG configurations"
                    % (_MAX_VALUES, _place(event.start_mark))
                )
            return node

        def construct_object(self, node: t.Any, deep: bool = False) -> t.Any:
            kind = node.tag.rpartition(":")[2]
            try:
                if kind != "int" or len(node.value) <= _MAX_INTEGER_LENGTH:
                    return super().construct_object(node, deep)
            except _INVALID:
                pass
            value = _cut(node.value) if node.id == "scalar" else node.id
            raise _Refused(
                "has the value %s at %s, which is not a valid %s: correct it, or put it in quotes if it is text"
                % (value, _place(node.start_mark), kind)
            )

    return Loader(text)


def _repeated_keys(node: t.Any) -> t.Iterator[str]:
    """The keys of a mapping that repeat another one, not only a merged one."""
    seen: t.Set[str] = set()
    for key, _value in node.value if node.id == "mapping" else ():
        if key.id == "scalar" and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                yield "%s (%s)" % (_cut(repr(key.value)), _place(key.start_mark))
            seen.add(key.value)


def _has_more(loader: t.Any) -> bool:
    """Whether another document follows, which may be invalid."""
    import yaml

    try:
        return bool(loader.check_data())
    except yaml.YAMLError:
        return True


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
    return cut(" ".join(text.split()), _MAX_REASON_LENGTH)
