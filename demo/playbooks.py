# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs playbooks: the full output goes to the log, and selected events are kept for display."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, NamedTuple, Sequence

import programs
import screen
from screen import DemoError

Event = dict[str, Any]
# Returns the name of the playbook part that an event belongs to; None for the same part as the previous event.
Part = Callable[[Event], str | None]


def no_parts(_event: Event) -> None:
    """Return no name: the playbook is shown as a whole."""


class Run(NamedTuple):
    """The result of a playbook run. callback/demo_events.py writes the events."""

    changes: Sequence[Event]
    failure: str
    recap: dict[str, dict[str, int]]

    def maps(self) -> str:
        """Return the slice maps before and after the change."""
        drawn = [event["diff"] for event in self.changes if "\n+GPU " in event["diff"]]
        return "\n".join(line for line in "".join(drawn).splitlines() if line[:4] in ("-GPU", "+GPU", " GPU"))

    def show(self) -> None:
        """Print the slice maps, if any, and the recap."""
        screen.output(self.maps())
        screen.output(self.recap_lines())

    def recap_lines(self) -> str:
        """Return the recap in Ansible's format."""
        text = "%s : ok=%d  changed=%d  unreachable=%d  failed=%d  skipped=%d"
        keys = ("ok", "changed", "unreachable", "failures", "skipped")
        return "\n".join(text % (host, *(numbers[key] for key in keys)) for host, numbers in self.recap.items())

    def changed(self) -> int:
        return sum(numbers["changed"] for numbers in self.recap.values())


class Follower:
    """Reads events while the playbook runs, and shows its progress."""

    def __init__(self, path: Path, part: Part, wait: screen.Waiting) -> None:
        path.touch()
        self.events: list[Event] = []
        self._stream = path.open(encoding="utf-8")
        self._rest = ""
        self._part, self._wait = part, wait
        self._name, self._ran, self._changes, self._task = "", 0, 0, "Ansible starts"

    def __call__(self) -> None:
        *lines, self._rest = (self._rest + self._stream.read()).split("\n")
        for line in lines:
            self._take(json.loads(line))
        self._wait.show(self._task)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        name = "" if event["kind"] == "recap" else self._part(event)
        if name is not None and name != self._name:
            self._end_part()
            self._name, self._ran, self._changes = name, 0, 0
        self._ran += event["kind"] in ("ok", "changed")
        self._changes += event["kind"] == "changed"
        if event["kind"] == "task":
            self._task = ": ".join(filter(None, [self._name, event["task"].rpartition(" | ")[2]]))

    def _end_part(self) -> None:
        if self._name:
            result = {0: "nothing changed", 1: "1 change"}.get(self._changes, "%d changes" % self._changes)
            self._wait.done("%s: %s" % (self._name, result if self._ran else "skipped"))


def environment(folder: Path, *inventories: Path) -> dict[str, str]:
    """Return an environment with Ansible's defaults, independent of the user's configuration."""
    (folder / "ansible.cfg").touch()
    return {
        **os.environ,
        "PATH": "%s:%s" % (Path(sys.executable).parent, os.environ.get("PATH", os.defpath)),
        "ANSIBLE_CALLBACKS_ENABLED": "demo_events",
        "ANSIBLE_CALLBACK_PLUGINS": str(programs.TOP / "demo/callback"),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_COLLECTIONS_PATH": str(programs.CACHE / "collections"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_INJECT_FACT_VARS": "0",
        "ANSIBLE_INVENTORY": ",".join(map(str, inventories)),
        "ANSIBLE_LOCAL_TEMP": str(folder / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "ssh"),
    }


def run(
    words: Sequence[str], variables: dict[str, str], *, part: Part, expect: int = 0, before: Sequence[str | Path] = ()
) -> Run:
    """Run ansible-playbook; ``before`` is the command prefix that starts it on a node."""
    events = Path(variables["ANSIBLE_HOME"]).parent / "events"
    events.unlink(missing_ok=True)
    with screen.waiting() as wait:
        follower = Follower(events, part, wait)
        status, output = programs.call([*before, *words], {**variables, "DEMO_EVENTS": str(events)}, follower)
    if (status != 0) != (expect != 0):
        raise programs.failure(" ".join(words), status, output)
    failures = [event["message"] for event in follower.events if event["kind"] == "failed"]
    recaps = [event["hosts"] for event in follower.events if event["kind"] == "recap"]
    if not recaps:
        raise DemoError("Ansible printed no recap:\n" + output)
    changes = [event for event in follower.events if event["kind"] == "changed"]
    return Run(changes, failures[-1] if failures else "", recaps[-1])
