# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs one of the demos, and removes everything but its log."""

from __future__ import annotations

import fcntl
import signal
import sys
import tempfile
import time
from pathlib import Path

import demo_cluster
import demo_engine
import demo_site
import lab_node
import local_node
import programs
from screen import DemoError


def whole_machine(folder: Path) -> None:
    demo_site.introduce()
    with lab_node.fresh(folder, demo_site.INVENTORY, "--board", "A100-80GB:8") as node:
        node.prepare_containers()
        demo_site.show(node)


def cluster(folder: Path) -> None:
    demo_cluster.introduce()
    with lab_node.fresh(folder, demo_cluster.INVENTORY, "--board", "A100-80GB", "--rke2") as node:
        demo_cluster.show(node)


def engine(folder: Path) -> None:
    demo_engine.show(local_node.LocalNode(folder))


DEMOS = {"site": whole_machine, "cluster": cluster, "engine": engine}


def stop(number: int, _frame: object) -> None:
    """End the demo on a signal with the same cleanup as on an error."""
    raise SystemExit(128 + number)


def main(name: str) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    programs.LOG.parent.mkdir(parents=True, exist_ok=True)
    with programs.LOG.with_name("lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("error: another demo of this checkout is running", file=sys.stderr)
            return 1
        programs.LOG.write_text("")
        with tempfile.TemporaryDirectory(prefix="gpufleet-demo-") as folder:
            return run(name, Path(folder))


def run(name: str, folder: Path) -> int:
    started = time.monotonic()
    try:
        DEMOS[name](folder)
    except DemoError as error:
        print("\nThe demo failed: %s\nAll output is in %s" % (error, programs.LOG), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Everything that the demo created has been removed.", file=sys.stderr)
        return 130
    print("%.0f seconds. Full output: %s" % (time.monotonic() - started, programs.LOG))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
