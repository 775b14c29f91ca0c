# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of container runtimes from the output of their tools."""

from __future__ import annotations

import os
import time

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit import runtime_check
from ansible_collections.gpufleet.node.plugins.module_utils._module.toolkit.container_runtimes import RUNTIMES

# Cut from the output of containerd 1.7.24 and 2.4.2.
DUMP_1 = """
disabled_plugins = []
imports = ["/etc/containerd/config.toml"]
version = 2

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".containerd]
      default_runtime_name = "runc"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes]

        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
            BinaryName = "/usr/bin/nvidia-container-runtime"
            SystemdCgroup = true

        [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
            SystemdCgroup = true

      [plugins."io.containerd.grpc.v1.cri".containerd.untrusted_workload_runtime]
        runtime_type = ""
"""
DUMP_2 = """
version = 4
disabled_plugins = []

[plugins]
  [plugins.'io.containerd.cri.v1.runtime']
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
          runtime_type = 'io.containerd.runc.v2'
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
            BinaryName = '/usr/bin/nvidia-container-runtime'
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
          runtime_type = 'io.containerd.runc.v2'
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            BinaryName = ''
"""
PLUGINS_1 = """\
TYPE                      ID       PLATFORMS      STATUS
io.containerd.nri.v1      nri      -              ok
io.containerd.grpc.v1     cri      linux/amd64    ok
"""
PLUGINS_2 = """\
TYPE                      ID         PLATFORMS      STATUS
io.containerd.cri.v1      images     -              ok
io.containerd.cri.v1      runtime    linux/amd64    ok
io.containerd.grpc.v1     cri        -              ok
"""
RUNNING = "ActiveState=active\nUnitFileState=enabled\nMainPID=17\nExecMainStartTimestampMonotonic=%d\n"
KNOWN = {"nvidia": "/usr/bin/nvidia-container-runtime", "runc": ""}


@pytest.mark.parametrize("dump", [DUMP_1, DUMP_2])
def test_runtimes_in_the_configuration(dump):
    config = runtime_check.settings(dump)
    assert runtime_check.handlers(config) == KNOWN
    assert not runtime_check.cri_disabled(config)
    assert runtime_check.address(config) == "/run/containerd/containerd.sock"


@pytest.mark.parametrize(
    "runtimes",
    [
        "[ plugins . 'io.containerd.grpc.v1.cri' . containerd.runtimes ]  # a comment\nnvidia = {options = {BinaryName = 'x'}}",
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.\"nvidia\".options]\nBinaryName = 'x' # a comment",
        "plugins.cri.containerd.runtimes.nvidia.options.BinaryName = 'x'",
    ],
)
def test_other_spellings_of_a_runtime(runtimes):
    assert runtime_check.handlers(runtime_check.settings(runtimes)) == {"nvidia": "x"}


@pytest.mark.parametrize(
    "dump",
    [
        '[grpc]\n  address = "/run/other.sock"\n[ttrpc]\n  address = "x"\n',
        # containerd 2.4.2, which prints version 4
        "[plugins]\n  [plugins.'io.containerd.server.v1.grpc']\n    address = '/run/other.sock'\n    uid = 0\n",
    ],
)
def test_another_socket(dump):
    assert runtime_check.address(runtime_check.settings(dump)) == "/run/other.sock"


@pytest.mark.parametrize("name", ["cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"])
def test_a_disabled_plugin(name):
    assert runtime_check.cri_disabled(
        runtime_check.settings("version = 2\ndisabled_plugins = [\n  'zfs',\n  \"%s\",\n]\n" % name)
    )


@pytest.mark.parametrize(
    ("plugins", "healthy"),
    [
        (PLUGINS_1, True),
        (PLUGINS_2, True),
        (PLUGINS_1.replace("linux/amd64    ok", "linux/amd64    error"), False),
        (PLUGINS_2.replace("linux/amd64    ok", "linux/amd64    error"), False),
        (PLUGINS_2.replace("-              ok", "-              skip"), False),
        (PLUGINS_1.replace("cri ", "xri "), False),
        ("", False),
    ],
)
def test_health_of_the_cri_plugin(plugins, healthy):
    assert runtime_check.cri_is_healthy(plugins) == healthy


class Node:
    """Answers of the node's programs, by the first words of the command."""

    def __init__(self, started=None):
        started = time.monotonic() - 60 if started is None else started
        self.answers = {"systemctl show": RUNNING % (started * 1e6)}
        self.calls = []

    def __call__(self, argv):
        self.calls.append(" ".join(argv))
        for words in sorted(self.answers, key=len, reverse=True):
            if self.calls[-1].startswith(words):
                return 0, self.answers[words], ""
        return 1, "", "no answer"

    def check(self, name, runtime=None):
        return runtime_check.check(name, runtime or RUNTIMES[name], self)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch, tmp_path):
    monkeypatch.setattr(runtime_check, "PAUSE", 0)
    monkeypatch.setattr(runtime_check, "PROC", str(tmp_path))


def containerd(dump=DUMP_2, plugins=PLUGINS_2, started=None):
    node = Node(started)
    node.answers["containerd config dump"] = dump
    node.answers["ctr --address /run/containerd/containerd.sock plugins ls"] = plugins
    return node


def test_a_healthy_containerd():
    assert containerd().check("containerd") == ([], True)
    assert containerd(DUMP_1, PLUGINS_1).check("containerd") == ([], True)


@pytest.mark.parametrize("name", ["containerd", "docker", "crio"])
@pytest.mark.parametrize("state", ["ActiveState=failed\n", "ActiveState=activating\nUnitFileState=enabled\n", ""])
def test_a_service_that_does_not_run_is_not_healthy(name, state):
    node = containerd()
    node.answers["systemctl show"] = state
    health = node.check(name)
    assert not health.cri_healthy
    assert health.problems[0].startswith("%s is not running. See systemctl status" % name)


def test_a_service_that_does_not_start_at_boot():
    node = containerd(plugins=PLUGINS_2.replace("linux/amd64    ok", "linux/amd64    error"))
    node.answers["systemctl show"] = node.answers["systemctl show"].replace("=enabled", "=disabled")
    health = node.check("containerd")
    assert not health.cri_healthy
    assert health.problems[0].startswith("containerd runs, but is not enabled")
    assert "no healthy CRI plugin" in health.problems[1]


def test_a_containerd_that_would_not_start_again():
    node = containerd()
    del node.answers["containerd config dump"]
    health = node.check("containerd")
    assert health.cri_healthy  # it still runs with its former configuration
    assert health.problems[0].startswith(
        "containerd runs, but would not start again: containerd config dump fails with: no answer."
    )


def test_a_containerd_without_cri_reports_the_cause():
    node = containerd(plugins=PLUGINS_2.replace("linux/amd64    ok", "linux/amd64    error"))
    node.answers["ctr --address /run/containerd/containerd.sock plugins ls --detailed"] = (
        "Type: io.containerd.cri.v1\nError:\n        Code:     Unknown\n        Message:  no default runtime\n"
    )
    health = node.check("containerd")
    assert not health.cri_healthy
    assert "no healthy CRI plugin" in health.problems[0]
    assert "disabled_plugins" in health.problems[0]
    assert health.problems[0].endswith("ctr plugins ls reports: no default runtime")


def test_if_ctr_fails_the_state_of_cri_is_unknown():
    node = containerd()
    del node.answers["ctr --address /run/containerd/containerd.sock plugins ls"]
    health = node.check("containerd")
    assert health.cri_healthy  # else the module would restore the former configuration
    assert "Install ctr" in health.problems[0]


def test_a_containerd_that_reads_another_file(tmp_path):
    node = containerd()
    node.answers["containerd --config /srv/other.toml config dump"] = DUMP_1.replace("runtimes.nvidia", "runtimes.kata")
    (tmp_path / "17").mkdir()
    (tmp_path / "17" / "cmdline").write_text("/usr/bin/containerd\0--config\0/srv/other.toml\0")
    health = node.check("containerd")
    assert health.cri_healthy
    assert "its only runtimes are kata, runc. Its service may read a configuration other than" in health.problems[0]


@pytest.mark.parametrize(("program", "words"), [("", "names no program"), ("/usr/bin/runc", "runs /usr/bin/runc")])
def test_a_runtime_nvidia_with_another_program(program, words):
    dump = DUMP_2.replace("/usr/bin/nvidia-container-runtime", program)
    assert containerd(dump).check("containerd").problems == [
        "containerd runs, but its runtime nvidia %s: set BinaryName in the options of that runtime to the path of "
        "nvidia-container-runtime" % words
    ]


def test_a_containerd_that_is_older_than_its_configuration(tmp_path):
    drop_in = tmp_path / "99-nvidia.toml"
    drop_in.write_text("")
    runtime = RUNTIMES["containerd"]._replace(drop_in=str(drop_in))
    assert "was started before" in containerd().check("containerd", runtime).problems[0]
    os.utime(drop_in, (time.time() - 120, time.time() - 120))
    assert containerd().check("containerd", runtime) == ([], True)


def test_docker():
    node = Node()
    node.answers["docker info"] = (
        '{"io.containerd.runc.v2":{"path":"runc"},"nvidia":{"path":"nvidia-container-runtime"}}\n'
    )
    assert node.check("docker") == ([], True)
    node.answers["docker info"] = '{"runc":{"path":"runc"}}\n'
    assert "docker runs, but does not offer the nvidia runtime" in node.check("docker").problems[0]
    del node.answers["docker info"]
    node.calls.clear()
    assert node.check("docker").problems
    assert len(node.calls) == 1 + runtime_check.ATTEMPTS


def test_crio():
    node = Node()
    node.answers["crio status config"] = '[crio.runtime.runtimes.nvidia]\nruntime_path = "x"\n'
    assert node.check("crio") == ([], True)
    node.answers["crio status config"] = "[crio.runtime.runtimes.runc]\n"
    assert "see systemctl cat crio" in node.check("crio").problems[0]
