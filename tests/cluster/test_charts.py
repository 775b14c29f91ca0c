# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Chart values as helm renders them, and as the API completes them with the defaults of their definitions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from gpulab import charts, control_plane, places, programs

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import operator_values, releases
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts.mapping import ValueInputs
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils._charts.charts_support import variables


@pytest.mark.parametrize("version", ["v25.3.4", charts.OPERATOR.version])
@pytest.mark.parametrize("owner", ["host", "operator"])
def test_the_mig_manager_has_no_default_configuration(
    plane: control_plane.ControlPlane, tmp_path: Path, version: str, owner: str
) -> None:
    """The template of release 25.3 has no quotes around the value."""
    chart = charts.OPERATOR._replace(version=version)
    release = releases.release("gpu-operator", chart.version)
    inputs = ValueInputs(variables("gpu_operator", version=chart.version), owner)
    assert operator_values.problems(inputs, release) == []
    (tmp_path / "values.yml").write_text(yaml.safe_dump(operator_values.values(inputs, release)))
    (tmp_path / "chart.tgz").write_bytes(charts.package(chart))
    helm = [str(programs.BUILT / "helm"), "template", "x", str(tmp_path / "chart.tgz")]
    rendered = yaml.safe_load_all(places.call(*helm, "--values", tmp_path / "values.yml"))
    (policy,) = [each for each in rendered if each and each["kind"] == "ClusterPolicy"]
    plane.define(charts.policy_definition(chart))
    dry = ["create", "--dry-run=server", "--output=json", "--filename=-"]
    created = json.loads(plane.kubectl(*dry, given=json.dumps(policy)))
    assert created["spec"]["migManager"]["config"]["default"] == ""
