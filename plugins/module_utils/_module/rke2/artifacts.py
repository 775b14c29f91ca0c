# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module rke2_artifacts: verify the files of a release against its list of checksums. Changes nothing."""

from __future__ import annotations

import hashlib
import os
import re
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "checksums": {"type": "path", "required": True},
        "files": {"type": "list", "elements": "path", "required": True},
    }
}
_LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(\S+)")
_BLOCK = 1024 * 1024


def run(module: AnsibleModule) -> None:
    source = module.params["checksums"]
    try:
        with open(source, encoding="utf-8") as handle:
            expected = parse(handle.read())
    except FileNotFoundError:
        absent = [{"path": path, "sha256": "", "found": "", "current": False} for path in module.params["files"]]
        module.exit_json(changed=False, files=absent, problems=["%s is missing" % source] if absent else [])
    except (OSError, ValueError) as error:
        module.fail_json(msg="%s cannot be read: %s" % (source, error))
    found = [_file(path, expected) for path in module.params["files"]]
    module.exit_json(changed=False, files=found, problems=artifact_problems(found, source))


def parse(text: str) -> t.Dict[str, str]:
    """Parse the output of sha256sum into checksums by file name."""
    matches = filter(None, map(_LINE.fullmatch, (line.strip() for line in text.splitlines())))
    return {match.group(2): match.group(1).lower() for match in matches}


def artifact_problems(found: t.Iterable[t.Mapping[str, t.Any]], source: str) -> t.List[str]:
    """Files that are missing, not listed, or do not match their checksum."""
    sentences = []
    for each in found:
        name = os.path.basename(each["path"])
        if not each["sha256"]:
            sentences.append(
                "%s does not list %s, so the file cannot be verified. Correct rke2_version, or the names in "
                "rke2_airgap_images" % (source, name)
            )
        elif not each["found"]:
            sentences.append("%s is missing" % each["path"])
        elif not each["current"]:
            sentences.append(
                "%s has the checksum %s, but %s lists %s. The file is damaged or belongs to another version: remove "
                "it, correct the mirror, and run this again" % (each["path"], each["found"], source, each["sha256"])
            )
    return sentences


def _file(path: str, expected: t.Mapping[str, str]) -> t.Dict[str, t.Any]:
    listed = expected.get(os.path.basename(path), "")
    own = checksum(path)
    return {"path": path, "sha256": listed, "found": own, "current": bool(listed) and own == listed}


def checksum(path: str) -> str:
    """The checksum of the file; empty if it is missing."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as handle:
            for block in iter(lambda: handle.read(_BLOCK), b""):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
