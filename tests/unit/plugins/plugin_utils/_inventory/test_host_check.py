# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which problems block a run on a host, and which of its roles run their own checks."""

from __future__ import annotations

import typing as t

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import host_check
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory.registry import Selection
from ansible_collections.gpufleet.node.tests.unit.plugins.plugin_utils.facts_support import gpu

ROLES = ["gpu_node", "nvidia_driver", "nvidia_mig"]
LAYOUT = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 7}}]
TOO_MUCH = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 8}}]
BOARDS = ["A100-80GB"]


def check(
    facts: t.Mapping[str, t.Any],
    compares_boards: bool = True,
    preflight: bool = True,
    own_facts: t.Sequence[str] = (),
    **values: t.Any,
) -> host_check.HostCheck:
    roles = Selection(ROLES, ROLES, ROLES, [], [], compares_boards)
    values = {"nvidia_mig_layout": LAYOUT, **values}
    variables = {"inventory_hostname": "a", "ansible_facts": dict.fromkeys(own_facts), **values}
    return host_check.check_host(variables, values, {}, roles, facts, preflight)


def gathered(*gpus: object) -> t.Dict[str, t.Any]:
    return {"ansible_facts": {"nvidia": {"gpus": list(gpus)}}}


def test_a_good_host() -> None:
    found = check(gathered(gpu(0)), gpu_node_boards=BOARDS)
    assert found == ([], [], ["nvidia_driver", "nvidia_mig"])


def test_a_missing_gpu_is_a_problem_or_else_a_warning() -> None:
    words = "the driver shows 1 GPUs, and 2 boards are named in gpu_node_boards"
    for compares_boards in (True, False):
        found = check(gathered(gpu(0)), compares_boards, gpu_node_boards=BOARDS * 2)
        wrong, right = (found.problems, found.warnings) if compares_boards else (found.warnings, found.problems)
        assert [each.startswith(words) for each in wrong] == [True] and right == []
        assert found.roles == ["nvidia_driver", "nvidia_mig"]


def test_before_the_driver_is_installed_no_gpu_may_be_shown() -> None:
    assert check(gathered(), gpu_node_boards=BOARDS).problems == []
    (problem,) = check(gathered(), preflight=False, gpu_node_boards=BOARDS).problems
    assert problem.startswith("the driver shows 0 GPUs, and 1 boards are named")


def test_a_layout_is_not_compared_with_boards_that_the_host_does_not_have() -> None:
    (problem,) = check(gathered(gpu(0)), gpu_node_boards=BOARDS * 2, nvidia_mig_layout=TOO_MUCH).problems
    assert "2 boards are named" in problem


def test_a_role_does_not_repeat_what_its_variables_already_say() -> None:
    found = check(gathered(gpu(0)), gpu_node_boards=BOARDS, nvidia_mig_layout=TOO_MUCH)
    assert len(found.problems) == 1 and found.roles == ["nvidia_driver"]
    # Verification compares the layout with the GPUs, whatever the boards are.
    found = check(gathered(gpu(0)), preflight=False, gpu_node_boards=BOARDS, nvidia_mig_layout=TOO_MUCH)
    assert found.roles == ["nvidia_driver", "nvidia_mig"]
    found = check(gathered(gpu(0)), nvidia_driver_reboot_timeout=-1)
    assert len(found.problems) == 1 and found.roles == ["nvidia_mig"]


def test_boards_that_are_no_boards_are_not_compared() -> None:
    (problem,) = check(gathered(gpu(0)), gpu_node_boards=["A1000"]).problems
    assert "unknown board 'A1000'" in problem and "is named" not in problem


def test_without_facts_only_the_variables_are_checked() -> None:
    for facts, words in (
        ({"failed": True, "msg": "no python"}, "its facts cannot be gathered: no python"),
        (
            {"unreachable": True, "msg": "No route to host."},
            "it cannot be reached: No route to host. To continue without it, set gpu_node_skip to unreachable, or add "
            "--limit '!a'",
        ),
    ):
        found = check(facts, gpu_node_boards=BOARDS * 2)
        assert found == ([words], [], [])


def test_facts_that_replace_variables_are_not_used() -> None:
    found = check(gathered(gpu(0)), own_facts=["rke2_token"], gpu_node_boards=BOARDS * 2)
    (problem,) = found.problems
    assert problem.startswith("the node returns facts with the names of variables") and found.roles == []


def test_without_roles_the_variables_of_gpu_node_are_validated() -> None:
    wrong = {"gpu_node_boards": ["A1000"]}
    for enabled, number in (([], 1), (ROLES, 0)):  # none is enabled, or none is selected
        roles = Selection(enabled, [], [], [], ["is unknown"], False)
        found = host_check.check_host(wrong, wrong, {}, roles, {}, True)
        assert len(found.problems) == 1 + number and found.problems[-1] == "is unknown"
