# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates and drop-ins of RKE2's containerd, and the runtimes that it reports."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.rke2 import containerd

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


def found(text: str, program: str = PROGRAM, name: str = "config-v3.toml.tmpl") -> str:
    """The problem of a template or drop-in."""
    with tempfile.TemporaryDirectory() as data_path:
        path = Path(data_path, "agent", "etc", "containerd", name)
        path.parent.mkdir(parents=True)
        path.write_text(text)
        return "".join(containerd.config_problems(containerd.own_files(data_path), program)).replace(str(path), name)


@pytest.mark.parametrize(
    "text",
    [
        BASE + NVIDIA_2.replace("nvidia", "crun"),
        BASE + NVIDIA_2.replace("'nvidia'", "'nvidia-cdi'"),
        BASE + NVIDIA_2.replace("[", "# ["),
        BASE + NVIDIA_1,  # containerd 2.3.4 and 2.4.2 print a configuration with both, and the runtime nvidia
        NVIDIA_2,  # complete, with the runtime
        "{{ range $k, $v := .ExtraRuntimes }}{{ end }}\n",
        '{{ template "mine" . }}\n',  # only RKE2 knows what this renders
    ],
)
def test_templates_that_are_respected(text: str) -> None:
    assert found(text) == ""


def test_a_node_without_the_toolkit() -> None:
    """RKE2 adds no runtime."""
    assert found(BASE + NVIDIA_2, program="") == found("version = 3", program="") == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (BASE + NVIDIA_2, "config-v3.toml.tmpl"),
        ('{{- template "base" . -}}\n' + NVIDIA_1, "config.toml.tmpl"),
        (BASE + "[ plugins . 'io.containerd.cri.v1.runtime' . containerd . runtimes . nvidia . options ]\n", "config-v3.toml.tmpl"),
        ("{{range $k, $v := .ExtraRuntimes}}{{end}}\n" + NVIDIA_1, "config.toml.tmpl"),
    ],
)  # fmt: skip
def test_a_runtime_that_rke2_adds_too(text: str, name: str) -> None:
    assert found(text, name=name).startswith(
        name + " defines the runtime nvidia, which RKE2 adds automatically because it finds " + PROGRAM
    )


def test_a_complete_configuration_without_the_runtime() -> None:
    """The configuration in the GPU operator's documentation."""
    problem = found("version = 3\n" + NVIDIA_2.replace("nvidia", "runc"))
    assert problem.startswith("config-v3.toml.tmpl is a complete containerd configuration without the runtime nvidia")


def test_drop_ins() -> None:
    name = "config-v3.toml.d/99-nvidia.toml"
    assert found(NVIDIA_2, name=name) == found("[a\n", name=name + ".bak") == ""
    assert (name + " is not valid TOML, so containerd does not start: ") in found("[a\n", name=name, program="")


def test_own_files(tmp_path: Path) -> None:
    folder = tmp_path / "agent" / "etc" / "containerd"
    (folder / "config.toml.d").mkdir(parents=True)
    assert str(containerd.own_files(str(tmp_path))) == ""
    for name in ("config.toml.tmpl", "config.toml.d/10.toml"):
        (folder / name).touch()
    assert str(containerd.own_files(str(tmp_path))) == "{0}/config.toml.tmpl, {0}/config.toml.d/10.toml".format(folder)
    (folder / "config-v3.toml.tmpl").touch()
    assert containerd.own_files(str(tmp_path)).template == str(folder / "config-v3.toml.tmpl")


@pytest.mark.parametrize("answer", ["", "{}", "[]", "null", '{"config": null}', '{"config": {"containerd": {}}}'])
def test_answers_that_say_nothing(answer: str) -> None:
    assert containerd.runtimes(answer) is None


def test_runtimes_of_the_running_containerd() -> None:
    runtimes = {"runc": {"options": {"BinaryName": ""}}, "nvidia": {"options": {"BinaryName": PROGRAM}}, "x": None}
    answer = json.dumps({"config": {"containerd": {"runtimes": runtimes}}})
    assert containerd.runtimes(answer) == {"runc": "", "nvidia": PROGRAM, "x": ""}
