# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs the benchmarks, prints their tables and writes them to .cache/benchmarks.md.

Each part is a function measure(small). With --small, it runs the same code on one or two nodes, in seconds, and nothing
is written: `make test` checks with it that all parts work.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path

import module_cost
import parallel
import planner_speed
import report
import rollout
import site_runs
import transitions
import write_faults

OUTPUT = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks.md"
PARTS = {
    "transitions": transitions.measure,
    "planner": planner_speed.measure,
    "parallel": parallel.measure,
    "faults": write_faults.measure,
    "module": module_cost.measure,
    "site": site_runs.measure,
    "rollout": rollout.measure,
    "report": report.measure,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="smallest size of each part; the figures mean nothing")
    parser.add_argument("parts", nargs="*", metavar="PART", help="which to run: %s (default: all)" % ", ".join(PARTS))
    options = parser.parse_args()
    parts = options.parts or list(PARTS)
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        parser.error("unknown part: %s. Choose from %s" % (", ".join(unknown), ", ".join(PARTS)))
    where = (os.cpu_count() or 0, platform.python_version(), platform.release().split("-")[0])
    texts = [
        "Measured %s on %d cores, Python %s, Linux %s. Compare only figures within one table, because machines differ."
        % (time.strftime("%Y-%m-%d"), *where)
    ]
    print(texts[0], flush=True)
    for part in parts:
        started = time.monotonic()
        print("\n... %s" % part, flush=True)
        texts.append(PARTS[part](options.small))
        print("\n%s\n\n(%.0f s)" % (texts[-1], time.monotonic() - started), flush=True)
    if options.small:
        print("\nRan at the smallest size: %s" % ", ".join(parts))
        return 0
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text("\n\n".join(texts) + "\n")
    print("\nAlso written to %s" % os.path.relpath(OUTPUT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
