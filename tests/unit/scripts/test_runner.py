# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""scripts/test.py stops a part without output, and no other part."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
import yaml

TOP = Path(__file__).resolve().parents[3]
SCRIPT = TOP / "scripts" / "test.py"


@pytest.fixture()
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Any:
    spec = importlib.util.spec_from_file_location("gpufleet_test_runner", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LOGS", tmp_path)
    monkeypatch.setattr(module, "POLL", 0.1)
    monkeypatch.setattr(module, "SILENCE", 2)
    return module


def test_a_part_without_output_is_stopped(runner: t.Any, tmp_path: Path) -> None:
    # A child that holds the log open must be stopped too, as molecule's, which has a session of its own.
    script = "echo start; setsid sleep 600 & echo $! >%s/child; wait" % tmp_path
    result = runner.run(runner.Part("silent", "", ["sh", "-c", script]))
    assert result.verdict == "FAILED"
    assert result.seconds < 60
    assert result.output == "start\n\nstopped: no output for 2 seconds\n"
    assert_ended(tmp_path / "child")


def test_a_run_that_is_ended_stops_its_parts_and_starts_no_others(tmp_path: Path) -> None:
    program = """
import runpy, sys
runner = runpy.run_path({script!r})
first = runner["Part"]("first", "", ["sh", "-c", "setsid sleep 600 & echo $! >{work}/child; wait"])
others = [runner["Part"](name, "", ["touch", "{work}/started"]) for name in ("second", "third")]
main = runner["main"]
main.__globals__.update(PARTS=[first, *others], AT_ONCE=1, LOGS=__import__("pathlib").Path({work!r}))
sys.exit(main([]))
""".format(script=str(SCRIPT), work=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    child = tmp_path / "child"
    while not child.exists() or not child.read_text():
        time.sleep(0.1)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert_ended(child)
    assert not (tmp_path / "started").exists()


def assert_ended(file: Path) -> None:
    """The process whose ID is in the file does not run; on a busy machine, a killed one lives on for a moment."""
    for _attempt in range(100):
        if not alive(int(file.read_text())):
            return
        time.sleep(0.1)
    pytest.fail("a child of the part was not stopped")


def alive(process: int) -> bool:
    try:
        return Path("/proc", str(process), "stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_slow_part_that_makes_progress_is_not_stopped(runner: t.Any) -> None:
    result = runner.run(runner.Part("slow", "", ["sh", "-c", "for i in $(seq 15); do printf .; sleep 0.2; done"]))
    assert (result.verdict, result.output) == ("passed", "." * 15)
    assert result.seconds > runner.SILENCE


@pytest.mark.parametrize("ci, verdict", [("true", "FAILED"), ("", "not run")])
def test_a_skipped_part_fails_only_in_ci(runner: t.Any, monkeypatch: pytest.MonkeyPatch, ci: str, verdict: str) -> None:
    monkeypatch.setenv("CI", ci)
    assert runner.run(runner.Part("skipped", "", ["sh", "-c", "echo no podman; exit 77"])).verdict == verdict


def test_the_errors_of_a_playbook_are_those_of_the_hosts_that_failed(runner: t.Any) -> None:
    log = """\
TASK [expected]
fatal: [node-1]: FAILED! => {"msg": "rescued"}
fatal: [node-2]: FAILED! => {"msg": "rescued too"}
TASK [not expected]
fatal: [node-1 -> localhost]: FAILED! => {"msg": "no disk"}
fatal: [node-3]: FAILED! => {"stdout": "LONG fatal: [node-4]: UNREACHABLE! => {\"msg\": \"LONG"}
ok: [node-2]
PLAY RECAP
node-1 : ok=1    changed=0    unreachable=0    failed=1    skipped=0    rescued=1    ignored=0
node-2 : ok=2    changed=0    unreachable=0    failed=0    skipped=0    rescued=1    ignored=0
node-3 : ok=2    changed=0    unreachable=1    failed=0    skipped=0    rescued=0    ignored=0
""".replace("LONG", "x" * runner.ERROR + "end")
    first, second, third = runner.errors(log).splitlines()
    assert first == 'fatal: [node-1 -> localhost]: FAILED! => {"msg": "no disk"}'
    assert second.startswith('fatal: [node-3]: FAILED! => {"stdout": "xxx')
    assert third.startswith('fatal: [node-4]: UNREACHABLE! => {"msg": "xxx')
    assert len(second) == len(third) == runner.ERROR
    assert runner.errors("a\nb") == "a\nb"


def test_the_errors_of_tests_and_of_the_playbooks_that_they_run(runner: t.Any) -> None:
    log = """\
fatal: [gpu]: FAILED! => {"msg": "Problems: 1
- gpu: no driver"}
gpu : ok=1    changed=0    unreachable=0    failed=1    skipped=0    rescued=0    ignored=0
FAILED test_site.py::test_a_driver - Failed: ansible-playbook ended with status 2
1 failed, 2 passed in 3.00s
"""
    assert runner.errors(log).splitlines() == [
        "FAILED test_site.py::test_a_driver - Failed: ansible-playbook ended with status 2",
        'fatal: [gpu]: FAILED! => {"msg": "Problems: 1',
        '- gpu: no driver"}',
    ]


def test_a_second_run_does_not_remove_the_nodes_of_the_first(runner: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "uses_lab", lambda _parts: True)
    monkeypatch.setattr(runner, "clear_lab", lambda _parts: pytest.fail("it removes the nodes"))
    assert runner.lock_lab()
    assert runner.main(["shell"]) == 2


def test_the_parts_have_different_names(runner: t.Any) -> None:
    names = [part.name for part in (*runner.PARTS, *runner.SHORT)]
    assert len(names) == len(set(names))


def test_the_hosted_workflow_runs_every_part_once(runner: t.Any) -> None:
    workflow = yaml.safe_load((TOP / ".github" / "workflows" / "ci.yml").read_text())
    jobs = workflow["jobs"]["test"]["strategy"]["matrix"]["parts"]
    assert sorted(" ".join(jobs).split()) == sorted(part.name for part in runner.PARTS)
