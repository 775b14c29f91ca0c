# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The data of a report: what was read of hosts and cluster, and the differences found. A JSON file beside the page.

Unknown values are null with a reason, never empty, 0 or false. The reader also serves the rehearsal and comparisons.
"""

from __future__ import annotations

import json
import re
import typing as t
from pathlib import Path

from ...module_utils._common.data import Data
from ...module_utils._common.text import cut, short
from .._common.refusal import Refusal
from .._layout import gpus as layout_gpus

FORMAT = "gpufleet.node/report"
VERSION = 1
# Of values that comparison and rehearsal use without another check.
_TYPES: t.Mapping[str, tuple[type, ...]] = {
    "kind": (str,),
    "text": (str,),
    "gpu": (int, type(None)),
    "error": (str, type(None)),
    "toolkit": (dict, type(None)),
}
_COLLECTION = Path(__file__).resolve().parents[3]


class Problem(t.NamedTuple):
    """A difference, or a reason why something is unknown, as a sentence without host and full stop."""

    kind: str  # one of page.KINDS, or of a later release in a report that was read
    text: str
    gpu: t.Optional[int] = None  # index
    desired: t.Optional[t.Sequence[Data]] = None  # with the kind layout: the GPU's instances after the change


class HostReport(t.NamedTuple):
    """A host of the inventory."""

    error: t.Optional[str] = None  # why it, or its variables, could not be read
    facts: t.Optional[Data] = None  # of nvidia_driver_facts, in which each GPU also has its processes
    toolkit: t.Optional[Data] = None  # version, or the problem
    nodename: t.Optional[str] = None  # as the node reports it
    drained: t.Optional[bool] = None  # out of service of another scheduler
    desired: t.Any = None  # the layout of the inventory; None: MIG is not configured
    boards: t.Optional[t.Sequence[str]] = None
    requested: t.Mapping[str, str] = {}  # versions that the inventory sets: driver, branch, toolkit
    node: t.Optional[str] = None  # of the cluster
    problems: t.Sequence[Problem] = ()

    @property
    def gpus(self) -> list[Data] | None:
        """None if they are unknown."""
        return None if self.facts is None else self.facts["gpus"]


class ClusterReport(t.NamedTuple):
    """The cluster's view of its nodes with GPUs."""

    nodes: t.Mapping[str, Data] = {}
    error: t.Optional[str] = None  # why it could not be read


class Report(t.NamedTuple):
    """A fleet at one time."""

    created: str  # in UTC
    hosts: t.Mapping[str, HostReport]
    cluster: t.Optional[ClusterReport] = None  # None: the inventory configures none
    collection: str = ""


def collection_version() -> str:
    """The version of this collection, as installed or in a checkout; empty if neither file can be read."""
    try:
        manifest = json.loads((_COLLECTION / "MANIFEST.json").read_text(encoding="utf-8"))
        return str(manifest["collection_info"]["version"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        found = re.search(r"^version: (\S+)", (_COLLECTION / "galaxy.yml").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1) if found else ""


def serialized(report: Report) -> Data:
    return {
        "format": FORMAT,
        "version": VERSION,
        "created": report.created,
        "collection": report.collection,
        "hosts": {
            name: {**host._asdict(), "problems": [problem._asdict() for problem in host.problems]}
            for name, host in report.hosts.items()
        },
        "cluster": None if report.cluster is None else report.cluster._asdict(),
    }


def read(path: str | Path) -> Report:
    """The report in a file. Raises Refusal with path and remedy."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal("the report %s cannot be read: %s" % (path, error)) from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refusal("%s is no report: it is not JSON (%s)" % (path, cut(str(error)))) from None
    return of_file(path, content)


def of_file(path: str | Path, content: object) -> Report:
    """The report in the parsed JSON of a file. Raises Refusal with the path."""
    try:
        return of(content)
    except Refusal as error:
        raise Refusal("%s is no report: %s" % (path, error)) from None


def of(data: object) -> Report:
    """The report in parsed JSON. Raises Refusal."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise Refusal("its key format is not %s. Give the file report.json that the playbook report wrote" % FORMAT)
    if data.get("version") != VERSION:
        raise Refusal(
            "it has version %s of the format, and this collection reads version %d. Write it again with this collection"
            % (cut(str(data.get("version"))), VERSION)
        )
    try:
        cluster = data["cluster"]
        return Report(
            created=str(data["created"]),
            hosts={str(name): _host(host) for name, host in data["hosts"].items()},
            cluster=None if cluster is None else ClusterReport(dict(cluster["nodes"]), cluster["error"]),
            collection=str(data["collection"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Refusal("a value is missing or has another type (%s)" % cut(repr(error))) from None


def _host(host: Data) -> HostReport:
    problems = [Problem(**_fields(Problem._fields, problem)) for problem in host["problems"]]
    found = HostReport(**{**_fields(HostReport._fields, host), "problems": problems})
    if found.facts is not None:
        require_facts(found.facts)
    return found


def _fields(names: t.Iterable[str], values: Data) -> Data:
    """The values with these names: later releases may write more. Raises TypeError."""
    found = {name: values[name] for name in names if name in values}
    for name, value in found.items():
        if not isinstance(value, _TYPES.get(name, object)):
            raise TypeError("%s is %s" % (name, short(value)))
    return found


def require_facts(facts: object) -> Data:
    """What a node returned, if it has the shape of the facts. Raises TypeError: nodes can return anything."""
    gpus = facts.get("gpus") if isinstance(facts, dict) else ""
    if not isinstance(facts, dict) or not isinstance(facts.get("driver"), dict):
        raise TypeError("the facts have no driver")
    if "gpus" not in facts or gpus is not None and not (isinstance(gpus, list) and all(map(_is_gpu, gpus))):
        raise TypeError("the facts have no list of GPUs")
    return facts


def _is_gpu(gpu: object) -> bool:
    if not isinstance(gpu, dict) or not layout_gpus.is_fact(gpu):
        return False
    if not (_is(gpu.get("index", ""), int) and _is(gpu.get("uuid"), str) and _is(gpu.get("pci_bus_id"), str)):
        return False
    mig, processes = gpu["mig"], gpu.get("processes")
    return (
        _is(mig.get("instances"), list)
        and all(map(_is_instance, mig.get("instances") or ()))
        and _is(processes, list)
        and all(isinstance(each, dict) and _is(each.get("gi_id"), int) for each in processes or ())
    )


def _is_instance(instance: object) -> bool:
    return (
        isinstance(instance, dict)
        and all(isinstance(instance.get(key), int) for key in ("id", "start", "size"))
        and 0 <= instance["start"] < 64
        and 0 < instance["size"] <= 64
        and isinstance(instance.get("profile"), str)
        and isinstance(instance.get("compute_instances"), list)
        and all(isinstance(each, dict) and _is(each.get("profile", 0), str) for each in instance["compute_instances"])
    )


def _is(value: object, kind: type) -> bool:
    return value is None or (isinstance(value, kind) and not isinstance(value, bool))
