# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module rke2_node: set labels and taints, which RKE2 itself applies only when the node joins.

Other labels and taints are kept, unless they have the same key (and, for taints, the same effect).
"""

from __future__ import annotations

import json
import os
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "name": {"type": "str", "required": True},
        "data_path": {"type": "path", "required": True},
        "kubeconfig": {"type": "path", "required": True},
        "labels": {"type": "list", "elements": "str", "default": []},
        "taints": {"type": "list", "elements": "str", "default": []},
        "former_labels": {"type": "list", "elements": "str", "default": []},
        "former_taints": {"type": "list", "elements": "str", "default": []},
    }
}

_REGISTER = (
    ". A node registers only when RKE2 starts: if somebody deleted it, restart rke2-agent (or rke2-server) on it"
)


class Taint(t.NamedTuple):
    key: str
    value: str
    effect: str


def run(module: AnsibleModule) -> None:
    given = module.params
    program = os.path.join(given["data_path"], "bin", "kubectl")
    access = [program, "--kubeconfig", given["kubeconfig"], "--request-timeout", "30s"]

    def kubectl(*arguments: str) -> str:
        rc, out, err = module.run_command([*access, *arguments])
        if rc != 0:
            remedy = _REGISTER if "not found" in err else ""
            module.fail_json(
                msg="The labels and taints of the node %s cannot be changed: %s%s"
                % (given["name"], err.strip(), remedy),
            )
        return t.cast(str, out)

    node = json.loads(kubectl("get", "--output", "json", "--", "node", given["name"]))
    labels = label_arguments(node["metadata"].get("labels") or {}, given["labels"], given["former_labels"])
    taints = taint_arguments(node["spec"].get("taints") or [], given["taints"], given["former_taints"])
    for command, arguments in (("label", labels), ("taint", taints)):
        if arguments and not module.check_mode:
            kubectl(command, "--overwrite", "--", "node", given["name"], *arguments)
    changes = ["Label %s" % each for each in labels] + ["Taint %s" % each for each in taints]
    prepared = "".join("%s %s\n" % (given["name"], each) for each in changes)
    problem = "Labels or taints differ: %s. Run site.yml --tags rke2" % ", ".join(changes)
    problems = [problem] if changes and module.check_mode else []
    module.exit_json(
        changed=bool(changes), changes=changes, problems=problems, diff={"prepared": prepared} if prepared else {}
    )


def label_arguments(
    current: t.Mapping[str, str], desired: t.Sequence[str], former: t.Sequence[str] = ()
) -> t.List[str]:
    """Arguments of kubectl label: key=value sets a label, key- removes it."""
    values = dict(_pair(each) for each in desired)
    changed = ["%s=%s" % (key, value) for key, value in values.items() if current.get(key) != value]
    gone = [key for key, value in map(_pair, former) if key not in values and current.get(key) == value]
    return sorted(changed) + ["%s-" % key for key in sorted(gone)]


def taint_arguments(
    current: t.Sequence[t.Mapping[str, str]], desired: t.Sequence[str], former: t.Sequence[str] = ()
) -> t.List[str]:
    """Arguments of kubectl taint: key=value:effect sets a taint, key:effect- removes it."""
    present = {Taint(each["key"], each.get("value", ""), each["effect"]) for each in current}
    new = {taint(each) for each in desired}
    kept = {(each.key, each.effect) for each in new}
    gone = {each for each in map(taint, former) if (each.key, each.effect) not in kept} & present
    return ["%s=%s:%s" % each for each in sorted(new - present)] + [
        "%s:%s-" % (each.key, each.effect) for each in sorted(gone)
    ]


def taint(text: str) -> Taint:
    """Parse key=value:effect or key:effect."""
    rest, _colon, effect = text.rpartition(":")
    return Taint(*_pair(rest), effect)


def _pair(text: str) -> t.Tuple[str, str]:
    key, _equals, value = text.partition("=")
    return key, value
