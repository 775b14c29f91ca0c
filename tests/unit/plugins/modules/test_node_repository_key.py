# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module node_repository_key with a web server and keys generated with gpg only for these tests."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import os
import shutil
import threading
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.common import files, record
from ansible_collections.gpufleet.node.plugins.module_utils._module.keys import repository_key
from ansible_collections.gpufleet.node.plugins.modules import node_repository_key

from .module_support import run

FILES = Path(__file__).resolve().parents[3] / "integration" / "targets" / "node_repository_key" / "files"
KEY = "1082CD0B13E111B631C48F41688C87D898145963"  # as gpg --fingerprint prints it; of renewed.asc too
ROTATED = "F5D5B40589931ABE8B3FE88178F31EBE427D74F4"


class Site:
    """A directory, its URL, and the requests for it."""

    def __init__(self, path, url):
        self.path = path
        self.url = url
        self.requests = []
        self.statuses = []  # of the next responses; 200 afterwards

    def offer(self, *names):
        (self.path / "key").write_bytes(b"".join((FILES / name).read_bytes() for name in names))


class Handler(http.server.SimpleHTTPRequestHandler):
    def __init__(self, site, *arguments):
        self.site = site
        super().__init__(*arguments, directory=str(site.path))

    def do_GET(self):
        self.site.requests.append(self.path)
        status = self.site.statuses.pop(0) if self.site.statuses else 200
        if status == 200:
            super().do_GET()
        else:
            self.send_error(status)

    def log_message(self, *arguments):
        pass


@pytest.fixture(name="site")
def fixture_site(tmp_path, monkeypatch):
    monkeypatch.setattr(repository_key, "PAUSE", 0.0)
    (tmp_path / "www").mkdir()
    site = Site(tmp_path / "www", "")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, site)) as server:
        site.url = "http://127.0.0.1:%d/key" % server.server_port
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        site.offer("key.asc")
        yield site
        server.shutdown()


@pytest.fixture(name="dest")
def fixture_dest(tmp_path):
    return tmp_path / "keyrings" / "vendor.asc"


@pytest.fixture(name="install")
def fixture_install(site, dest):
    def install(check=False, **options):
        given = dict({"fingerprints": [KEY]}, src=site.url, dest=str(dest), role="nvidia_driver")
        return run(node_repository_key.main, check, **dict(given, **options))

    return install


def sha256(name):
    return "sha256:" + hashlib.sha256((FILES / name).read_bytes()).hexdigest()


def identity(path):
    """Return what a rewritten file would change. The time of the last access may change by reading."""
    found = path.stat()
    return found.st_ino, found.st_mode, found.st_mtime_ns


def is_file(dest, name):
    assert dest.read_bytes() == (FILES / name).read_bytes()
    assert (dest.lstat().st_mode, dest.stat().st_uid) == (0o100644, os.geteuid())
    assert list(dest.parent.iterdir()) == [dest]


@pytest.mark.parametrize(
    "options", [{}, {"checksum": sha256("key.asc"), "fingerprints": [ROTATED]}], ids=["fingerprint", "checksum"]
)
def test_create_in_check_mode_and_for_real(install, site, dest, options):
    old = os.umask(0o077)
    try:
        checked = install(check=True, **options)
        assert checked["changed"] and not dest.parent.exists()
        installed = install(**options)
    finally:
        os.umask(old)
    assert installed == checked
    assert installed["fingerprints"] == [KEY]
    is_file(dest, "key.asc")
    assert dest.parent.stat().st_mode & 0o777 == 0o755
    before = identity(dest)
    del site.requests[:]
    for check in (True, False):
        assert not install(check=check, **options)["changed"]
    assert identity(dest) == before
    assert site.requests == []  # a matching key that is installed is not downloaded again


def test_the_diff_shows_fingerprints_and_not_the_key(install, site, dest):
    install()
    site.offer("rotated.asc")
    diff = install(check=True, fingerprints=[ROTATED])["diff"]
    assert "fingerprint: %s\n" % KEY in diff["before"] and "fingerprint: %s\n" % ROTATED in diff["after"]
    assert sha256("rotated.asc").replace(":", ": ") in diff["after"]
    assert "mode: 0644, owner: %d" % os.geteuid() in diff["after"]
    assert "BEGIN PGP" not in str(diff)
    assert diff["before_header"] == str(dest)


@pytest.mark.parametrize("spelling", [KEY.lower(), " ".join(KEY[i : i + 4] for i in range(0, 40, 4)), ":".join(KEY)])
def test_spellings_of_a_fingerprint(install, dest, spelling):
    assert install(fingerprints=[ROTATED, spelling])["changed"]
    is_file(dest, "key.asc")


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    "found, options, words",
    [
        (
            ["rotated.asc"],
            {},
            "is refused: its fingerprint is %s, expected %s. If the repository's owner has announced a new key, set "
            "nvidia_driver_repository_key_fingerprint to it" % (ROTATED, KEY),
        ),
        (["key.asc", "rotated.asc"], {}, "its fingerprint is %s and %s, expected %s." % (KEY, ROTATED, KEY)),
        (
            ["rotated.asc"],
            {"checksum": sha256("renewed.asc")},
            "its checksum is %s, expected %s. If the repository's owner has announced a new key, set "
            "nvidia_driver_repository_key_checksum to it" % (sha256("rotated.asc"), sha256("renewed.asc")),
        ),
        (
            ["key.asc"],
            {"fingerprints": [""]},
            "its fingerprint is %s, and no expected fingerprint is set. Compare it with the one that the repository's owner "
            "publishes, and set nvidia_driver_repository_key_fingerprint" % KEY,
        ),
        (["key.asc"], {"checksum": "md5:" + "0" * 32}, "nvidia_driver_repository_key_checksum is md5:"),
        (["key.asc"], {"checksum": "sha512:" + "0" * 64}, "give sha256: and 64 hexadecimal digits"),
        ([], {}, "it contains no OpenPGP public key. Check nvidia_driver_repository_key"),
    ],
    ids=["rotated", "one too many", "rotated, by checksum", "unknown", "weak checksum", "short checksum", "no key"],
)
def test_a_key_that_does_not_match_is_refused(install, site, dest, check, found, options, words):
    """A rotated, additional, unknown or missing key: the installed key is kept."""
    dest.parent.mkdir()
    shutil.copy(str(FILES / "key.asc"), str(dest))
    before = identity(dest)
    site.offer(*found)
    failed = install(check=check, refresh=True, **options)
    assert failed["failed"] and not failed["changed"]
    assert failed["msg"].startswith("The key %s is refused: " % site.url)
    assert words in failed["msg"]
    assert identity(dest) == before
    assert list(dest.parent.iterdir()) == [dest]


def test_a_renewed_key_is_installed_on_request(install, site, dest):
    install()
    site.offer("renewed.asc")
    assert not install()["changed"]
    assert install(check=True, refresh=True)["changed"]
    is_file(dest, "key.asc")
    assert install(refresh=True)["changed"]
    is_file(dest, "renewed.asc")
    assert not install(refresh=True)["changed"]
    del site.requests[:]
    assert not install(refresh=True, checksum=sha256("renewed.asc"))["changed"]
    assert site.requests == []


@pytest.mark.parametrize("damage", ["text", "empty", "rotated", "dangling link", "link", "mode", "too large"])
def test_damaged_files_are_replaced(install, tmp_path, dest, damage):
    dest.parent.mkdir()
    if damage == "dangling link":
        dest.symlink_to(tmp_path / "missing")
    elif damage == "link":
        shutil.copy(str(FILES / "key.asc"), str(tmp_path / "theirs"))
        dest.symlink_to(tmp_path / "theirs")
    elif damage == "mode":
        shutil.copy(str(FILES / "key.asc"), str(dest))
        dest.chmod(0o600)
    else:
        contents = {"text": b"<html>", "empty": b"", "too large": bytes(repository_key.LIMIT + 2)}
        dest.write_bytes(contents.get(damage, (FILES / "rotated.asc").read_bytes()))
    assert install(check=True)["changed"]
    assert install()["changed"]
    is_file(dest, "key.asc")
    assert not install()["changed"]
    assert not (tmp_path / "missing").exists()


def test_a_directory_in_its_place_is_named(install, dest):
    dest.mkdir(parents=True)
    for check in (True, False):
        failed = install(check=check)
        assert "Cannot install the key as %s: " % dest in failed["msg"] and "Is a directory" in failed["msg"]


@pytest.mark.parametrize("source", ["file", "content"])
def test_other_sources(install, dest, source):
    options = {
        "file": {"src": (FILES / "key.asc").as_uri()},
        "content": {"src": "files/key.asc", "content": base64.b64encode((FILES / "key.asc").read_bytes()).decode()},
    }[source]
    assert install(**options)["changed"]
    is_file(dest, "key.asc")


@pytest.mark.parametrize(
    "statuses, requests, installed",
    [([500, 503], 3, True), ([503, 429, 503], 3, False), ([404], 1, False)],
)
def test_a_server_error_is_retried(install, site, statuses, requests, installed):
    site.statuses = list(statuses)
    result = install()
    assert result["changed"] == installed
    assert len(site.requests) == requests
    if not installed:
        assert result["msg"].startswith("Cannot download the key %s: HTTP Error %d" % (site.url, statuses[-1]))
        assert (
            "needs a mirror in nvidia_driver_repository_url and its key, a URL or a file on the controller, in "
            in result["msg"]
        )
        assert "nvidia_driver_repository_key" in result["msg"]


@pytest.mark.parametrize("status, fails", [(404, True), (403, True), (407, False), (429, False), (503, False)])
def test_check_mode_fails_if_the_server_does_not_have_the_key(install, site, dest, status, fails):
    site.statuses = [status] * 3
    result = install(check=True)
    assert result.get("failed", False) == fails
    assert ("Cannot download the key" in result.get("msg", "")) == fails
    assert not dest.parent.exists()


@pytest.mark.parametrize(
    "url, reason",
    [
        ("http://127.0.0.1:1/key", "[Errno 111] Connection refused"),
        ("https://127.0.0.1:1/key", "[Errno 111] Connection refused"),
        ("nosuch://x/key", "unknown url type: nosuch"),
    ],
)
def test_an_unreachable_server(install, dest, url, reason):
    assert install(src=url)["msg"].startswith("Cannot download the key %s: %s. A node without" % (url, reason))
    # In check mode the result is unknown and reported as such.
    checked = install(check=True, src=url)
    assert checked["changed"] and checked["fingerprints"] == []
    assert "cannot be downloaded now" in str(checked["warnings"]) and "is not verified" in checked["diff"]["after"]
    assert not dest.parent.exists()


def test_an_unreachable_server_and_a_good_key_that_may_have_been_renewed(install, dest):
    install()
    checked = install(check=True, refresh=True, src="http://127.0.0.1:1/key")
    assert not checked["changed"] and "is not verified" in str(checked["warnings"])
    assert install(refresh=True, src="http://127.0.0.1:1/key")["failed"]
    is_file(dest, "key.asc")


def test_files_that_are_too_large_are_refused(install, site, dest):
    (site.path / "key").write_bytes(bytes(repository_key.LIMIT + 1))
    assert "it is larger than 1 MiB" in install()["msg"]
    assert not dest.parent.exists()


def test_concurrent_runs_leave_one_complete_file(site, tmp_path):
    content = (FILES / "key.asc").read_bytes()
    dest = tmp_path / "keyrings" / "vendor.asc"
    threads = [threading.Thread(target=files.write, args=(str(dest), content, 0o644)) for _each in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    is_file(dest, "key.asc")


def test_a_key_known_by_its_checksum_without_version_lines(install, site, dest):
    """The armour has a line with the version of the exporting program, which may change while the key does not."""
    plain = (FILES / "key.asc").read_bytes()
    known = "sha256:" + hashlib.sha256(plain).hexdigest()
    head, _newline, rest = plain.partition(b"\n")
    (site.path / "key").write_bytes(head + b"\nVersion: GnuPG v2\n" + rest)
    options = {"fingerprints": [], "checksum_without_version": known}
    assert install(**options)["changed"] is True
    assert install(**options)["changed"] is False
    site.offer("rotated.asc")
    dest.unlink()
    refused = install(**options)
    assert refused["failed"] is True and not dest.exists()
    assert (
        "its checksum without Version lines is sha256:" in refused["msg"]
        and "nvidia_driver_repository_key_fingerprint" in refused["msg"]
    )


@pytest.fixture(name="recorded")
def fixture_recorded(tmp_path, monkeypatch):
    """Return the role's record, on a node without other roles."""
    monkeypatch.setattr(record, "PATH", str(tmp_path / "facts.d" / "gpufleet.fact"))
    monkeypatch.setattr(record, "LOCK", str(tmp_path / "run" / "record.lock"))
    return lambda: record.read("nvidia_driver")


def test_keys_for_rpm_are_recorded_before_they_are_installed(install, site, dest, recorded, monkeypatch):
    assert install(check=True, rpm=True)["changed"] and recorded() == {}
    with monkeypatch.context() as patch:
        patch.setattr(repository_key, "write", lambda *_given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            install(rpm=True)
    assert recorded() == {"rpm_keys": [KEY]} and not dest.exists()
    assert install(rpm=True)["changed"] and not install(rpm=True)["changed"]
    site.offer("rotated.asc")
    install(rpm=True, fingerprints=[ROTATED])
    assert recorded() == {"rpm_keys": [KEY, ROTATED]}


def test_a_lost_record_is_a_change(install, recorded):
    install(rpm=False)
    assert recorded() == {}
    assert [install(check=check, rpm=True)["changed"] for check in (True, False, True)] == [True, True, False]


def test_recorded_keys(recorded):
    record.update("nvidia_driver", {}, {"rpm_keys": [KEY, "F00; reboot", KEY + "\n"]})
    found = run(node_repository_key.main, role="nvidia_driver", state="recorded")
    assert (found["changed"], found["fingerprints"]) == (False, [KEY])
    assert run(node_repository_key.main, role="rke2", state="recorded")["fingerprints"] == []
