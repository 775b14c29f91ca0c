# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the device plugin's MPS control daemon: it reports ready, but there is no MPS, and no limit of memory."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from . import gpus, plugin_config
from .cluster_api import reload_on_hangup, say, start
from .resources import MPS, MPS_READY, Invalid

READY = Path(MPS_READY)
CLIENTS, CLIENTS_BEFORE_VOLTA = 48, 16  # the most that an MPS server supports


def stop() -> None:
    if READY.exists():
        READY.unlink()
    os._exit(0)


def run() -> None:
    config = plugin_config.load(os.environ)
    if READY.exists():
        READY.unlink()
    if config.sharing.strategy == "mps":
        volta = all(gpu.capability >= (7, 5) for gpu in gpus.read().gpus)
        most = CLIENTS if volta else CLIENTS_BEFORE_VOLTA
        for each in config.sharing.resources:
            if each.replicas > most:
                raise Invalid("maximum allowed replicas exceeded: %d > %d" % (each.replicas, most))
            Path(MPS, each.advertised, "pipe").mkdir(parents=True, exist_ok=True)
        Path(MPS, "shm").mkdir(exist_ok=True)
    else:
        say("no devices are configured for MPS sharing: waiting indefinitely")
    READY.touch()
    while True:
        signal.pause()


def main() -> None:
    start("the device plugin's MPS control daemon, without MPS")
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop())
    reload_on_hangup()
    try:
        run()
    except Invalid as problem:
        sys.exit("error starting daemons: %s" % problem)
