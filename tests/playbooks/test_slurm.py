# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes that the task files in docs/slurm.md drain and return, with simulated programs of Slurm."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.tests.playbooks.conftest import PLAYBOOKS, TOP, Fleet, Run

SITE = PLAYBOOKS / "site.yml"
MIG = PLAYBOOKS / "mig.yml"
SMALL = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 2}}]
MORE = [{"devices": "all", "mig_enabled": True, "mig_devices": {"1g.10gb": 3}}]
OTHER = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1}}]
IDLE = "NodeName=here State=IDLE Reason=none"
# The state is a file, as is the list of jobs; each update is logged.
SCONTROL = """#!/bin/sh
cd %s
case "$*" in
*show*) cat node ;;
*drain*) echo "NodeName=here State=IDLE+DRAIN Reason=gpufleet [root]" >node; echo drain >>log ;;
*resume*) echo "NodeName=here State=IDLE Reason=none" >node; echo resume >>log ;;
esac
"""


class Slurm:
    """One node, which is part of a simulated Slurm cluster."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.work = fleet, fleet.work / "slurm"
        (self.work / "bin").mkdir(parents=True)
        for name, text in (("scontrol", SCONTROL % self.work), ("squeue", "#!/bin/sh\ncat %s/jobs\n" % self.work)):
            (self.work / "bin" / name).write_text(text)
            (self.work / "bin" / name).chmod(0o755)
        blocks = re.findall(
            r"```yaml\n# slurm/(\w+\.yml)\n(.*?)```", (TOP / "docs" / "slurm.md").read_text(), re.DOTALL
        )
        for name, text in blocks:
            (self.work / name).write_text(re.sub("retries: .*", "retries: 1", text).replace("delay: 30", "delay: 0"))
        self.jobs, self.node, self.log = (self.work / name for name in ("jobs", "node", "log"))
        self.record = fleet.work / "out-of-service"
        self.jobs.touch()
        self.node.write_text(IDLE)
        fleet.node("here", "--board", "A100-80GB")
        self.play(MIG, SMALL)
        fleet.variables.update(
            gpu_node_drain_tasks=str(self.work / "drain.yml"),
            gpu_node_return_tasks=str(self.work / "return.yml"),
            gpu_node_drain_record_path=str(self.record),
        )

    def play(self, playbook: Path, layout: t.Any, *arguments: str, fails: bool = False, **variables: t.Any) -> Run:
        return self.fleet.play(playbook, *arguments, fails=fails, nvidia_mig_layout=layout, **variables)

    def updates(self) -> t.List[str]:
        """What was changed in Slurm since the last call."""
        found = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return found


@pytest.fixture(name="slurm")
def fixture_slurm(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setenv("PATH", str(fleet.work / "slurm" / "bin"), prepend=":")
    return Slurm(fleet)


@pytest.mark.parametrize("playbook", [MIG, SITE], ids=lambda path: path.name)
def test_a_node_is_drained_once_for_a_change_that_interrupts_jobs(slurm: Slurm, playbook: Path) -> None:
    checked = slurm.play(playbook, OTHER, "--check")
    assert (checked.count("here", "changed"), slurm.updates()) == (2, [])  # out of service, and the layout
    slurm.play(playbook, OTHER, *(["--tags", "mig"] if playbook == SITE else []))
    assert slurm.fleet.instances("here") == [["3g.40gb at 4"]]
    assert slurm.updates() == ["drain", "resume"] and not slurm.record.exists()
    slurm.play(playbook, OTHER)
    assert slurm.updates() == []


def test_new_instances_in_free_space_drain_nothing(slurm: Slurm) -> None:
    run = slurm.play(MIG, MORE)
    assert len(slurm.fleet.instances("here")[0]) == 3 and slurm.updates() == []
    assert "gpufleet.node.gpu_cluster : " not in run.output  # not even skipped tasks


def test_a_node_whose_jobs_do_not_end_is_returned_unchanged(slurm: Slurm) -> None:
    slurm.jobs.write_text("4711 gpu train\n")
    run = slurm.play(MIG, OTHER, fails=True)
    assert 'here: gpu_node_drain_tasks failed at "Wait until no job runs"' in run.output
    assert "The node is in service, and its GPUs were not changed" in run.output
    assert slurm.updates() == ["drain", "resume"] and not slurm.record.exists()
    assert len(slurm.fleet.instances("here")[0]) == 2


def test_a_node_that_a_run_left_drained_is_returned_by_the_next(slurm: Slurm) -> None:
    slurm.fleet.nvsim("fault", "here", "nvmlDeviceCreateGpuInstanceWithPlacement", "--always", "--code", "999")
    run = slurm.play(SITE, OTHER, fails=True)
    assert slurm.updates() == ["drain"] and slurm.record.exists()
    assert run.stats()["gpufleet_out_of_service"] == {"here": True}
    run = slurm.play(PLAYBOOKS / "verify.yml", SMALL, fails=True)
    assert "it is out of service since a run that did not finish" in run.output
    assert '"gpufleet_problems": {  "here": [   "it is out of service' in run.output
    slurm.fleet.nvsim("fault", "here", "--clear")
    run = slurm.play(SITE, SMALL)  # no change is left
    assert run.stats()["gpufleet_out_of_service"] == {"here": False}
    assert slurm.updates() == ["resume"] and not slurm.record.exists()


@pytest.mark.parametrize("state", ["IDLE+DRAIN", "DOWN*", "MIXED+FAIL"])
def test_a_node_that_somebody_else_has_taken_out_of_service_is_left_so(slurm: Slurm, state: str) -> None:
    slurm.node.write_text("NodeName=here State=%s Reason=memory [root]" % state)
    slurm.play(MIG, OTHER)
    assert slurm.fleet.instances("here") == [["3g.40gb at 4"]] and slurm.updates() == []


def test_a_node_is_drained_before_its_driver_is_updated(slurm: Slurm) -> None:
    """The driver's key cannot be downloaded, so that nothing is installed."""
    driver = {
        "gpu_node_roles": ["nvidia_driver", "nvidia_mig"],
        "nvidia_driver_source": "cuda_repository",
        "nvidia_driver_repository_url": "http://127.0.0.1:1",
    }
    run = slurm.play(SITE, OTHER, "--tags", "driver", fails=True, **driver)
    assert "Cannot download the key http://127.0.0.1:1/key" in run.output
    assert slurm.updates() == ["drain"] and slurm.record.exists()
