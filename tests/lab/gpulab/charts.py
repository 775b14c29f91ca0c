# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Helm charts with the names and values of NVIDIA's, which run the stand-ins, in chart repositories like the vendor's.

The originals ignore unknown values; these reject them.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import typing as t
from pathlib import Path

import yaml
from operands.operand_sets import image

from .places import HERE, LAB, alone, fingerprint

FILES = HERE / "charts"
BUILT = LAB / "charts"
WEB = LAB / "www" / "charts"  # below repositories.ROOT
IMAGE = "localhost/gpufleet-operands:1"
CREATED = "2026-08-21T00:00:00Z"
Values = t.Dict[str, t.Any]

# Maps with user-defined keys, or with Kubernetes fields.
FREE = {"affinity", "annotations", "labels", "nodeSelector", "podAnnotations", "podSecurityContext", "resources"}
FREE |= {"securityContext", "selectorLabelsOverride", "startupProbe"}
OPERANDS = ("devicePlugin", "gfd", "migManager", "operator", "validator")  # sections with an image of ours
NOT_IN_POLICY = {
    "platform",
    "nfd",
    "node-feature-discovery",
    "clusterPolicy",
    "gpuCluster",
    "draDriver",
    "extraObjects",
}
PRESERVE = "x-kubernetes-preserve-unknown-fields"


class Chart(t.NamedTuple):
    name: str
    version: str
    app_version: str
    repository: str  # directory on the web server
    values: str  # file in charts/values
    subchart: str  # the section with node feature discovery's values
    nfd: str  # the condition for node feature discovery


OPERATOR = Chart(
    "gpu-operator",
    "v26.7.0",
    "v26.7.0",
    "nvidia",
    "gpu-operator-26.7.0.yml",
    "node-feature-discovery",
    ".Values.nfd.enabled",
)
DEVICE_PLUGIN = Chart(
    "nvidia-device-plugin",
    "0.20.0",
    "0.20.0",
    "k8s-device-plugin",
    "nvidia-device-plugin-0.20.0.yml",
    "nfd",
    '(ternary .Values.nfd.enabled .Values.gfd.enabled (hasKey .Values.nfd "enabled"))',
)
CHARTS = (OPERATOR, DEVICE_PLUGIN)


def data(chart: Chart) -> t.Tuple[Values, Values]:
    """The chart's default values, and other values that it supports."""
    read = yaml.safe_load((FILES / "values" / chart.values).read_text())
    return read["values"], read["optional"]


def merged(values: Values, more: Values) -> Values:
    made = dict(values)
    for key, value in more.items():
        former = made.get(key)
        made[key] = merged(former, value) if isinstance(value, dict) and isinstance(former, dict) else value
    return made


def images() -> t.List[str]:
    """The images that the charts' default values select for the programs that have a stand-in."""
    found = set()
    for chart in CHARTS:
        values = data(chart)[0]
        if "image" in values:
            found.add("%s:v%s" % (values["image"]["repository"], chart.app_version))
        else:
            found |= {image(values[name], chart.app_version) for name in OPERANDS}
    return sorted(found)


def values_schema(chart: Chart) -> Values:
    """A JSON schema that allows only known keys."""

    def schema(key: str, value: t.Any) -> Values:
        if isinstance(value, dict):
            if not value or key in FREE or key == chart.subchart:
                return {"type": ["object", "null"]}
            properties = {name: schema(name, each) for name, each in value.items()}
            return {"type": ["object", "null"], "properties": properties, "additionalProperties": False}
        if isinstance(value, list):
            return {"type": ["array", "null"]}
        if value is None:
            return {}
        return {"type": ["boolean", "number", "string", "null"]}

    made = schema("", merged(*data(chart)))
    made["properties"]["global"] = {}  # helm's own
    return {"$schema": "http://json-schema.org/draft-07/schema#", **made, "type": "object"}


def policy_schema(chart: Chart) -> Values:
    """The schema of a ClusterPolicy. As in the original, the API server drops unknown fields."""

    def schema(key: str, value: t.Any) -> Values:
        if isinstance(value, dict):
            if not value or key in FREE:
                return {"type": "object", PRESERVE: True}
            return {"type": "object", "properties": {name: schema(name, each) for name, each in value.items()}}
        if isinstance(value, list):
            return {"type": "array", "items": {PRESERVE: True}}
        if key == "maxUnavailable":
            return {"x-kubernetes-int-or-string": True}
        for kind, name in ((bool, "boolean"), (int, "integer"), (str, "string")):
            if isinstance(value, kind):
                return {"type": name}
        return {PRESERVE: True}

    sections = {name: value for name, value in merged(*data(chart)).items() if name not in NOT_IN_POLICY}
    spec = schema("", sections)
    spec["properties"]["mig"]["properties"]["strategy"]["enum"] = ["none", "single", "mixed"]
    spec["properties"]["migManager"]["properties"]["config"]["properties"]["default"]["default"] = "all-disabled"
    return {"type": "object", "properties": {"spec": spec}}


def policy_definition(chart: Chart) -> Values:
    names = {"plural": "clusterpolicies", "singular": "clusterpolicy", "kind": "ClusterPolicy"}
    schema = {"openAPIV3Schema": policy_schema(chart)}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusterpolicies.nvidia.com"},
        "spec": {"group": "nvidia.com", "names": names, "scope": "Cluster", "versions": [version]},
    }


def metadata(chart: Chart) -> Values:
    return {
        "apiVersion": "v2",
        "name": chart.name,
        "version": chart.version,
        "appVersion": chart.app_version,
        "description": "Stand-in of gpufleet's lab for NVIDIA's chart",
        "kubeVersion": ">= 1.16.0-0",
    }


def files(chart: Chart) -> t.Dict[str, str]:
    made = {
        "Chart.yaml": yaml.safe_dump(metadata(chart)),
        "values.yaml": yaml.safe_dump(data(chart)[0], sort_keys=False),
        "values.schema.json": json.dumps(values_schema(chart), indent=1),
    }
    for path in sorted((FILES / chart.name).glob("*.tpl")):
        name = path.name if path.name.startswith("_") else path.stem + ".yaml"
        made["templates/" + name] = path.read_text()
    nfd = (FILES / "shared" / "nfd.tpl").read_text()
    for mark, text in (("$ENABLED", chart.nfd), ("$VALUES", 'index .Values "%s"' % chart.subchart), ("$IMAGE", IMAGE)):
        nfd = nfd.replace(mark, text)
    made["templates/node-feature-discovery.yaml"] = nfd
    if chart.name == "gpu-operator":
        made["crds/clusterpolicies.yaml"] = yaml.safe_dump(policy_definition(chart))
    return made


def package(chart: Chart) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, text in files(chart).items():
            entry = tarfile.TarInfo("%s/%s" % (chart.name, name))
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue(), mtime=0)


def prepare() -> None:
    """Build the repositories if they are missing or out of date, and publish them on the lab's web server."""
    sources = sorted(path for path in FILES.rglob("*") if path.is_file())
    wanted = fingerprint(Path(__file__), *sources)
    stamp = BUILT / ".stamp"
    with alone("charts"):
        if not stamp.exists() or stamp.read_text() != wanted:
            shutil.rmtree(BUILT, ignore_errors=True)
            for chart in CHARTS:
                publish(chart)
            stamp.write_text(wanted)
        if not WEB.is_symlink():
            WEB.parent.mkdir(exist_ok=True)
            WEB.symlink_to("../charts")


def publish(chart: Chart) -> None:
    folder = BUILT / chart.repository
    folder.mkdir(parents=True)
    name, content = "%s-%s.tgz" % (chart.name, chart.version), package(chart)
    (folder / name).write_bytes(content)
    entry = {**metadata(chart), "created": CREATED, "digest": hashlib.sha256(content).hexdigest(), "urls": [name]}
    index = {"apiVersion": "v1", "entries": {chart.name: [entry]}, "generated": CREATED}
    (folder / "index.yaml").write_text(yaml.safe_dump(index))
