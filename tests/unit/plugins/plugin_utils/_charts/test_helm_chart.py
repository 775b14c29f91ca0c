# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HelmChart, and the file of the chart."""

from __future__ import annotations

import base64
import hashlib
import json
import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import helm_chart
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import OWN

Data = t.Dict[str, t.Any]


def archive() -> bytes:
    return b"archive"


def test_a_chart_of_a_repository() -> None:
    own = {**OWN, "repository": "https://charts.example"}
    assert helm_chart.specification(own, "a: 1", archive) == {
        "chart": "gpu-operator",
        "version": "v26.7.0",
        "repo": "https://charts.example",
        "targetNamespace": "gpu-operator",
        "valuesContent": "a: 1",
    }
    assert "repo" not in helm_chart.specification({**OWN, "repository": ""}, "a: 1", archive)


def test_a_chart_in_a_file() -> None:
    chart = helm_chart.specification({**OWN, "chart_file": "chart.tgz"}, "a: 1", archive)
    assert base64.b64decode(chart["chartContent"]) == b"archive"
    assert sorted(chart) == ["chartContent", "targetNamespace", "valuesContent"]


def test_a_chart_that_is_not_the_expected_one() -> None:
    right = "sha256:" + hashlib.sha256(b"archive").hexdigest()

    def problems(name: str, checksum: str) -> t.List[str]:
        return helm_chart.wrong_checksum("r", {"chart_file": name, "chart_checksum": checksum}, archive)

    assert problems("chart.tgz", "") == problems("chart.tgz", right) == []
    (problem,) = problems("chart.tgz", "sha256:" + "0" * 64)
    assert problem.startswith("r_chart_file has the checksum %s, and r_chart_checksum is" % right)
    (needed,) = problems("", right)
    assert needed.startswith("r_chart_checksum needs r_chart_file")


def test_a_current_helm_chart() -> None:
    def chart(applied: Data, **spec: str) -> Data:
        notes = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": applied})}
        return {"resources": [{"metadata": {"annotations": notes}, "spec": spec}]}

    wanted = {"chart": "a", "version": "1"}
    assert helm_chart.is_current(wanted, chart(wanted, **wanted, added="by the API"))
    assert not helm_chart.is_current(wanted, chart({**wanted, "repo": "r"}, **wanted, repo="r"))
    assert not helm_chart.is_current(wanted, chart(wanted, **{**wanted, "version": "2"}))
    assert not helm_chart.is_current(wanted, {"resources": []})
