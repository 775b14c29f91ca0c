# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import multiprocessing
import os
import signal
import stat

import pytest
from ansible_collections.gpufleet.node.plugins.module_utils._driver.lock import LockError, held


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


def _hold(path, ready):
    with held(path, command="nvidia_mig on node1"):
        ready.set()
        signal.pause()


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_hold, args=(path, ready))
    process.start()
    ready.wait()
    yield process
    process.kill()
    process.join()


def test_second_run_is_refused_and_told_who_holds_the_lock(path, holder):
    with pytest.raises(LockError) as error, held(path, wait=0.01):
        pass
    text = str(error.value)
    assert "PID %d (nvidia_mig on node1), user " % holder.pid in text
    assert path in text
    assert "Run again" in text


def test_waiting_is_announced_once_and_ends_when_the_holder_does(path, holder):
    told = []

    def tell(text):
        told.append(text)
        os.kill(holder.pid, signal.SIGKILL)

    with held(path, wait=60, progress=tell):
        pass
    assert len(told) == 1
    assert "PID %d" % holder.pid in told[0]


def test_a_killed_holder_leaves_a_file_that_means_nothing(path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert os.path.getsize(path) > 0
    with held(path), open(path) as signed:
        assert "PID %d" % os.getpid() in signed.read()


def test_the_signature_goes_with_the_lock(path):
    with held(path):
        assert os.path.getsize(path) > 0
    assert os.path.getsize(path) == 0


def test_an_exception_inside_frees_the_lock(path):
    with pytest.raises(ValueError), held(path):
        raise ValueError
    with held(path):
        pass


def test_check_mode_makes_no_file_and_still_respects_a_holder(path, tmp_path, holder):
    with held(str(tmp_path / "other"), create=False):
        pass
    assert not (tmp_path / "other").exists()
    before = open(path).read()
    with pytest.raises(LockError), held(path, create=False):
        pass
    assert open(path).read() == before


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "name, words",
    [("lock", "not an absolute path"), ("/run/a\0b", "not an absolute path"), ("/no/such/folder/lock", "No such file")],
)
def test_a_path_that_can_hold_no_lock_is_refused_in_check_mode_too(create, name, words):
    with pytest.raises(LockError, match="cannot be opened: " + words), held(name, create=create):
        pass


def test_a_link_is_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.symlink(str(victim), path)
    with pytest.raises(LockError, match="cannot be opened"), held(path):
        pass
    assert victim.read_text() == "precious"


def test_a_file_with_two_names_is_locked_but_not_written(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.link(str(victim), path)
    with held(path):
        pass
    assert victim.read_text() == "precious"


def test_something_else_at_the_path_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(LockError, match="not a regular file"), held(path):
        pass
    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(LockError), held(path):
        pass


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(LockError, match="nowhere/lock cannot be opened: No such file"), held(
        str(tmp_path / "nowhere" / "lock")
    ):
        pass


def test_everybody_can_read_who_holds_it(path):
    with held(path):
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o444 == 0o444


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_works_for_another_user_in_a_shared_directory(tmp_path):
    """Root made the file; another user can only read it, and locks it all the same, and the other way round."""
    shared = tmp_path / "shared"
    shared.mkdir()
    for parent in [shared, *shared.parents][:-1]:
        parent.chmod(parent.stat().st_mode | 0o555)
    shared.chmod(0o1777)
    ours, theirs = str(shared / "ours"), str(shared / "theirs")
    with held(ours):
        pass
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(65534)
            with held(ours), held(theirs):
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with held(theirs), open(theirs) as signed:
        assert "PID %d" % os.getpid() in signed.read()
