# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the job that upgrades the chart's custom resource definition, which Helm itself never does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .cluster_api import ApiError, Client, start

DEFINITION = Path("/definition/clusterpolicies.json")
FOLDER = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"


def main() -> None:
    start("the chart's upgrade of its custom resource definition")
    wanted = json.loads(DEFINITION.read_text())
    try:
        Client("gpu-operator").apply(FOLDER + wanted["metadata"]["name"], wanted)
    except ApiError as problem:
        sys.exit(str(problem))
