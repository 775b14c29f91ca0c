# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line."""

from __future__ import annotations

import signal
import sys
import typing as t
from pathlib import Path

from . import release, settings
from .agent import Agent
from .processes import fatal, info, log, notify, run, stopping
from .server import Server

COMMIT = "0" * 40
USAGE = """NAME:
   rke2 - Rancher Kubernetes Engine 2 (a stand-in of the gpufleet.node lab)

USAGE:
   rke2 [global options] command [command options]

VERSION:
   %s (%s)

COMMANDS:
   server   Run management server
   agent    Run node agent

GLOBAL OPTIONS:
   --help, -h     show help
   --version, -v  print the version
""" % (release.VERSION, COMMIT)
# At shutdown, systemd would otherwise wait for containers and the control plane, which belong to no unit that it stops.
END_UNIT = "gpufleet-lab-rke2-end"
END_PROGRAM = "/opt/gpufleet-lab/bin/stop-rke2"


def main(words: t.Sequence[str]) -> int:
    if not words or words[0] in ("--help", "-h", "help"):
        print(USAGE, end="")
        return 0
    if words[0] in ("--version", "-v"):
        print("rke2 version %s (%s)\nstand-in of the gpufleet.node lab" % (release.VERSION, COMMIT))
        return 0
    if words not in (["server"], ["agent"]):
        print("No help topic for '%s'" % " ".join(words))
        return 3
    return start(words[0])


def start(role: str) -> int:
    try:
        values, skipped = settings.load(role)
        for each in skipped:
            log("warning", "Unknown flag --%s found in config.yaml, skipping\n" % each)
        settings.validate(role, values)
    except settings.SettingsError as problem:
        fatal(str(problem))
    info("Starting rke2 %s%s (%s)" % ("agent " if role == "agent" else "", release.VERSION, COMMIT))
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    if not Path("/run/systemd/transient/%s.service" % END_UNIT).exists():
        run(
            *(
                "systemd-run",
                "--quiet",
                "--unit=" + END_UNIT,
                "--property=Type=oneshot",
                "--remain-after-exit",
                "--no-block",
            ),
            *("--property=ExecStop=" + END_PROGRAM, "/bin/true"),
            check=False,
        )
    if role == "server":
        server = Server(values)
        _running.append(server.agent)
        server.start()
    else:
        agent = Agent(values, False, values["token"], values["server"])
        _running.append(agent)
        agent.start()
        agent.wait_for_node()
    info("rke2 is up and running")
    notify("READY=1")
    while True:
        signal.pause()


_running: t.List[Agent] = []


def interrupted(number: int, _frame: t.Any) -> None:
    if stopping.is_set():
        return
    stopping.set()
    info("Received signal %s: stopping" % signal.Signals(number).name)
    for agent in _running:
        agent.stop()
    sys.exit(0)


def program() -> None:
    sys.exit(main(sys.argv[1:]))
