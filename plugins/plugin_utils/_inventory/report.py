# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The messages of preflight and verify: the problems of all hosts, or of one."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.text import listed

# Prefixes that Ansible adds to an error message.
_PREFIX = re.compile(
    r"Task failed: (Module failed: |Action failed: |.*?The filter plugin '[^']+' failed: |Error [^:]+: )?"
)
# Without root privileges, the driver does not show its GPUs, which causes other problems.
_NO_PERMISSION = "NO_PERMISSION"
_UNCHECKED = "it could not be checked, see above"
_MAX_HOSTS = 20  # hosts with the same problem that are named


def preflight_messages(
    problems: t.Mapping[str, t.Sequence[object] | None], present: t.Sequence[str], stops: bool = True
) -> dict[str, str]:
    """The message of each host that has problems; empty if there are none. None: the host was not checked.

    The first one lists the problems of all hosts. Hosts that are no longer ``present`` in the play cannot fail again; if
    only these have problems, another host fails, because the run must stop. Unless it ``stops``, the hosts are left out.
    """
    message = _of_all(problems)
    if not message:
        return {}
    message = ("Nothing was changed. %s" if stops else "The nodes with problems are left out. %s") % message
    first, *others = [host for host in present if problems[host]] or present[:1]
    return {first: message, **dict.fromkeys(others, "Its problems are in the message of %s" % first)}


def sentences_by_host(problems: t.Mapping[str, t.Sequence[object] | None]) -> dict[str, list[str]]:
    """The problems of each host as text."""
    return {host: [_UNCHECKED] if found is None else sentences(found, host) for host, found in problems.items()}


def _of_all(problems: t.Mapping[str, t.Sequence[object] | None]) -> str:
    hosts: dict[str, list[str]] = {}
    for host, texts in sentences_by_host(problems).items():
        for text in texts:
            hosts.setdefault(text, []).append(host)
    if not hosts:
        return ""
    lines = ["- %s: %s" % (listed(names, ", ", _MAX_HOSTS), _indented(text)) for text, names in hosts.items()]
    return "Problems: %d\n%s" % (len(lines), "\n".join(lines))


def verification_message(host: str, problems: t.Sequence[object]) -> str:
    """The message for the problems of one host; empty if there are none."""
    found = sentences(problems, host)
    lines = [each for each in found if _NO_PERMISSION in each] or found  # without root, others may follow from that
    if not lines:
        return ""
    return "\n".join(["%s does not match the inventory:" % host, *("- %s" % _indented(each) for each in lines)])


def _indented(text: str) -> str:
    """The text of a problem, which comes from a node: no line of it can pass for a problem of another host."""
    return text.replace("\n", "\n  ")


def sentences(problems: t.Sequence[object], host: str) -> list[str]:
    """The problems as text, each once, without the host's name, which those of a cluster have.

    A problem may be the result of a failed task.
    """
    texts = [text for each in problems for text in (_failure(each) if isinstance(each, dict) else [str(each)])]
    return list(dict.fromkeys(text.removeprefix("%s: " % host) for text in texts))


def _failure(result: dict[str, t.Any]) -> list[str]:
    """The errors of a failed task as problems; those of the failed items if it is a loop."""
    results = result.get("results")  # a node may return anything
    items = (
        [each for each in results if isinstance(each, dict) and each.get("failed")] if isinstance(results, list) else []
    )
    texts = [str(each.get("msg") or "a task failed without a message") for each in items or [result]]
    return [_PREFIX.sub("", text, count=1).strip().removesuffix(".") for text in texts]
