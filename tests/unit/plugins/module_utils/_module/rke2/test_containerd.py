# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Templates and drop-ins of RKE2's containerd, and the runtimes that it reports."""

from __future__ import annotations

import json
import typing as t
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


def checked(
    template: str = "", drop_in: str = "", program: str = PROGRAM, name: str = "config-v3.toml.tmpl"
) -> containerd.Findings:
    return containerd.check(
        {name: template} if template else {}, {"99-nvidia.toml": drop_in} if drop_in else {}, program
    )


def found(template: str = "", drop_in: str = "", program: str = PROGRAM) -> t.List[str]:
    findings = checked(template, drop_in, program)
    assert findings.warnings == []
    return findings.problems


def test_files_that_are_respected() -> None:
    other = NVIDIA_2.replace("nvidia", "crun")
    assert found() == found(BASE + other) == found(drop_in=other) == found(drop_in=NVIDIA_2) == []
    assert found(NVIDIA_1) == []  # complete, with the runtime
    assert found(BASE + NVIDIA_2, program="") == []  # RKE2 finds none by itself
    assert found("version = 3", program="") == []


def test_a_runtime_that_rke2_adds_too() -> None:
    for template, name in (
        (BASE + NVIDIA_2, "config-v3.toml.tmpl"),
        ('{{- template "base" . -}}\n' + NVIDIA_1, "config.toml.tmpl"),
    ):
        (problem,) = checked(template, name=name).problems
        assert "defines the runtime nvidia, which RKE2 adds automatically because it finds " + PROGRAM in problem


@pytest.mark.parametrize(("runtime", "name"), [(NVIDIA_2, "config.toml.tmpl"), (NVIDIA_1, "config-v3.toml.tmpl")])
def test_a_runtime_in_the_table_of_another_version(runtime: str, name: str) -> None:
    """containerd 2.3.4 and 2.4.2 print a configuration with both, and the runtime nvidia."""
    assert checked(BASE + runtime, name=name) == ([], [])


def test_a_complete_configuration_without_the_runtime() -> None:
    """The configuration in the GPU operator's documentation."""
    (problem,) = found("version = 3\n" + NVIDIA_2.replace("nvidia", "runc"))
    assert problem.startswith("config-v3.toml.tmpl is a complete containerd configuration without the runtime nvidia")


@pytest.mark.parametrize(
    "again", [NVIDIA_1, NVIDIA_1.replace('"', "'"), NVIDIA_1.replace("[", "[ ").replace(".", " . ")]
)
def test_tables_that_are_defined_twice(again: str) -> None:
    again = again.replace("io . containerd . grpc . v1 . cri", "io.containerd.grpc.v1.cri")
    (problem,) = found(NVIDIA_1 + again)
    table = "plugins.io.containerd.grpc.v1.cri.containerd.runtimes.nvidia"
    assert "defines the table %s twice, so containerd does not start" % table in problem


def test_a_file_that_is_not_toml() -> None:
    assert "config-v3.toml.tmpl is not valid TOML, so containerd does not start: " in found("[a\n")[0]
    assert "config-v3.toml.tmpl is not valid TOML" in found(BASE + "nvidia\n")[0]
    assert "99-nvidia.toml is not valid TOML, so containerd does not start: " in found(drop_in="[a\n")[0]


TABLE = "plugins.'io.containerd.cri.v1.runtime'"


@pytest.mark.parametrize(
    "runtime",
    [
        "[%s.containerd.runtimes]\nnvidia = {runtime_type = 'io.containerd.runc.v2', options = {BinaryName = '%s'}}",
        "[ %s . containerd . runtimes . nvidia . options ]\nBinaryName = '%s'",
        "[%s.containerd.runtimes.nvidia.options] # as the operator's documentation shows\nBinaryName = '%s' # a comment",
        "[%s.containerd]\nruntimes.nvidia.options.BinaryName = '%s'",
    ],
)
def test_other_spellings_of_a_runtime(runtime: str) -> None:
    text = runtime % (TABLE, PROGRAM) + "\n"
    assert found("version = 3\n" + text) == []
    assert found(drop_in=text) == []
    assert "defines the runtime nvidia, which RKE2 adds" in found(BASE + text)[0]


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (TABLE, "config-v3.toml.tmpl"),  # github.com/FootprintAI/Containarium issue 1444, 2026-08-18
        (TABLE + ".containerd.runtimes.runc", "config-v3.toml.tmpl"),
        ('plugins."io.containerd.grpc.v1.cri".containerd', "config.toml.tmpl"),
        ("plugins . 'io.containerd.grpc.v1.cri' . registry", "config.toml.tmpl"),
    ],
)
def test_a_table_that_the_base_has(table: str, name: str) -> None:
    findings = checked(BASE + "[%s]\ndefault_runtime_name = 'nvidia'\n" % table, name=name)
    assert findings.warnings == []
    assert 'which {{ template "base" . }} defines too, so containerd does not start' in findings.problems[0]


def test_a_table_that_the_base_may_have() -> None:
    findings = checked(BASE + "[%s.containerd]\ndefault_runtime_name = 'nvidia'\n" % TABLE)
    assert findings.problems == []
    assert (
        "defines it too if default-runtime is set. Set default-runtime in RKE2's configuration" in findings.warnings[0]
    )


@pytest.mark.parametrize("name", containerd.TEMPLATES)
def test_an_import_that_the_base_may_have(name: str) -> None:
    """github.com/confidential-dot-ai/c8s pull request 622, 2026-09-15."""
    findings = checked('imports = ["config-v3.toml.d/*.toml"]\n' + BASE, name=name)
    assert findings.problems == []
    (warning,) = findings.warnings
    assert 'defines imports. {{ template "base" . }} defines it too if the release imports' in warning


BRANCHES = """version = 3
{{ if .SystemdCgroup -}}
%(nvidia)s
{{- else if .DisableCgroup }}%(nvidia)s{{ else }}
%(nvidia)s
{{ end }}
""" % {"nvidia": NVIDIA_2}


def test_branches_that_define_the_same_table() -> None:
    assert found(BRANCHES) == []
    assert "twice, so containerd does not start" in found(BRANCHES + NVIDIA_2)[0]
    assert "which RKE2 adds" in found(BASE + BRANCHES.replace("version = 3\n", ""))[0]


def test_a_copy_of_the_whole_template() -> None:
    """From k3s' pkg/agent/templates (v1.27), whose values are not known here."""
    text = """version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "{{ .NodeConfig.Containerd.Opt }}"
[plugins."io.containerd.grpc.v1.cri"]
  enable_selinux = {{ .NodeConfig.SELinux }}
{{- if .DisableCgroup}}
  disable_cgroup = true
{{end}}
{{ range $k, $v := .PrivateRegistryConfig.Mirrors }}
[plugins."io.containerd.grpc.v1.cri".registry.mirrors."{{$k}}"]
  endpoint = [{{range $i, $j := $v.Endpoints}}{{if $i}}, {{end}}{{printf "%q" .}}{{end}}]
{{end}}
{{range $k, $v := .PrivateRegistryConfig.Configs }}
[plugins."io.containerd.grpc.v1.cri".registry.configs."{{$k}}".tls]
{{end}}
{{range $k, $v := .ExtraRuntimes}}
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."{{$k}}"]
  runtime_type = "{{$v.RuntimeType}}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."{{$k}}".options]
  BinaryName = "{{$v.BinaryName}}"
{{end}}
"""
    assert checked(text, name="config.toml.tmpl") == ([], [])
    (problem,) = checked(text + NVIDIA_1, name="config.toml.tmpl").problems
    assert "which RKE2 adds" in problem
    lost = text[: text.index("{{range $k, $v := .ExtraRuntimes")]
    assert "without the runtime nvidia" in checked(lost, name="config.toml.tmpl").problems[0]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        (BASE + "{{ .Extra }}\n[grpc]\n", "config-v3.toml.tmpl cannot be checked before RKE2 starts: "),
        ('{{ template "mine" . }}\n', 'it uses {{ template "mine" . }}'),
        ("{{ if .A }}\n" + NVIDIA_2, "{{ end }} is missing"),
        (NVIDIA_2 + "{{ end }}\n", "{{ end }} has no beginning"),
        (NVIDIA_2 + "{{ if .A\n", "an action is not closed"),
        (
            "{{ if .A }}[a]{{ end }}\n{{ if not .A }}[a]{{ end }}\n" + NVIDIA_2,
            "with some of its conditions, a is defined",
        ),
        ("{{ if .A }}\n" + NVIDIA_2 + "{{ end }}\n", "the runtime nvidia depends on its conditions"),
        ("".join("{{ if .A%d }}[a]{{ end }}\n" % number for number in range(9)) + NVIDIA_2, "a is defined twice"),
    ],
)
def test_a_template_that_only_the_start_shows(template: str, words: str) -> None:
    findings = checked(template)
    assert findings.problems == []
    assert words in findings.warnings[0]
    assert findings.warnings[0].endswith("The runtime nvidia is checked after the start")


def test_comments_loops_and_quotes_in_a_template() -> None:
    text = (
        BASE
        + """{{- /* {{ if */ -}}
{{ $x := "}}" }}
{{ with .A }}[b]{{ else with .B }}[b]{{ end }}
{{ if .C }}x = {{ `"{{` | len }}{{ end }}
{{ define "unused" }}[grpc]{{ end }}
"""
    )
    assert found(text) == []


def test_only_the_first_template_counts(tmp_path: Path) -> None:
    (tmp_path / "config.toml.tmpl").write_text("version = 2\n")
    assert list(containerd.read_templates(str(tmp_path))) == [str(tmp_path / "config.toml.tmpl")]
    (tmp_path / "config-v3.toml.tmpl").write_text(BASE)
    folder = tmp_path / "config-v3.toml.d"
    folder.mkdir()
    (folder / "10.toml").write_text(NVIDIA_2)
    (folder / "10.toml.bak").write_text("")
    templates, drop_ins = containerd.read_templates(str(tmp_path)), containerd.read_drop_ins(str(tmp_path))
    assert list(drop_ins) == [str(folder / "10.toml")]
    assert containerd.check(templates, drop_ins, PROGRAM) == ([], [])


@pytest.mark.parametrize("answer", ["", "{}", "[]", "null", '{"config": null}', '{"config": {"containerd": {}}}'])
def test_answers_that_say_nothing(answer: str) -> None:
    assert containerd.runtimes(answer) is None


def test_runtimes_of_the_running_containerd() -> None:
    runtimes = {"runc": {"options": {"BinaryName": ""}}, "nvidia": {"options": {"BinaryName": PROGRAM}}, "x": None}
    answer = json.dumps({"config": {"containerd": {"runtimes": runtimes}}})
    assert containerd.runtimes(answer) == {"runc": "", "nvidia": PROGRAM, "x": ""}


def test_a_base_template_with_a_default_runtime() -> None:
    """RKE2's default-runtime makes the table part of the base once."""
    template = BASE + "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runsc]\nruntime_type = 'x'\n"
    findings = containerd.check({"config-v3.toml.tmpl": template}, {}, PROGRAM, default_runtime=True)
    assert (findings.problems, findings.warnings) == ([], [])
