# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reads a configuration file from the node. What is in it is judged elsewhere."""

from __future__ import annotations

import json
import typing as t

from .._mig.errors import LayoutError


def read(path: str) -> t.Any:
    """The document in the file: JSON with the standard library, YAML where PyYAML is there."""
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise LayoutError(
            "config_file %s cannot be read on the node: %s. A file on the controller is given in layout instead: "
            "\"{{ (lookup('ansible.builtin.file', PATH) | from_yaml)['mig-configs'][NAME] }}\"" % (path, error)
        ) from error
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except _Twice as twice:
        raise LayoutError(twice.message(path)) from None
    except (ValueError, RecursionError):
        return _yaml(path, text)


class _Twice(Exception):
    """A key stands twice in one mapping. YAML and JSON would let the last one win, unseen."""

    def message(self, path: str) -> str:
        return "config_file %s has the key %r twice in one mapping: take one of them out" % (path, self.args[0])


def _unique(pairs: t.Iterable[t.Tuple[t.Any, t.Any]]) -> t.Dict[t.Any, t.Any]:
    found: t.Dict[t.Any, t.Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


def _yaml(path: str, text: str) -> t.Any:
    try:
        import yaml
    except ImportError:
        raise LayoutError(
            "config_file %s is not JSON, and the Python on the node that runs this has no PyYAML. Install it there "
            "(package python3-yaml or python3-pyyaml), or give the configuration in layout: "
            "\"{{ (lookup('ansible.builtin.file', PATH) | from_yaml)['mig-configs'][NAME] }}\"" % path
        ) from None

    class Loader(yaml.SafeLoader):
        """A loader to which a key that stands twice is an error; merged keys (<<) may be overridden."""

        def construct_mapping(self, node: t.Any, deep: bool = False) -> t.Dict[t.Any, t.Any]:
            seen: t.Set[t.Any] = set()
            for key_node, _value in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":
                    continue
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
                if key in seen:
                    raise _Twice(key)
                if key is not None:
                    seen.add(key)
            return t.cast(t.Dict[t.Any, t.Any], super().construct_mapping(node, deep))

    try:
        return yaml.load(text, Loader)  # noqa: S506  # it is a SafeLoader
    except _Twice as twice:
        raise LayoutError(twice.message(path)) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise LayoutError("config_file %s is neither JSON nor YAML: %s" % (path, error)) from error
