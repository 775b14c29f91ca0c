# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates and drop-ins of RKE2's containerd, and the runtimes that it reports."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module import rke2_containerd

PROGRAM = "/usr/bin/nvidia-container-runtime"
NVIDIA_2 = """
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia']
  runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.'nvidia'.options]
  BinaryName = "/usr/bin/nvidia-container-runtime"
  SystemdCgroup = true
"""
NVIDIA_1 = """
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."nvidia"]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."nvidia".options]
  BinaryName = "/usr/local/nvidia/toolkit/nvidia-container-runtime"
"""
BASE = '{{ template "base" . }}\n'


def found(template: str = "", drop_in: str = "", program: str = PROGRAM) -> t.List[str]:
    return rke2_containerd.problems(
        {"config-v3.toml.tmpl": template} if template else {}, {"99-nvidia.toml": drop_in} if drop_in else {}, program
    )


def test_files_that_are_respected() -> None:
    other = NVIDIA_2.replace("nvidia", "crun")
    assert found() == found(BASE + other) == found(drop_in=other) == []
    assert found(NVIDIA_1) == []  # complete, with the runtime
    assert found(BASE + NVIDIA_2, program="") == []  # RKE2 finds none by itself
    assert found("version = 3", program="") == []


def test_a_runtime_that_rke2_adds_too() -> None:
    for problems in (found(BASE + NVIDIA_2), found('{{-template "base" .}}' + NVIDIA_1), found(drop_in=NVIDIA_2)):
        (problem,) = problems
        assert "defines the runtime nvidia, which RKE2 adds automatically because it finds " + PROGRAM in problem


def test_a_complete_configuration_without_the_runtime() -> None:
    """The configuration in the GPU operator's documentation."""
    (problem,) = found("version = 3\n" + NVIDIA_2.replace("nvidia", "runc"))
    assert problem.startswith("config-v3.toml.tmpl is a complete containerd configuration without the runtime nvidia")


def test_tables_that_are_defined_twice() -> None:
    assert rke2_containerd.duplicates(NVIDIA_2 + NVIDIA_1) == []
    assert rke2_containerd.duplicates(NVIDIA_2 + NVIDIA_2.replace("'", '"'))[0] == (
        "plugins.io.containerd.cri.v1.runtime.containerd.runtimes.nvidia"
    )
    assert "twice, so containerd does not start" in found(NVIDIA_1 + NVIDIA_1)[0]


def test_only_the_first_template_counts(tmp_path: Path) -> None:
    (tmp_path / "config.toml.tmpl").write_text("version = 2\n")
    assert list(rke2_containerd.read_templates(str(tmp_path))) == [str(tmp_path / "config.toml.tmpl")]
    (tmp_path / "config-v3.toml.tmpl").write_text(BASE)
    folder = tmp_path / "config-v3.toml.d"
    folder.mkdir()
    (folder / "10.toml").write_text(NVIDIA_2)
    (folder / "10.toml.bak").write_text("")
    templates, drop_ins = rke2_containerd.read_templates(str(tmp_path)), rke2_containerd.read_drop_ins(str(tmp_path))
    assert list(drop_ins) == [str(folder / "10.toml")]
    assert len(rke2_containerd.problems(templates, drop_ins, PROGRAM)) == 1  # of the drop-in


@pytest.mark.parametrize("answer", ["", "{}", "[]", "null", '{"config": null}', '{"config": {"containerd": {}}}'])
def test_answers_that_say_nothing(answer: str) -> None:
    assert rke2_containerd.runtimes(answer) is None


def test_runtimes_of_the_running_containerd() -> None:
    runtimes = {"runc": {"options": {"BinaryName": ""}}, "nvidia": {"options": {"BinaryName": PROGRAM}}, "x": None}
    answer = json.dumps({"config": {"containerd": {"runtimes": runtimes}}})
    assert rke2_containerd.runtimes(answer) == {"runc": "", "nvidia": PROGRAM, "x": ""}
