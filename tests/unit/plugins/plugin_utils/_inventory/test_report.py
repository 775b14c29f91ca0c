# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The messages of preflight and verify."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import report


def test_there_is_no_message_without_problems() -> None:
    assert report.preflight_messages({"a": [], "b": []}, ["a", "b"]) == {}
    assert report.verification_message("a", []) == ""


def test_one_message_lists_the_problems_of_all_hosts() -> None:
    assert report.preflight_messages({"a": [], "b": ["x", "y"], "c": None, "d": ["z"]}, ["a", "b", "d"]) == {
        "b": "Nothing was changed. Problems: 4\n- b: x\n- b: y\n- c: it could not be checked, see above\n- d: z",
        "d": "Its problems are in the message of b",
    }


def test_the_message_says_that_others_continue() -> None:
    found = report.preflight_messages({"a": [], "b": ["x"]}, ["a", "b"], stops=False)
    assert found == {"b": "The nodes with problems are left out. Problems: 1\n- b: x"}


def test_another_host_fails_if_those_with_problems_have_left_the_play() -> None:
    assert list(report.preflight_messages({"a": None, "b": [], "c": []}, ["b", "c"])) == ["b"]


def test_a_problem_of_several_hosts_is_listed_once() -> None:
    found = report.preflight_messages({"a": ["x"], "b": ["x", "y"]}, ["a", "b"])
    assert found["a"] == "Nothing was changed. Problems: 2\n- a, b: x\n- b: y"
    assert (
        report.preflight_messages({"a": [{"failed": True, "msg": "a: x."}, "x"]}, ["a"])["a"]
        == "Nothing was changed. Problems: 1\n- a: x"
    )
    assert report.sentences(["a: x", "b: x"], "a") == ["x", "b: x"]
    many = report.preflight_messages({"n%d" % number: ["x"] for number in range(100)}, ["n0"])
    assert many["n0"].endswith("n18, n19, and 80 more: x")


def test_a_node_cannot_write_a_problem_of_another_host() -> None:
    assert report.preflight_messages({"a": ["x\n- b: y"]}, ["a"])["a"].splitlines()[1:] == ["- a: x", "  - b: y"]


def test_verify_lists_the_problems_of_one_host() -> None:
    assert report.verification_message("a", ["x", "y", "x"]) == "a does not match the inventory:\n- x\n- y"


def test_without_privileges_only_that_is_reported() -> None:
    assert report.verification_message("a", ["x", "no driver: NO_PERMISSION"]) == (
        "a does not match the inventory:\n- no driver: NO_PERMISSION"
    )


def test_messages_of_failed_tasks_have_no_prefix_and_no_host_name() -> None:
    failed = [
        {"failed": True, "msg": "Task failed: Module failed: no space left"},
        {"failed": True, "msg": "Task failed: Action failed: a: no runtime"},
        {"failed": True, "msg": "Task failed: x.yml: The filter plugin 'n.s.f' failed: wrong"},
        {"failed": True},
    ]
    assert report.sentences(failed, "a") == [
        "no space left",
        "no runtime",
        "wrong",
        "a task failed without a message",
    ]


@pytest.mark.parametrize("results", [5, "x", [5], {"failed": True}])
def test_malformed_results_of_a_node_are_one_problem(results: object) -> None:
    assert report.sentences([{"msg": "x", "results": results}], "a") == ["x"]


def test_deeply_nested_results_of_a_node_are_one_problem() -> None:
    nested: dict[str, object] = {"msg": "x", "failed": True}
    for _level in range(10000):
        nested = {"msg": "y", "failed": True, "results": [nested]}
    assert report.sentences([nested], "a") == ["y"]


def test_a_failed_loop_reports_its_failed_items() -> None:
    loop = {"msg": "One or more items failed", "results": [{"msg": "x", "failed": True}, {"msg": "fine"}, {"msg": "y"}]}
    loop["results"][2]["failed"] = True  # type: ignore[index]
    assert report.sentences([loop], "a") == ["x", "y"]
