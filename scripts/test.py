# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run the parts of the test suite, three at a time, and print a summary.

Usage: make test PARTS="PART..."    without a part: all of them

A part is a command. It passes with exit status 0, fails with any other, and is skipped with 77 if the machine lacks
something, which the part's last line names. With CI=true in the environment a skipped part counts as failed. The output
of a part goes to .cache/test/PART.log. Its closing lines are printed, or its end if it fails, and the errors of failed
parts once more above the summary.

The duration of a part is not limited, but one that prints nothing for forty minutes is stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import psutil

TOP = Path(__file__).resolve().parent.parent
CACHE = TOP / ".cache"
BIN = CACHE / "venv" / "bin"
LOGS = CACHE / "test"

AT_ONCE = 3  # scenarios often wait: for services, or pods
LAB = ("scenario-", "execution-environment")  # beginnings of names of parts that use the lab
SILENCE = 40 * 60  # seconds without output, after which a part is stopped; a task that builds Kubernetes prints nothing
POLL = 1.0  # seconds between two checks for output
NOT_HERE = 77
LAST = 3000  # characters of a failed part's output that are printed
ERROR = 500  # and of each of its errors
# Parts whose playbooks take this machine as a node.
NODES = ("integration", "playbooks", "cluster", "cores", "artifact", "bench")

STARTING = threading.Lock()  # held while a part starts, and by a run that ends, so that it starts no further part
# Not in .cache: the paths of sockets in it must be short.
TEMPORARY = tempfile.TemporaryDirectory(prefix="gpufleet-test-", ignore_cleanup_errors=True)
os.chmod(TEMPORARY.name, 0o711)  # tests run programs as other users


class Part(t.NamedTuple):
    name: str
    title: str
    command: t.Sequence[str]
    closing: str = r"^.+$"  # if the part passes, the last lines that match are printed
    closing_lines: int = 1


class Result(t.NamedTuple):
    part: Part
    status: int
    seconds: float
    processor: float  # seconds of all its processes, except those of the lab's nodes
    output: str

    @property
    def verdict(self) -> str:
        if self.status == 0:
            return "passed"
        if self.status == NOT_HERE and os.environ.get("CI") != "true":
            return "not run"
        return "FAILED"


def pytest(*arguments: str) -> t.Sequence[str]:
    return ["python", "-m", "pytest", "-q", *arguments]


PYTEST_CLOSING = r"^(=+ )?\d+ passed.* in "


def scenario(name: str, title: str) -> Part:
    return Part("scenario-" + name, "On nodes of the lab: " + title, ["scripts/scenario", name], r"^\S+ +: ok=", 4)


SIMULATOR = ["make", "-s", "-C", "simulator", "test"]
ANTSIBULL_DOCS = [
    *("antsibull-docs", "lint-collection-docs", "--plugin-docs"),
    *("--validate-collection-refs=self", "--disallow-unknown-collection-refs", "."),
]
# All shell scripts, regardless of their names.
SHELLCHECK = r"""
scripts/files | xargs -0 grep -lsE '^#!.*\bbash$|^# shellcheck shell' | xargs shellcheck --external-sources
"""
REUSE = "scripts/files | xargs -0 reuse lint-file --lines"
CHECK_WORKFLOWS = (
    "check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml"
    " docs/examples/rehearsal/github-actions.yml"
    " && check-jsonschema --builtin-schema vendor.gitlab-ci docs/examples/rehearsal/gitlab-ci.yml"
)

# The longest first, so that the short ones fill the gaps at the end. The first one builds the programs with Go; beside it
# runs one that does not need the lab, because others would wait.
PARTS: t.Sequence[Part] = (
    scenario("gpu_operator", "the GPU operator in a cluster: strategies, owners of MIG, interrupted runs, undo"),
    Part("integration", "Modules and roles on the simulator", ["tests/integration/run"], PYTEST_CLOSING),
    scenario("rke2", "RKE2 from archives and packages: server, agents, upgrade, rejected settings, undo"),
    scenario("machine", "the driver on a virtual machine: DKMS, nouveau, initramfs, boot order"),
    scenario("site", "site.yml on bare machines, undo, and a mirror whose key changes"),
    scenario("device_plugin", "the device plugin in a cluster: a killed installation, a change of strategy, undo"),
    scenario("nvidia_driver", "the driver on three distributions: hold, change of version, undo"),
    scenario("nvidia_mig", "layouts, GPU clients, a kill, boot unit, undo"),
    scenario("failure", "lost nodes, busy GPUs, refused resets, locks, two runs at once"),
    Part("playbooks", "Playbooks on the simulator", ["tests/integration/run", "tests/playbooks"], PYTEST_CLOSING),
    Part("cluster", "Drains on a real API server: every kill, faults", pytest("tests/cluster"), PYTEST_CLOSING),
    scenario("nvidia_container_toolkit", "container toolkit and runtimes"),
    scenario("driver_rpm", "the driver on Enterprise Linux"),
    Part(
        "cores", "Playbooks and plugins on the oldest and newest ansible-core", ["scripts/cores"], r"^ansible-core", 2
    ),
    Part(
        "execution-environment",
        "The execution environment of AWX on a node of the lab: ansible-runner and ansible-navigator",
        ["scripts/execution-environment"],
        PYTEST_CLOSING,
    ),
    Part("artifact", "The artifact: same bytes twice, Galaxy's importer, use", ["scripts/artifact"], PYTEST_CLOSING),
    Part("bench", "Benchmarks, at their smallest size", ["benchmarks/run", "--small"]),
    Part("engine", "Engine tests: every fault, every kill, on the simulator", pytest("tests/engine"), PYTEST_CLOSING),
    Part("sanity", "ansible-test sanity", ["scripts/sanity"]),
    scenario("driver_failure", "failures of driver packages"),
    Part("awx", "AWX: project, definition of the environment, objects of its API", pytest("tests/awx"), PYTEST_CLOSING),
    Part("simulator", "The simulator, as built and under sanitizers", SIMULATOR, PYTEST_CLOSING, 2),
    Part("unit", "Unit tests", pytest("tests/unit"), PYTEST_CLOSING),
    Part("pythons", "Unit tests of module-side code on other Pythons", ["scripts/pythons"], r"^Python", 2),
    Part("ansible-lint", "ansible-lint, profile production", ["ansible-lint", "--offline", "--nocolor"]),
    Part("boot", "The boot restore, on the simulator", ["tests/integration/run", "tests/boot"], PYTEST_CLOSING),
    Part("docs", "Documentation of modules, plugins and roles", ANTSIBULL_DOCS),
    Part("docsite", "The docsite, without a warning", ["python", "scripts/docsite.py"]),
    Part("browser", "The report's page in Chromium", ["scripts/browser"], PYTEST_CLOSING),
    Part("mypy", "Types", ["mypy"]),
    Part("ruff", "Python: format and linter", ["sh", "-c", "ruff format --check . && ruff check ."]),
    Part("shell", "Shell scripts", ["bash", "-c", SHELLCHECK]),
    Part("changelog", "Changelog fragments", ["antsibull-changelog", "lint"]),
    Part("licences", "Licence and copyright of all files", ["bash", "-c", REUSE]),
    Part("workflow", "Workflows of hosted CI", ["bash", "-c", CHECK_WORKFLOWS]),
)

# Shorter forms of the long ones, for `make test-fast`.
SHORT: t.Sequence[Part] = (
    Part(
        "integration-main",
        "Modules and roles on the simulator, main cases",
        ["tests/integration/run", "tests/integration/test_playbook.py"],
        PYTEST_CLOSING,
    ),
    Part(
        "playbooks-main",
        "Playbooks on the simulator, main cases",
        [
            "tests/integration/run",
            "tests/playbooks/test_site.py::test_mig_and_verify_twice",
            "tests/playbooks/test_preflight.py::test_preflight_reports_the_problems_of_all_hosts_and_changes_nothing",
            "tests/playbooks/test_batches.py::test_stops_after_a_failed_canary",
        ],
        PYTEST_CLOSING,
    ),
    Part("simulator-plain", "The simulator, as built", [*SIMULATOR[:-1], "test-plain"], PYTEST_CLOSING),
)


def environment() -> dict[str, str]:
    """The project's tools first on PATH, and no files in the user's home."""
    # With this variable, Python reads programs from a pipe byte by byte: the modules that Ansible runs on this machine.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return {
        **kept,
        "PATH": "%s:%s" % (BIN, os.environ["PATH"]),
        "PYTHONPATH": str(CACHE / "collections"),
        "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
        "ANSIBLE_HOME": str(CACHE / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "NO_COLOR": "1",
        "TMPDIR": TEMPORARY.name,
        # The checkout may belong to another user.
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }


def run(part: Part) -> Result:
    started = time.monotonic()
    path = LOGS / (part.name + ".log")
    with path.open("w") as log:
        with STARTING:
            process = subprocess.Popen(
                part.command,
                cwd=TOP,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only this program, which stops the parts
            )
        status, processor = wait(process.pid, path)
        process.returncode = status
    return Result(part, status, time.monotonic() - started, processor, path.read_text(errors="replace"))


def wait(pid: int, log: Path) -> tuple[int, float]:
    """Wait for a part's process: its status and processor time. Stop it if it no longer writes to its log."""
    size, changed = -1, time.monotonic()
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
        time.sleep(POLL)
        if log.stat().st_size != size:
            size, changed = log.stat().st_size, time.monotonic()
        elif time.monotonic() - changed > SILENCE:
            kill([psutil.Process(pid), *psutil.Process(pid).children(recursive=True)])
            with log.open("a") as file:
                file.write("\nstopped: no output for %d seconds\n" % SILENCE)
            changed = time.monotonic()


def kill(processes: t.Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def apart(parts: t.Sequence[Part]) -> t.Sequence[Part]:
    """The parts. Those in which this machine is a node of playbooks do not see the lab's processes, such as a MIG manager."""
    isolate = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    if not uses_lab(parts) or subprocess.run([*isolate, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return parts
    return [part._replace(command=[*isolate, *part.command]) if part.name in NODES else part for part in parts]


def uses_lab(parts: t.Sequence[Part]) -> bool:
    return os.geteuid() == 0 and any(part.name.startswith(LAB) for part in parts)


def lock_lab() -> bool:
    """Take the lab of this checkout until this process ends. False if another run has it."""
    try:
        fcntl.flock(os.open(LOGS / "lab.lock", os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def clear_lab(parts: t.Sequence[Part]) -> None:
    """Remove the lab's nodes and network, including those of an interrupted run."""
    if uses_lab(parts) and shutil.which("podman"):
        subprocess.run(
            [TOP / "tests/lab/lab", "down"], cwd=TOP, env=environment(), stdin=subprocess.DEVNULL, check=False
        )


def show(result: Result) -> None:
    lines = [line for line in result.output.splitlines() if line.strip()]
    print("\n--- %s: %s, %.0f s" % (result.part.title, result.verdict, result.seconds))
    if result.verdict == "passed":
        lines = [line for line in lines if re.search(result.part.closing, line)][-result.part.closing_lines :]
    elif result.verdict == "not run":
        lines = lines[-1:]
    print("\n".join(lines)[-LAST:], flush=True)


def errors(output: str) -> str:
    """pytest's list of failed tests; of playbooks, the last error of each host that failed, and errors of playbooks in it.

    Without either, the end of the output.
    """
    tests = re.findall(r"^(?:FAILED|ERROR) .*", output, re.MULTILINE)
    hosts = re.findall(r"^(\S+) +: ok=.* (?:unreachable|failed)=[1-9]", output, re.MULTILINE)
    # A message may go on with a list of problems.
    form = r"^(?:fatal|failed): \[%s[] ].*(?:\n- .*)*"
    found = [re.findall(form % re.escape(host), output, re.MULTILINE) for host in hosts]
    lasts = dict.fromkeys(each[-1] for each in found if each)
    split = [re.split(r"(?=(?:fatal|failed): \[)", text)[1:4] for text in lasts]
    return "\n".join([*tests, *(error[:ERROR] for each in split for error in each)]) or output[-LAST:]


def stop(number: int, _frame: t.Any) -> t.NoReturn:
    """On a signal, stop the running parts too, with what they started in other sessions."""
    STARTING.acquire()
    kill(psutil.Process().children(recursive=True))
    TEMPORARY.cleanup()
    os._exit(128 + number)


def main(names: t.Sequence[str]) -> int:
    known = {part.name: part for part in [*PARTS, *SHORT]}
    unknown = [name for name in names if name not in known]
    if unknown:
        print("unknown part: %s. Known parts: %s" % (", ".join(unknown), ", ".join(known)), file=sys.stderr)
        return 2
    parts = [known[name] for name in names] or list(PARTS)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    LOGS.mkdir(parents=True, exist_ok=True)
    if uses_lab(parts) and not lock_lab():
        print("another run of the tests uses the lab of this checkout: wait until it has ended", file=sys.stderr)
        return 2
    print("==> %d parts, %d at a time: %s" % (len(parts), AT_ONCE, ", ".join(part.name for part in parts)), flush=True)
    started = time.monotonic()
    clear_lab(parts)
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for future in as_completed([pool.submit(run, part) for part in apart(parts)]):
            result = future.result()
            results[result.part.name] = result
            show(result)

    clear_lab(parts)

    failed = [result for result in results.values() if result.verdict == "FAILED"]
    for result in failed:
        print("\n--- Errors of: %s\n%s" % (result.part.title, errors(result.output)))
    print("\n==> Summary, %.0f s in all; full output in .cache/test/" % (time.monotonic() - started))
    print("%-8s %8s %8s" % ("", "duration", "processor"))
    for part in parts:
        result = results[part.name]
        print("%-8s %6.0f s %6.0f s  %s" % (result.verdict, result.seconds, result.processor, part.title))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
