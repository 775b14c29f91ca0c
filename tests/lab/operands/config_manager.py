# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the device plugin's config manager: it links the configuration file that the node's label names.

Only a change of the label has an effect, a change of the ConfigMap has none.
"""

from __future__ import annotations

import os
import sys
import typing as t
from pathlib import Path

from .cluster_api import Client, environment, forever, labels_of, say, start
from .resources import Invalid

EMPTY = Path("/dev/null")


def selected(files: t.Collection[str], label: str, default: str) -> str:
    """The name of a file, or an empty string for an empty configuration."""
    name = label or default
    if name and name not in files:  # the default does not replace a missing file
        raise Invalid("specified config %s does not exist" % name)
    return name


def link(target: Path, source: Path) -> bool:
    """Whether the link was missing or pointed to another file."""
    if target.is_symlink():
        if target.resolve() == source.resolve():
            return False
        target.unlink()
    target.symlink_to(source)
    return True


def process(name: str) -> int:
    """The process of a stand-in: its name is that of a script, which Python runs."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")
        except OSError:  # the process has exited
            continue
        if Path(name).name in [Path(word).name for word in words[:3]]:
            return int(path.parent.name)
    raise Invalid("error finding pid: no process found")


def main() -> None:
    start("the device plugin's config manager")
    node, label, client = environment("NODE_NAME"), environment("NODE_LABEL"), Client("config-manager")
    source, target = Path(environment("CONFIG_FILE_SRCDIR")), Path(environment("CONFIG_FILE_DST"))
    default = os.environ.get("DEFAULT_CONFIG", "")
    applied: t.Optional[str] = None  # the label's value

    def update(value: str) -> None:
        files = [path.name for path in source.iterdir() if path.is_file() and not path.name.startswith("..")]
        name = selected(files, value, default)
        if not link(target, source / name if name else EMPTY):
            say("already configured")
            return
        say("updated to config: %s" % (name or "(empty)"))
        if os.environ.get("SEND_SIGNAL") == "true":
            os.kill(process(environment("PROCESS_TO_SIGNAL")), int(environment("SIGNAL")))
            say("sent signal %s to %s" % (os.environ["SIGNAL"], os.environ["PROCESS_TO_SIGNAL"]))

    def step() -> None:
        nonlocal applied
        value = labels_of(client.request("GET", "/api/v1/nodes/" + node)).get(label, "")
        if value != applied:
            say("label %s=%s" % (label, value))
            update(value)
            applied = value
        if os.environ.get("ONESHOT") == "true":
            sys.exit()

    try:
        forever(step)
    except Invalid as problem:
        sys.exit("Error: %s" % problem)
