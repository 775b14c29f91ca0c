# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module node_repository_key: a repository's key is verified before it is installed."""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import http.client
import os
import re
import stat
import time
import typing as t

from ansible.module_utils import urls

from ..common import record
from ..common.files import remedy, write
from . import openpgp

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "role": {"type": "str", "required": True},
        "state": {"type": "str", "default": "present", "choices": ["present", "recorded"]},
        "src": {"type": "str"},
        "content": {"type": "str", "no_log": True},  # long, and useless in a log
        "dest": {"type": "path"},
        "fingerprints": {"type": "list", "elements": "str", "default": []},
        "checksum": {"type": "str", "default": ""},
        "checksum_without_version": {"type": "str", "default": ""},
        "refresh": {"type": "bool", "default": False},
        "timeout": {"type": "int", "default": 10},
        "rpm": {"type": "bool", "default": False},
    },
    "required_if": [("state", "present", ("src", "dest"))],
}
MODE = 0o644
LIMIT = 1024 * 1024  # bytes; the vendor's keys have two thousand
ATTEMPTS = 3
PAUSE = 2.0  # seconds between attempts
TRANSIENT = (407, 408, 429)  # from 400 to 499, the statuses that another network or time may change

_CHECKSUM = re.compile("(sha256|sha384|sha512):([0-9a-f]+)")
_FINGERPRINT = re.compile("[0-9A-F]{40}")
_RECORDED = "rpm_keys"


class Refused(Exception):
    """The key does not match, or nothing to compare it with is given. The message has the reason and the remedy."""


class Unavailable(Exception):
    """The key could not be downloaded."""


class Missing(Unavailable):
    """The server has answered that it does not give the key."""


class Expected(t.NamedTuple):
    """Which key is trusted: by the checksum of its file, else by its fingerprint."""

    fingerprints: t.Collection[str]
    checksum: str  # algorithm:digits
    variables: str  # prefix of the role variables
    checksum_without_version: str = ""  # of the file without the armour's Version lines

    def check(self, content: bytes) -> None:
        """Raise Refused unless the file is the expected one, or contains expected keys and no others."""
        if self.checksum:
            algorithm = self.checksum.split(":", maxsplit=1)[0]
            found = "%s:%s" % (algorithm, hashlib.new(algorithm, content).hexdigest())
            if found != self.checksum:
                raise Refused(self._mismatch("checksum", found, self.checksum))
            return
        try:
            fingerprints = openpgp.fingerprints(content)
        except openpgp.KeyFileError as error:
            raise Refused("%s. Check %s_key" % (error, self.variables)) from error
        if self.fingerprints:
            if not set(fingerprints) <= set(self.fingerprints):
                raise Refused(self._mismatch("fingerprint", " and ".join(fingerprints), " or ".join(self.fingerprints)))
        elif self.checksum_without_version:
            lines = [line for line in content.splitlines(keepends=True) if not line.startswith(b"Version")]
            found = "sha256:%s" % hashlib.sha256(b"".join(lines)).hexdigest()
            if found != self.checksum_without_version:
                raise Refused(
                    "its checksum without Version lines is %s, expected %s, and its fingerprint is %s. If the repository's "
                    "owner publishes this fingerprint, set %s_key_fingerprint to it"
                    % (found, self.checksum_without_version, " and ".join(fingerprints), self.variables)
                )
        else:
            raise Refused(
                "its fingerprint is %s, and no expected fingerprint is set. Compare it with the one that the repository's "
                "owner publishes, and set %s_key_fingerprint" % (" and ".join(fingerprints), self.variables)
            )

    def accepts(self, content: bytes) -> bool:
        try:
            self.check(content)
        except Refused:
            return False
        return True

    def _mismatch(self, what: str, found: str, expected: str) -> str:
        return (
            "its %s is %s, expected %s. If the repository's owner has announced a new key, set %s_key_%s to its %s; "
            "otherwise do not trust this repository or mirror" % (what, found, expected, self.variables, what, what)
        )


def expected(
    fingerprints: t.Iterable[str], checksum: str, variables: str, checksum_without_version: str = ""
) -> Expected:
    checksum = checksum.strip().lower()
    if checksum:
        match = _CHECKSUM.fullmatch(checksum)
        if not match or len(match.group(2)) != 2 * hashlib.new(match.group(1)).digest_size:
            raise Refused("%s_key_checksum is %s: give sha256: and 64 hexadecimal digits" % (variables, checksum))
    spelt = (re.sub("[ :]", "", each).upper() for each in fingerprints)
    return Expected(sorted(filter(None, spelt)), checksum, variables, checksum_without_version.strip().lower())


class Installed(t.NamedTuple):
    """The current or desired state of a file."""

    content: t.Optional[bytes]  # None: there is no regular file
    attributes: t.Optional[t.Tuple[int, int, int]]  # mode, owner and group

    def fingerprints(self) -> t.List[str]:
        """Empty if the file has no OpenPGP keys, or only keys that a checksum must verify."""
        try:
            return openpgp.fingerprints(self.content or b"")
        except openpgp.KeyFileError:
            return []

    def describe(self) -> str:
        """For the diff, without the key itself."""
        if self.content is None or self.attributes is None:
            return ""
        lines = ["fingerprint: %s" % (" ".join(self.fingerprints()) or "unknown")]
        lines.append("sha256: %s" % hashlib.sha256(self.content).hexdigest())
        lines.append("mode: %04o, owner: %d, group: %d" % self.attributes)
        return "".join(line + "\n" for line in lines)


def read(path: str) -> Installed:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return Installed(None, None)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(found.st_mode):  # replaced, like a link, whose target does not belong to the role
        return Installed(None, None)
    with open(path, "rb") as handle:
        return Installed(handle.read(LIMIT + 1), (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid))


def download(url: str, timeout: int) -> bytes:
    attempts = 0
    while True:
        try:
            with contextlib.closing(urls.open_url(url, timeout=timeout, http_agent="ansible-httpget")) as response:
                return t.cast(bytes, response.read(LIMIT + 1))
        except (OSError, http.client.HTTPException, urls.ConnectionError, ValueError) as error:
            attempts += 1
            reason = re.sub(r"^<\w+ error (.*)>$", r"\1", str(error))
            code = getattr(error, "code", 0)
            if 400 <= code < 500 and code not in TRANSIENT:
                raise Missing(reason) from error
            if attempts == ATTEMPTS:
                raise Unavailable(reason) from error
        time.sleep(PAUSE)


def run(module: AnsibleModule) -> None:
    try:
        if module.params["state"] == "recorded":
            keys = map(str, record.read(module.params["role"]).get(_RECORDED, []))
            module.exit_json(changed=False, fingerprints=list(filter(_FINGERPRINT.fullmatch, keys)))
        _install(module)
    except record.RecordError as error:
        module.fail_json(msg=str(error), changed=False)


def _install(module: AnsibleModule) -> None:
    given = module.params
    dest, variables = given["dest"], _variables(module)
    try:
        trusted = expected(given["fingerprints"], given["checksum"], variables, given["checksum_without_version"])
        before = read(dest)
        content = before.content
        accepted = content is not None and trusted.accepts(content)
        if content is None or not accepted or (given["refresh"] and not trusted.checksum):
            content = _obtain(module, before, not accepted)
            trusted.check(content)
        after = Installed(content, (MODE, os.geteuid(), os.getegid()))
        recorded = given["rpm"] and _record(module, after.fingerprints())
        if before != after and not module.check_mode:
            write(dest, content, MODE)
    except Refused as error:
        module.fail_json(msg="The key %s is refused: %s" % (given["src"], error), changed=False)
    except Unavailable as error:
        module.fail_json(
            msg="Cannot download the key %s: %s. A node without access to that address needs a mirror in %s_url and its key, "
            "a URL or a file on the controller, in %s_key" % (given["src"], error, variables, variables),
            changed=False,
        )
    except OSError as error:
        module.fail_json(msg="Cannot install the key as %s: %s%s" % (dest, error, remedy(error)), changed=False)
    _exit(module, before, recorded or before != after, after.fingerprints(), after.describe())


def _variables(module: AnsibleModule) -> str:
    """The prefix of the role's variables that messages name."""
    return "%s_repository" % module.params["role"]


def _record(module: AnsibleModule, fingerprints: t.List[str]) -> bool:
    """Record that rpm trusts these keys, before it does: an interrupted run must not leave one that undo does not name.

    Returns whether the record changes.
    """
    role, add = module.params["role"], {_RECORDED: fingerprints}
    before = record.read(role)
    if record.changed(before, {}, add) == before:
        return False
    if not module.check_mode:
        record.update(role, {}, add)
    return True


def _obtain(module: AnsibleModule, before: Installed, changed: bool) -> bytes:
    """The key that is offered now. In check mode, ends the module if the server does not answer."""
    if module.params["content"] is not None:
        content = base64.b64decode(module.params["content"])
    else:
        try:
            content = download(module.params["src"], module.params["timeout"])
        except Unavailable as error:
            if isinstance(error, Missing) or not module.check_mode:
                raise
            unknown = "The key %s cannot be downloaded now (%s), so it is not verified" % (module.params["src"], error)
            module.warn(unknown)
            _exit(module, before, changed, [], unknown + "\n")
    if len(content) > LIMIT:
        raise Refused("it is larger than 1 MiB, which no key is. Check %s_key" % _variables(module))
    return content


def _exit(module: AnsibleModule, before: Installed, changed: bool, fingerprints: t.List[str], after: str) -> t.NoReturn:
    dest = module.params["dest"]
    diff = {"before_header": dest, "after_header": dest, "before": before.describe(), "after": after}
    module.exit_json(changed=changed, fingerprints=fingerprints, diff=diff)
    raise AssertionError
