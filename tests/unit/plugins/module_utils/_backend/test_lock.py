# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import errno
import multiprocessing
import os
import pathlib
import signal
import stat
import tempfile

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import lock
from ansible_collections.gpufleet.node.plugins.module_utils._backend.lock import LockError, locked


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "lock")


def _hold(path, ready):
    with locked(path, command="nvidia_mig on node1"):
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


def test_a_second_run_is_refused_with_the_holder_of_the_lock(path, holder):
    with pytest.raises(LockError) as error, locked(path, wait=0.01):
        pass
    text = str(error.value)
    assert "PID %d (nvidia_mig on node1), user " % holder.pid in text
    assert path in text
    assert "Run again" in text


def test_a_file_with_other_content_is_not_emptied(path):
    """Its path may be a mistake, and the module runs as root."""
    with open(path, "w", encoding="utf-8") as handle:
        handle.write("root:x:0:0:root:/root:/bin/bash\n")
    with lock.locked(path, 0, command="a test"):
        pass
    with open(path, encoding="utf-8") as handle:
        assert handle.read() == "root:x:0:0:root:/root:/bin/bash\n"


def test_waiting_is_reported_once_and_ends_with_the_holder(path, holder):
    messages = []

    def report(text):
        messages.append(text)
        os.kill(holder.pid, signal.SIGKILL)

    with locked(path, wait=60, progress=report):
        pass
    assert len(messages) == 1
    assert "PID %d" % holder.pid in messages[0]


def test_the_file_of_a_killed_holder_is_ignored(path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    assert os.path.getsize(path) > 0
    with locked(path), open(path) as signed:
        assert "PID %d" % os.getpid() in signed.read()


def test_the_signature_is_removed_with_the_lock(path):
    with locked(path):
        assert os.path.getsize(path) > 0
    assert os.path.getsize(path) == 0


def test_an_exception_releases_the_lock(path):
    with pytest.raises(ValueError), locked(path):
        raise ValueError
    with locked(path):
        pass


def test_check_mode_creates_no_file_and_respects_a_holder(path, tmp_path, holder):
    with locked(str(tmp_path / "other"), create=False):
        pass
    assert not (tmp_path / "other").exists()
    before = open(path).read()
    with pytest.raises(LockError), locked(path, create=False):
        pass
    assert open(path).read() == before


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "name, words",
    [("lock", "not an absolute path"), ("/run/a\0b", "not an absolute path"), ("/no/such/folder/lock", "No such file")],
)
def test_an_unusable_path_is_refused_in_check_mode_too(create, name, words):
    with pytest.raises(LockError, match="cannot be opened: " + words), locked(name, create=create):
        pass


def test_a_link_is_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.symlink(str(victim), path)
    with pytest.raises(LockError, match="cannot be opened"), locked(path):
        pass
    assert victim.read_text() == "precious"


def test_a_file_with_two_names_is_locked_but_not_written(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.link(str(victim), path)
    with locked(path):
        pass
    assert victim.read_text() == "precious"


def test_something_else_at_the_path_is_refused(path):
    os.mkfifo(path)
    with pytest.raises(LockError, match="not a regular file"), locked(path):
        pass
    os.unlink(path)
    os.mkdir(path)
    with pytest.raises(LockError), locked(path):
        pass


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(LockError, match="nowhere/lock cannot be opened: No such file"), locked(
        str(tmp_path / "nowhere" / "lock")
    ):
        pass


# --- the directory of the default


@pytest.fixture(name="directory")
def fixture_directory(tmp_path, monkeypatch):
    """The replacement for /run/gpufleet."""
    monkeypatch.setattr(lock, "DIRECTORY", str(tmp_path / "gpufleet"))
    return tmp_path / "gpufleet"


@pytest.fixture(name="open_directory")
def fixture_open_directory(monkeypatch):
    """The same for other users. They cannot enter pytest's own directory, which each start of pytest closes."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(lock, "DIRECTORY", os.path.join(folder, "gpufleet"))
        yield pathlib.Path(folder) / "gpufleet"


def test_the_default_is_in_a_separate_directory():
    assert lock.DEFAULT_PATH == "/run/gpufleet/nvidia-mig.lock"
    assert lock.DIRECTORY == "/run/gpufleet"


def test_the_default_directory_is_only_accessible_to_its_owner(directory):
    previous = os.umask(0)
    try:
        for _run in range(2):
            with locked(str(directory / "lock")):
                assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    finally:
        os.umask(previous)


def test_check_mode_does_not_create_it_and_respects_a_holder_in_it(directory):
    path = str(directory / "lock")
    with locked(path, create=False):
        assert not directory.exists()
    with locked(path):
        with pytest.raises(LockError, match="Another run"), locked(path, create=False):
            pass
    assert [entry.name for entry in directory.iterdir()] == ["lock"]


def test_two_runs_may_create_it_at_the_same_time(directory, monkeypatch):
    make = os.mkdir

    def beaten(path, mode):
        make(path, mode)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", beaten)
    with locked(str(directory / "lock")):
        pass


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o1777])
def test_a_directory_that_other_users_can_access_is_refused(directory, create, mode):
    directory.mkdir()
    directory.chmod(mode)
    words = "gpufleet is open to other users, with mode %04o. " % mode
    for path in ("%s/lock", "%s/../gpufleet//lock"):
        with pytest.raises(LockError, match=words), locked(path % directory, create=create):
            pass
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("create", [True, False])
def test_a_link_or_a_file_instead_of_the_directory_is_refused(directory, tmp_path, create):
    (tmp_path / "elsewhere").mkdir(0o700)
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockError, match="gpufleet is not a directory"), locked(str(directory / "lock"), create=create):
        pass
    directory.unlink()
    directory.touch()
    with pytest.raises(LockError, match="gpufleet is not a directory"), locked(str(directory / "lock"), create=create):
        pass


@pytest.mark.parametrize("create", [True, False])
def test_a_directory_of_another_user_is_refused(directory, monkeypatch, create):
    directory.mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    other = os.stat_result((stat.S_IFDIR | 0o700, 1, 1, 2, 1234, 1234, 0, 0, 0, 0))
    monkeypatch.setattr(os, "lstat", lambda path: other)
    words = "belongs to the user with the id 1234. Remove it while no run is in progress"
    with pytest.raises(LockError, match=words), locked(str(directory / "lock"), create=create):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_without_root_the_default_is_refused(open_directory, create, exists):
    """Check mode too: it cannot detect whether another run holds the lock, and a real run would fail."""
    for parent in list(open_directory.parents)[:-1]:
        parent.chmod(parent.stat().st_mode | 0o555)
    if exists:
        with locked(str(open_directory / "lock")):
            pass
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            os.setuid(65534)
            with locked(str(open_directory / "lock"), create=create):
                os.write(writing, b"taken")
        except LockError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.wait()
    message = os.read(reading, 10000).decode()
    assert ("belongs to the user with the id 0" if exists else "Permission denied") in message
    assert "Run as root" in message


# --- a read-only file system


def _read_only(monkeypatch, directory):
    """Simulate a read-only file system below the directory."""
    real_open, real_access, real_statvfs = os.open, os.access, os.statvfs

    def below(path):
        return str(path).startswith(str(directory))

    def open_(path, flags, *mode):
        if below(path) and flags & (os.O_WRONLY | os.O_RDWR) and (os.path.exists(path) or flags & os.O_CREAT):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real_open(path, flags, *mode)

    def mkdir(path, mode):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    class Flags:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(os, "open", open_)
    monkeypatch.setattr(os, "mkdir", mkdir)
    monkeypatch.setattr(os, "access", lambda path, mode: not below(path) and real_access(path, mode))
    monkeypatch.setattr(os, "statvfs", lambda path: Flags if below(path) else real_statvfs(path))


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("place", ["gpufleet/lock", "lock"])
def test_a_read_only_file_system_is_named(directory, tmp_path, monkeypatch, create, place):
    _read_only(monkeypatch, tmp_path)
    words = "lock cannot be opened: its file system is read-only. Make the file system writable"
    with pytest.raises(LockError, match=words), locked(str(tmp_path / place), create=create):
        pass


def test_a_lock_file_on_a_read_only_file_system_can_be_held(path, tmp_path, monkeypatch):
    with locked(path):
        pass
    _read_only(monkeypatch, tmp_path)
    with locked(path):
        with pytest.raises(LockError, match="Another run"), locked(path):
            pass


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_check_mode_is_refused_where_a_run_could_not_create_the_file(tmp_path):
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:-1]:
        parent.chmod(parent.stat().st_mode | 0o555)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(65534)
            with locked(str(tmp_path / "lock"), create=False):
                pass
        except LockError as error:
            status = 0 if "Permission denied. Run as root" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_the_holder_is_readable_for_all_users(path):
    with locked(path):
        assert stat.S_IMODE(os.stat(path).st_mode) & 0o444 == 0o444


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_works_for_another_user_in_a_shared_directory(tmp_path):
    """Another user can lock the file that root created, although they can only read it, and vice versa."""
    shared = tmp_path / "shared"
    shared.mkdir()
    for parent in [shared, *shared.parents][:-1]:
        parent.chmod(parent.stat().st_mode | 0o555)
    shared.chmod(0o1777)
    ours, theirs = str(shared / "ours"), str(shared / "theirs")
    with locked(ours):
        pass
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(65534)
            with locked(ours), locked(theirs):
                status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    with locked(theirs), open(theirs) as signed:
        assert "PID %d" % os.getpid() in signed.read()
