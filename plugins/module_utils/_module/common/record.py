# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What the collection's roles installed and changed on a node, so that it can be undone.

One file for all roles, in the directory of Ansible's local facts: after fact gathering it is
``ansible_facts['ansible_local']['gpufleet']``, with one entry per role. It is world-readable, and contains no secrets.
"""

from __future__ import annotations

import contextlib
import json
import os
import typing as t

from . import exclusive, files

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

PATH = "/etc/ansible/facts.d/gpufleet.fact"
MODE = 0o644
LOCK = exclusive.RECORD
WAIT = 60.0  # seconds to wait for it

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "role": {"type": "str", "required": True},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "set": {"type": "dict", "default": {}},
        "add": {"type": "dict", "default": {}},
    }
}

Entry = t.Dict[str, t.Any]
Change = t.Callable[[Entry], Entry]


class RecordError(Exception):
    """The record cannot be read or written. The message has the path and the remedy."""


def read(role: str) -> Entry:
    """The role's entry; empty if there is none."""
    return _load().get(role, {})


def update(role: str, set: t.Mapping[str, t.Any], add: t.Mapping[str, t.Iterable[str]]) -> t.Tuple[Entry, Entry]:
    """Replace the keys in ``set``, extend the sorted lists in ``add``; the role's entry before and after."""
    return _change(role, lambda entry: changed(entry, set, add))


def remove(role: str) -> t.Tuple[Entry, Entry]:
    """Remove the role's entry, and the file with its last one; the entry before and after."""
    if not os.path.lexists(PATH):
        return {}, {}
    return _change(role, lambda entry: {})


def changed(entry: Entry, set: t.Mapping[str, t.Any], add: t.Mapping[str, t.Iterable[str]]) -> Entry:
    """The entry with the keys in ``set`` replaced and the lists in ``add`` united with its own."""
    result = dict(entry, **set)
    for key, items in add.items():
        result[key] = sorted({*result.get(key, []), *items})
    return result


def _change(role: str, change: Change) -> t.Tuple[Entry, Entry]:
    with _locked():
        entries = _load()
        before = entries.get(role, {})
        after = change(before)
        if after != before:
            _save({**entries, role: after})
    return before, after


def _load() -> t.Dict[str, Entry]:
    try:
        content = files.read_trusted(PATH)
        entries = {} if content is None else json.loads(content)
    except OSError as error:
        raise RecordError("%s cannot be read: %s%s" % (PATH, error.strerror, files.remedy(error))) from error
    except (ValueError, RecursionError) as error:
        raise _damaged(str(error)) from error
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise _damaged("it is not a mapping of roles")
    return t.cast("t.Dict[str, Entry]", entries)


def _damaged(why: str) -> RecordError:
    return RecordError(
        "%s was not written by this collection, or is damaged (%s). Move it away and run this again; what the roles "
        "installed until then stays when they are undone" % (PATH, why)
    )


def _save(entries: t.Dict[str, Entry]) -> None:
    kept = {role: entry for role, entry in entries.items() if entry}
    try:
        if kept:
            files.write(PATH, (json.dumps(kept, indent=2, sort_keys=True) + "\n").encode(), MODE)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.remove(PATH)
            with contextlib.suppress(OSError):  # the directory has other facts
                os.rmdir(os.path.dirname(PATH))
    except OSError as error:
        raise RecordError("%s cannot be written: %s%s" % (PATH, error.strerror, files.remedy(error))) from error


@contextlib.contextmanager
def _locked() -> t.Iterator[None]:
    """Only one run at a time reads and writes the record."""
    try:
        descriptor = exclusive.acquire(LOCK, WAIT)
    except TimeoutError:
        raise RecordError(
            "%s cannot be written: another run of this collection holds the lock %s for more than %g seconds. Wait for it "
            "to end, and run this again" % (PATH, LOCK, WAIT)
        ) from None
    except OSError as error:
        raise RecordError(
            "%s cannot be written, because %s cannot be opened: %s%s"
            % (PATH, LOCK, error.strerror, files.remedy(error))
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


def run(module: AnsibleModule) -> None:
    """The module node_record."""
    given = module.params
    absent = given["state"] == "absent"
    try:
        if absent and not module.check_mode:
            before, after = remove(given["role"])
        elif (given["set"] or given["add"]) and not module.check_mode:
            before, after = update(given["role"], given["set"], given["add"])
        else:
            before = read(given["role"])
            after = {} if absent else changed(before, given["set"], given["add"])
    except RecordError as error:
        module.fail_json(msg=str(error), changed=False)
    module.exit_json(changed=before != after, record=after)
