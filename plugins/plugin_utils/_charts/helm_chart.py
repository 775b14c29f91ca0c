# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The HelmChart, with which the helm-controller of RKE2 and k3s installs a chart, and the file of the chart."""

from __future__ import annotations

import base64
import hashlib
import json
import typing as t

import yaml

from ...module_utils._common.data import Data
from .inputs import Cluster, Installation
from .objects import OWN, Object, has_object

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # annotation that kubernetes.core.k8s writes too


def helm_chart_object(installation: Installation, values: Data, cluster: Cluster) -> Object:
    """The HelmChart of an installation, with the values of its chart."""
    text = yaml.safe_dump(values, sort_keys=True, default_flow_style=False)
    specified = specification(installation.variables, text, installation.archive)
    definition = {
        "apiVersion": "helm.cattle.io/v1",
        "kind": "HelmChart",
        "metadata": {"name": installation.variables["release"], "namespace": "kube-system", "labels": OWN},
        "spec": specified,
    }
    return Object(definition, installation.chart.role + "_*", is_current(specified, cluster.helm_charts))


def specification(variables: t.Mapping[str, t.Any], values: str, archive: t.Callable[[], bytes]) -> Data:
    """The specification with ``values`` as YAML. It embeds a chart that is a file on the controller."""
    target = {"targetNamespace": variables["namespace"], "valuesContent": values}
    if variables["chart_file"]:
        return {"chartContent": base64.b64encode(archive()).decode(), **target}
    # helm-controller removes empty keys.
    repository = {"repo": variables["repository"]} if variables["repository"] else {}
    return {"chart": variables["chart"], "version": variables["version"], **repository, **target}


def is_current(specified: Data, existing: Data) -> bool:
    """Whether the HelmChart has this specification, and none of the keys of a former one."""
    if not has_object(existing, {"spec": specified}):
        return False
    annotations = existing["resources"][0]["metadata"].get("annotations") or {}
    try:
        return bool(json.loads(annotations[_APPLIED])["spec"] == specified)
    except (KeyError, TypeError, ValueError):
        return False


def wrong_checksum(role: str, variables: t.Mapping[str, t.Any], archive: t.Callable[[], bytes]) -> list[str]:
    """A problem if the chart does not have the checksum that the variables require."""
    expected = variables["chart_checksum"].lower()
    if not expected:
        return []
    if not variables["chart_file"]:
        return ["%s_chart_checksum needs %s_chart_file: download the chart with helm pull" % (role, role)]
    algorithm = expected[:6] if expected.startswith(("sha384:", "sha512:")) else "sha256"
    found = "%s:%s" % (algorithm, hashlib.new(algorithm, archive()).hexdigest())
    text = "%s_chart_file has the checksum %s, and %s_chart_checksum is %s"
    return [text % (role, found, role, expected)] if found != expected else []
