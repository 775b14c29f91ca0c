# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Values of Helm charts: the keys of each chart release, validation, and merging."""

from __future__ import annotations

import copy
import functools
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load
from ansible.module_utils.compat.version import LooseVersion

from ...module_utils._common.data import Data
from ...module_utils._common.text import cut, did_you_mean, nearest, short
from ...module_utils._mig.errors import LayoutError
from ...module_utils._mig.keys import known_keys
from .._common.refusal import Refusal

_FOLDER = Path(__file__).with_name("values")
_VERSION = re.compile(r"v?([0-9]+)\.([0-9]+)\.[0-9]+(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")
_TYPES: dict[str, tuple[type | tuple[type, ...], str]] = {
    "bool": (bool, "give true or false, without quotes"),
    "int": (int, "give a number, without quotes"),
    "str": (str, "give a string; quote numbers"),
    "list": ((list, tuple), "give a list"),
    "map": (dict, "give a mapping"),
}


def supported(chart: str) -> list[str]:
    """The supported releases of a chart, such as 25.10, in order."""
    return sorted((path.stem[len(chart) + 1 :] for path in _FOLDER.glob(chart + "-*.yml")), key=LooseVersion)


def release(chart: str, version: object) -> str:
    """The release whose keys apply to a chart version, such as 25.10 for v25.10.1. Raises Refusal if it is unsupported.

    For a version that is newer than all supported releases, it is the newest of them.
    """
    known = supported(chart)
    if is_newer(chart, version):
        return known[-1]
    name = _release_of(chart, version)
    if name not in known:
        raise Refusal(
            "this version of the collection does not support %s %s: use one of the releases %s, or a newer one"
            % (chart, version, ", ".join(known))
        )
    return name


def is_newer(chart: str, version: object) -> bool:
    """Whether a chart version is newer than all supported releases. Raises Refusal if it is malformed."""
    return bool(LooseVersion(_release_of(chart, version)) > LooseVersion(supported(chart)[-1]))


def _release_of(chart: str, version: object) -> str:
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None:
        raise Refusal(
            "%s is not a version of the chart %s: give one such as %s.1" % (short(version), chart, supported(chart)[-1])
        )
    return "%s.%s" % found.groups()


@functools.cache
def _read(chart: str, name: str) -> Data:
    text = (_FOLDER / ("%s-%s.yml" % (chart, name))).read_text(encoding="utf-8")
    return t.cast("Data", yaml_load(text))


def keys(chart: str, name: str) -> Data:
    """The keys of a release, as nested mappings with the type name of each value."""
    return t.cast("Data", _read(chart, name)["values"])


def kubernetes(chart: str, name: str) -> range:
    """The minor versions of Kubernetes that NVIDIA documents for a release; empty if that is unknown."""
    documented = _read(chart, name).get("kubernetes")
    return range(documented[0], documented[1] + 1) if documented else range(0)


def merged(base: t.Mapping[str, t.Any], over: t.Mapping[str, t.Any]) -> Data:
    """Merge as Helm does: mappings are merged, everything else is replaced."""
    out = copy.deepcopy(dict(base))
    for key, value in over.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else copy.deepcopy(value)
    return out


def value_at(values: t.Mapping[str, t.Any], path: str) -> t.Any:
    """The value at a path such as migManager.enabled; None if it is missing."""
    found: t.Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def unknown_keys(values: t.Mapping[str, t.Any], known: t.Mapping[str, t.Any], where: str) -> list[str]:
    """Paths of unknown keys, with the most similar known one. ``where`` is the name of the variable."""
    out = []
    for key, item in values.items():
        path, expected = "%s.%s" % (where, cut(str(key))), known.get(str(key))
        if expected is None:
            out.append(path + did_you_mean(nearest(str(key), list(known))))
        elif isinstance(expected, dict) and isinstance(item, dict):
            out.extend(unknown_keys(item, expected, path))
    return out


def value_problems(values: object, known: t.Mapping[str, t.Any], where: str, newer: bool = False) -> list[str]:
    """Unknown keys, which a ``newer`` release may have, and values of the wrong type. ``where`` names the variable."""
    if not isinstance(values, dict):
        return ["%s is %s: give a mapping" % (where, short(values))]
    out = []
    for key, item in values.items():
        try:
            known_keys({str(key): None}, list(known), where)
        except LayoutError as error:
            out.extend([] if newer else [str(error)])
            continue
        expected, path = known[str(key)], "%s.%s" % (where, key)
        if isinstance(expected, dict):
            out.extend(value_problems(item, expected, path, newer) if item is not None else [])
        elif expected != "any" and item is not None:
            kind, remedy = _TYPES[expected]
            if not isinstance(item, kind) or (expected == "int" and isinstance(item, bool)):
                out.append("%s is %s: %s" % (path, short(item), remedy))
    return out
