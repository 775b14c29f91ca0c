# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages, processes, and systemd's notification."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import typing as t
from pathlib import Path

RECORDS = Path("/run/k3s/standin")
_lock = threading.Lock()


def log(level: str, message: str) -> None:
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    quoted = message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    with _lock:
        print('time="%s" level=%s msg="%s"' % (now, level, quoted), file=sys.stderr, flush=True)


def info(message: str) -> None:
    log("info", message)


def fatal(message: str) -> t.NoReturn:
    """End the program, from any thread."""
    log("fatal", message)
    os._exit(1)


def run(*words: t.Union[str, Path], check: bool = True, **options: t.Any) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [str(word) for word in words],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
        **options,
    )
    if check and done.returncode:
        raise OSError("%s: %s" % (" ".join(map(str, words[:3])), (done.stderr or done.stdout).strip()[-1000:]))
    return done


def notify(text: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + address[1:] if address.startswith("@") else address)
            sender.send(text.encode())


def environment(path: str) -> t.Dict[str, str]:
    """For child processes, which must not notify systemd in our place."""
    kept = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
    return {**kept, "PATH": path}


class Child:
    """A program that ends with this one: containerd, kubelet. Start it from the main thread."""

    def __init__(self, name: str, words: t.Sequence[str], path: str, logfile: Path) -> None:
        self.name = name
        logfile.parent.mkdir(parents=True, exist_ok=True)
        info("Running %s %s" % (name, " ".join(words[1:])))
        with logfile.open("a") as stream:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *words],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment(path),
            )
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        status = self.process.wait()
        reason = "signal: %s" % signal.strsignal(-status) if status < 0 else "exit status %d" % status
        if not stopping.is_set():
            log("error", "%s exited: %s" % (self.name, reason))
            os._exit(1)

    def stop(self) -> None:
        self.process.terminate()
        for _attempt in range(100):
            if self.process.poll() is not None:
                return
            time.sleep(0.1)
        self.process.kill()


stopping = threading.Event()


class Daemon:
    """A program of the control plane. Like rke2's static pods, it survives a restart of the unit."""

    def __init__(self, name: str, words: t.Sequence[str], path: str, logs: Path) -> None:
        self.name, self.words, self.path = name, list(words), path
        self.logfile = logs / (name + ".log")
        self.record = RECORDS / (name + ".pid")
        self.process: t.Optional["subprocess.Popen[bytes]"] = None

    def pid(self) -> int:
        """The process of this or an earlier start, with any arguments; 0 if there is none."""
        if self.process:
            # A new process briefly has no command line.
            return self.process.pid if self.process.poll() is None else 0
        try:
            number = int(self.record.read_text())
            program = Path("/proc/%d/cmdline" % number).read_text().split("\0")[0]
        except (OSError, ValueError):
            return 0
        return number if os.path.basename(program) == os.path.basename(self.words[0]) else 0

    def ensure(self) -> None:
        """Start the program if it does not run, and restart it if it runs with other arguments."""
        number = self.pid()
        if number and self.process:
            return
        if number:
            if Path("/proc/%d/cmdline" % number).read_text().split("\0")[:-1] == self.words:
                return
            stop(number)
        self.logfile.parent.mkdir(parents=True, exist_ok=True)
        RECORDS.mkdir(parents=True, exist_ok=True)
        info("Running %s %s" % (self.name, " ".join(self.words[1:])))
        with self.logfile.open("a") as stream:
            self.process = subprocess.Popen(
                self.words,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment(self.path),
                start_new_session=True,
            )
        self.record.write_text(str(self.process.pid))

    def stop(self) -> None:
        number = self.pid()
        if number:
            stop(number)
        self.process = None
        if self.record.exists():
            self.record.unlink()


def stop(number: int) -> None:
    """Terminate a process and wait for its end."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(number, sent)
        except ProcessLookupError:
            return
        for _attempt in range(100):
            if ended(number):
                return
            time.sleep(0.1)


def ended(number: int) -> bool:
    try:
        state = Path("/proc/%d/stat" % number).read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def repeat(what: t.Callable[[], None], seconds: float) -> threading.Thread:
    """Call a function repeatedly in the background; log its errors."""

    def loop() -> None:
        while not stopping.is_set():
            try:
                what()
            except Exception as problem:
                log("warning", "%s: %s" % (what.__name__, problem))
            stopping.wait(seconds)

    thread = threading.Thread(target=loop, daemon=True)
    thread.start()
    return thread
