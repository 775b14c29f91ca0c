# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_record: it records what a role installed and changed once, even in concurrent runs."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.modules import node_record

from .module_support import cycle, run


@pytest.fixture(name="path", autouse=True)
def fixture_path(monkeypatch, tmp_path):
    path = tmp_path / "facts.d" / "gpufleet.fact"
    monkeypatch.setattr(record, "PATH", str(path))
    monkeypatch.setattr(record, "LOCK", str(tmp_path / "run" / "record.lock"))
    return path


def do(check=False, role="nvidia_driver", **values):
    return run(node_record.main, check=check, role=role, **values)


def test_create_change_and_remove(path):
    for values, after in (
        ({"set": {"version": "580"}, "add": {"held": ["b", "a"]}}, {"version": "580", "held": ["a", "b"]}),
        ({"set": {"version": "595"}, "add": {"held": ["c", "a"]}}, {"version": "595", "held": ["a", "b", "c"]}),
        ({"state": "absent"}, {}),
    ):
        results = cycle(do, lambda: path.exists() and path.read_text(), **values)
        assert [result["record"] for result in results] == [after] * 4
        assert not any("diff" in result for result in results)  # of no interest to a user
    assert not path.exists() and not path.parent.exists()


def test_check_mode_writes_nothing(path):
    assert do(check=True, set={"version": "580"})["changed"]
    assert not path.parent.exists()


def test_fact_gathering_can_read_the_record(path):
    do(set={"version": "580"})
    assert json.loads(path.read_text()) == {"nvidia_driver": {"version": "580"}}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644  # executable files are run by Ansible


def test_roles_do_not_change_the_entries_of_others(path):
    do(set={"version": "580"})
    do(role="rke2", add={"files": ["/etc/rancher"]})
    assert do(state="absent")["changed"]
    assert json.loads(path.read_text()) == {"rke2": {"files": ["/etc/rancher"]}}
    assert do()["record"] == {}
    assert do(role="rke2")["record"] == {"files": ["/etc/rancher"]}


def test_foreign_facts_are_kept(path):
    do(set={"version": "580"})
    (path.parent / "other.fact").write_text("{}")
    do(state="absent")
    assert [each.name for each in path.parent.iterdir()] == ["other.fact"]


def test_concurrent_runs_lose_nothing():
    names = ["package-%02d" % number for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: record.update("nvidia_driver", {}, {"installed": [name]}), names))
    assert record.read("nvidia_driver") == {"installed": names}


def test_a_reader_of_the_facts_directory_cannot_block_the_record(path):
    path.parent.mkdir()
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(record.update, "nvidia_driver", {"version": "580"}, {})
            try:
                assert written.result(timeout=5)
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)
    assert stat.S_IMODE(os.stat(os.path.dirname(record.LOCK)).st_mode) == 0o700


def test_waiting_for_the_lock_is_limited(monkeypatch, tmp_path):
    monkeypatch.setattr(record, "WAIT", 0.2)
    (tmp_path / "run").mkdir(0o700)
    with open(record.LOCK, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        result = do(set={"version": "580"})
    assert result["failed"] and "holds the lock %s for more than 0.2 seconds" % record.LOCK in result["msg"]


def test_only_root_can_write_the_record(monkeypatch, path):
    def refuse(*_given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    result = do(set={"version": "580"})
    assert result["failed"] and result["msg"].endswith("Permission denied. Run as root (become: true)")
    assert str(path) in result["msg"]


@pytest.mark.parametrize("content", ["", '{"nvidia_driver": {', "[]", '{"nvidia_driver": []}', "\0", "[" * 100000])
def test_a_damaged_record_is_refused_and_kept(path, content):
    path.parent.mkdir()
    path.write_text(content)
    for values in ({}, {"set": {"version": "580"}}, {"state": "absent"}):
        result = do(**values)
        assert result["failed"] and str(path) in result["msg"] and "Move it away" in result["msg"]
    assert path.read_text() == content


@pytest.mark.parametrize("forge", [lambda path: path.chmod(0o666), lambda path: path.rename(path.parent / "linked")])
def test_a_record_that_another_user_may_have_written_is_refused(path, forge):
    do(set={"version": "580"})
    forge(path)
    if not path.exists():
        path.symlink_to("linked")
    for state in ("present", "absent"):
        assert str(path) in do(state=state)["msg"]
