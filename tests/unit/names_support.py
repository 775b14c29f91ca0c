# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The names that the project defines, for tests of messages and documents: variables with their values, tags, roles."""

from __future__ import annotations

import re

import yaml

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables
from ansible_collections.gpufleet.node.tests.unit.project_support import TOP

SPECIFICATIONS = {
    path.parents[1].name: yaml.safe_load(path.read_text())["argument_specs"]
    for path in TOP.glob("roles/*/meta/argument_specs.yml")
}
OPTIONS = [
    pair
    for entries in SPECIFICATIONS.values()
    for entry in entries.values()
    for pair in entry.get("options", {}).items()
]
CHOICES: dict[str, set[str]] = {name: set() for name, _option in OPTIONS}
for name, option in OPTIONS:
    if option["type"] in ("bool", "str"):
        CHOICES[name].update(["true", "false"] if option["type"] == "bool" else option.get("choices", []))
REGISTRY = yaml.safe_load((TOP / "roles/gpu_node/vars/main.yml").read_text())
TAGS = {"verify", "always", *(row["tag"] for rows in ("", "chart_") for row in REGISTRY["__gpu_node_%srows" % rows])}
# Groups that the playbooks add to the inventory, and prefixes of the variables of repositories.
OTHERS = {"gpu_node_left_out", "gpu_cluster_to_drain", "gpu_cluster_done"}
OTHERS |= {name.removesuffix("_key") for name in CHOICES if name.endswith("_repository_key")}
TASKS = sorted([*TOP.glob("roles/*/[tvh]*/*.yml"), *TOP.glob("playbooks/*.yml")])
# What tasks set for others, or register.
OTHERS |= {
    name for path in TASKS for name in re.findall(r"(?m)^ *(?:(?:register|loop_var): )?(\w+)(?::|$)", path.read_text())
}
NAMES = {
    *(variables.known_variables() | OTHERS),
    *SPECIFICATIONS,
    *(role + "_problems" for role in SPECIFICATIONS),
    *(path.stem for path in TOP.glob("plugins/[mf]*/*.py")),  # modules and filters
}

DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN")
OURS = r"(?<![\w./-])(?:%s)_[a-z0-9_]+" % "|".join(SPECIFICATIONS)
