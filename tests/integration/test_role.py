# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role nvidia_mig on simulated nodes, without services. The Molecule scenarios cover the rest."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile

import pytest
import yaml

PLAYBOOK = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role:
        name: gpufleet.node.nvidia_mig
        tasks_from: "{{ part }}"
"""
SMALL = [{"devices": "all", "mig_enabled": True, "mig_devices": {"3g.40gb": 1, "1g.10gb": 2}}]
LARGE = [{"devices": "all", "mig_enabled": True, "mig_devices": {"4g.40gb": 1, "1g.10gb": 1}}]
OFF = [{"devices": "all", "mig_enabled": False}]
# Ends a process when the trace shows the second initialization of NVML.
ENDER = """
import os, signal, sys, time
while not os.path.exists(sys.argv[1]) or open(sys.argv[1]).read().count('"nvmlInit') < 2:
    time.sleep(0.1)
os.kill(int(sys.argv[2]), signal.SIGKILL)
"""
# Lists one running unit, if it is queried by name.
SYSTEMCTL = """#!/bin/sh
test "$1" = list-units || exit 1
for name in "$@"; do
    test "$name" != %s.service || echo "$name loaded active running"
done
"""


@pytest.fixture(name="role")
def fixture_role(tmp_path):
    """Run an entry point of the role on a node, and return the number of changed tasks and the output."""
    playbook = tmp_path / "role.yml"
    playbook.write_text(PLAYBOOK)

    def role(node, layout=None, *arguments, part="main", fails=False, **variables):
        given = dict(
            variables, part=part, nvidia_mig_lock_path=str(tmp_path / "lock"), nvidia_mig_record_path=str(tmp_path)
        )
        if layout is not None:
            given["nvidia_mig_layout"] = layout
        output = node.play(playbook, given, *arguments, fails=fails)
        return int(re.search(r"changed=(\d+)", output).group(1)), output

    return role


def test_create_change_and_remove(make_node, role):
    """Create, change and remove instances. Run each step in check mode, for real, and both again without a change."""
    node = make_node("--board", "A100-80GB:1", "--board", "H100-80GB:1")
    before = [[], []]
    for layout, after in (
        (SMALL, ["1g.10gb at 0", "1g.10gb at 1", "3g.40gb at 4"]),
        (LARGE, ["1g.10gb at 4", "4g.40gb at 0"]),
        (OFF, []),
    ):
        assert role(node, layout, "--check", nvidia_mig_reset=True)[0] == 1
        assert node.instances() == before
        assert role(node, layout, nvidia_mig_reset=True)[0] == 1
        instances = node.instances()
        assert [[place.split(" at ", maxsplit=1)[0] for place in gpu] for gpu in instances] == [
            [place.split(" at ", maxsplit=1)[0] for place in after]
        ] * 2
        assert role(node, layout, "--check")[0] == 0
        assert role(node, layout)[0] == 0
        assert node.instances() == instances
        before = instances


@pytest.fixture(name="running_unit")
def fixture_running_unit(tmp_path, monkeypatch):
    """Replace systemctl by one that lists a running unit."""

    def running(unit):
        systemctl = tmp_path / "bin" / "systemctl"
        systemctl.parent.mkdir()
        systemctl.write_text(SYSTEMCTL % unit)
        systemctl.chmod(0o755)
        monkeypatch.setenv("PATH", str(systemctl.parent), prepend=":")

    return running


def test_fails_on_a_busy_instance_without_stopping_clients(make_node, role, running_unit, workload):
    node = make_node("--board", "A100-80GB")
    role(node, [{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}])
    node.nvsim("attach", "--gpu", "0", "--gi", "0", "--pid", str(workload), "--name", "training")
    running_unit("dcgm")  # the process is not part of it
    for arguments in ([], ["--check"]):
        _changed, output = role(
            node, SMALL, *arguments, fails=True, nvidia_mig_boot=True, nvidia_mig_clients=["dcgm.service"]
        )
        assert "PID %d (training)" % workload in output
        assert "Restore at boot" not in output
    assert node.instances() == [["7g.80gb at 0"]]


def two_gpus(make_node, role, workload):
    """A node with two GPUs, whose first is in use and cannot get the layout SMALL."""
    node = make_node("--board", "A100-80GB:2")
    role(node, [{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}])
    node.nvsim("attach", "--gpu", "0", "--gi", "0", "--pid", str(workload), "--name", "training")
    return node


def test_a_preview_shows_all_gpus_although_one_is_in_use(make_node, role, workload):
    node = two_gpus(make_node, role, workload)
    _changed, output = role(node, SMALL, "--check", "--diff", fails=True)
    small = r"\+GPU %%d [^|\n]*\|1g.10gb\|1g.10gb\|\.*\|3g.40gb +\|%s\n"
    assert len(re.findall(small % "" % 1, output)) == 1
    assert len(re.findall(small % (r"  blocked by PID %d \(training\)" % workload) % 0, output)) == 1
    assert re.search(r"GPU instance 0 \(7g.80gb at 0:8\), used by PID %d \(training\). Stop these" % workload, output)


def test_idle_gpus_change_and_busy_ones_are_reported(make_node, role, workload):
    node = two_gpus(make_node, role, workload)
    instances = ["1g.10gb at 0", "1g.10gb at 1", "3g.40gb at 4"]
    for arguments, changed, after in (
        (["--check"], 1, ["7g.80gb at 0"]),
        ([], 1, instances),
        (["--check"], 0, instances),
        ([], 0, instances),
    ):
        count, output = role(node, SMALL, *arguments, nvidia_mig_busy="skip")
        assert count == changed
        assert node.instances() == [["7g.80gb at 0"], after]
        assert re.search(r'"msg": "node: GPUs are pending, .* GPU 0 .*used by PID %d \(training\)' % workload, output)
        assert ("Stop GPU clients" in output) == (changed and not arguments), "none is stopped in vain"
    _changed, output = role(node, SMALL, "-v", part="verify")
    assert r"blocked by PID %d (training)\n" % workload in output
    assert r"\\n" not in output
    node.nvsim("detach", "--pid", str(workload))
    assert role(node, SMALL, nvidia_mig_busy="skip")[0] == 1
    assert node.instances() == [instances, instances]


def test_a_gpu_that_has_left_the_layout_is_named_in_a_warning(make_node, role):
    node = make_node("--board", "A100-80GB:2")
    role(node, SMALL)
    for part in ("main", "verify"):
        changed, output = role(node, [dict(SMALL[0], devices=[0])], part=part)
        assert changed == 0
        words = "GPU 1 .*is not in the layout, and has 3 GPU instances. It keeps them until the next reboot"
        assert re.search(words, " ".join(output.split()))


def test_a_wait_that_ends_in_vain_names_only_what_is_in_use(make_node, role, workload):
    node = two_gpus(make_node, role, workload)
    # The boot restore is installed before the wait. In check mode, because the node is the local machine.
    assert "Install the boot restore" in role(node, SMALL, "--check", nvidia_mig_boot=True, nvidia_mig_busy_wait=1)[1]
    _changed, output = role(node, SMALL, fails=True, nvidia_mig_busy_wait=1)
    message = output[output.index("FAILED - RETRYING") :]
    assert re.search(r"GPU instance 0 \(7g.80gb at 0:8\), used by PID %d \(training\). Stop these" % workload, message)
    assert "GPU 1" not in message and '"kept"' not in message and "FAILED!" in message
    assert node.instances() == [["7g.80gb at 0"]] * 2

    assert role(node, SMALL, nvidia_mig_busy_wait=1, nvidia_mig_busy="skip")[0] == 1
    assert node.instances() == [["7g.80gb at 0"], ["1g.10gb at 0", "1g.10gb at 1", "3g.40gb at 4"]]


def test_fails_on_a_missing_group_before_any_change(make_node, role):
    node = make_node("--board", "A100-80GB")
    for arguments in ([], ["--check"]):
        _changed, output = role(
            node, SMALL, *arguments, fails=True, nvidia_mig_boot=True, nvidia_mig_access_group="nosuch"
        )
        assert "has no group nosuch, which nvidia_mig_access_group names" in output
    assert node.instances() == [[]]


def test_waits_for_a_process_to_exit(make_node, role):
    node = make_node("--board", "A100-80GB")
    role(node, [{"devices": "all", "mig_enabled": True, "mig_devices": {"7g.80gb": 1}}])
    with subprocess.Popen(["sleep", "600"]) as brief:
        node.nvsim("attach", "--gpu", "0", "--gi", "0", "--pid", str(brief.pid), "--name", "brief")
        # The process ends after the role starts to wait for it, at the second plan.
        ender = subprocess.Popen([sys.executable, "-c", ENDER, str(node.path / "state.trace"), str(brief.pid)])
        node.nvsim("trace", "--on")
        assert role(node, SMALL, nvidia_mig_busy_wait=600)[0] == 1
        ender.wait()
    assert node.instances() == [["1g.10gb at 0", "1g.10gb at 1", "3g.40gb at 4"]]


def test_export_writes_the_current_layout(make_node, role, tmp_path):
    node = make_node("--board", "A100-80GB:1", "--board", "H100-80GB:2", "--board", "T4:1")
    placed = [
        {"devices": 0, "mig_enabled": True, "mig_devices": [{"profile": "1g.10gb", "start": 5}]},
        {
            "devices": 1,
            "mig_enabled": True,
            "mig_devices": [{"profile": "3g.40gb", "start": 4, "compute_instances": ["1c.3g.40gb", "2c.3g.40gb"]}],
        },
        {"devices": 2, "mig_enabled": True, "mig_devices": {}},
    ]
    role(node, placed)
    before = json.loads(node.nvsim("show", "--json"))["gpus"]
    path = tmp_path / "host_vars" / "node" / "nvidia_mig.yml"
    role(node, part="export", nvidia_mig_export_path=str(path))
    exported = yaml.safe_load(path.read_text())["nvidia_mig_layout"]
    assert [entry["devices"] for entry in exported] == [gpu["uuid"] for gpu in before[:3]]
    assert role(node, part="export", nvidia_mig_export_path=str(path))[0] == 0

    assert role(node, exported)[0] == 0
    role(node, [dict(entry, mig_enabled=False, mig_devices=[]) for entry in exported], nvidia_mig_reset=True)
    assert role(node, exported)[0] == 1
    assert [gpu["gpu_instances"] for gpu in json.loads(node.nvsim("show", "--json"))["gpus"]] == [
        gpu["gpu_instances"] for gpu in before
    ]


@pytest.fixture(name="export_of")
def fixture_export_of(make_node, role, tmp_path):
    """Export the layout of a node that reports a GPU with one instance, and return it with the output."""

    def export_of(name="NVIDIA A100", uuid="GPU-11111111-2222-3333-4444-555555555555", profile="1g.10gb", fails=False):
        instance = {"profile": profile, "start": 0, "compute_instances": [{"profile": profile}]}
        gpu = {
            "index": 0, "uuid": uuid, "name": name, "pci_bus_id": "00000000:01:00.0", "problem": None,
            "mig": {"capable": True, "current": True, "instances": [instance]},
        }  # fmt: skip
        facts = {"driver": {"problem": None}, "gpus": [gpu]}
        (tmp_path / "facts.json").write_text(json.dumps({"ansible_facts": {"nvidia": facts}}))
        node, path = make_node("--board", "A100-80GB"), tmp_path / "x.yml"
        node.python = str(tmp_path / "python")
        (tmp_path / "python").write_text("#!/bin/sh\ncat >/dev/null\ncat %s\n" % (tmp_path / "facts.json"))
        (tmp_path / "python").chmod(0o755)
        _changed, output = role(node, part="export", nvidia_mig_export_path=str(path), fails=fails)
        return yaml.safe_load(path.read_text()) if path.exists() else None, output

    return export_of


def test_export_writes_no_variable_that_a_name_adds(export_of):
    exported, _output = export_of(name="A100\nansible_host: \"{{ lookup('pipe', 'id') }}\"\n#")
    assert list(exported) == ["nvidia_mig_layout"]


TEMPLATE = "{{ lookup('pipe', 'id') }}"


@pytest.mark.parametrize("forged", [{"uuid": TEMPLATE}, {"uuid": "GPU-" + TEMPLATE}, {"profile": "1g.10gb" + TEMPLATE}])
def test_export_fails_on_a_template(export_of, forged):
    exported, output = export_of(**forged, fails=True)
    assert exported is None
    assert "node has no layout to export: the node reports GPUs or instances with invalid names" in " ".join(
        output.split()
    )


def test_export_fails_without_mig_gpus(make_node, role, tmp_path):
    node = make_node("--board", "T4")
    _changed, output = role(node, part="export", nvidia_mig_export_path=str(tmp_path / "x.yml"), fails=True)
    assert "node has no layout to export: none of its GPUs supports MIG" in output


@pytest.mark.parametrize(
    "call, code, remedy",
    [("nvmlDeviceGetUUID", "gpu_is_lost", "reboot the node"), ("nvmlDeviceGetGpuInstances", "unknown", "")],
)
def test_export_fails_on_an_unreadable_gpu(make_node, role, tmp_path, call, code, remedy):
    node = make_node("--board", "A100-80GB")
    role(node, SMALL)
    node.nvsim("fault", call, "--code", code, "--always")
    path = tmp_path / "x.yml"
    _changed, output = role(node, part="export", nvidia_mig_export_path=str(path), fails=True)
    assert "node has no layout to export: GPU 0" in output
    assert code.upper() in output and remedy in output
    assert not path.exists()


@pytest.mark.parametrize(
    "unit, named", [("rke2-agent", ("rke2-agent", "2c.3g.40gb, 1c.3g.40gb")), ("kubelet-helper", None)]
)
def test_warns_about_split_compute_instances_on_a_cluster_node(make_node, role, running_unit, unit, named):
    running_unit(unit)
    layout = [{"devices": "all", "mig_enabled": True, "mig_devices": {"2c.3g.40gb": 1, "1c.3g.40gb": 1}}]
    _changed, output = role(make_node("--board", "A100-80GB"), layout, "--check")
    text = re.sub(r"\s+", " ", output)  # before ansible-core 2.19, warnings are wrapped
    warned = re.search(r"([a-z0-9-]+).service is running, and the layout splits GPU instances into (.*?)\. With", text)
    assert (warned and warned.groups()) == named


def test_installs_pynvml_where_it_is_missing(make_node, role, nvidia_smi, tmp_path, monkeypatch):
    import pynvml

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    node = make_node("--board", "A100-80GB")
    node.python = str(tmp_path / "venv" / "bin" / "python")
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text("#!/bin/sh\necho 'Inst python3-pynvml (7.352.0-7 Ubuntu:22.04/jammy [amd64])'\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(apt.parent), prepend=":")

    _changed, output = role(node, SMALL, "--check", "--diff")
    assert "Set nvidia_mig_pynvml_wheel to install it" in output
    assert "MIG on, profiles not known yet" in output
    assert "nvidia-smi lists the profiles of a GPU only while MIG mode is on" in output
    assert re.search(r"GPU 0 GPU-.* \|1g.10gb\|1g.10gb\|\.+\|3g.40gb ", output)

    _changed, output = role(node, SMALL, "--check", fails=True, nvidia_mig_pynvml_wheel="https://mirror.example/x.whl")
    assert "nothing verifies what it returns: set nvidia_mig_pynvml_checksum" in output

    wheel = tmp_path / "nvidia_ml_py-13.615.71-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(pynvml.__file__, "pynvml.py")
        archive.writestr("nvidia_ml_py-13.615.71.dist-info/METADATA", "Name: nvidia-ml-py\n")
    changed, output = role(node, SMALL, "--check", nvidia_mig_pynvml_wheel=str(wheel))
    assert changed > 1 and "This run would install it" in output
    _changed, output = role(node, SMALL, nvidia_mig_pynvml_wheel=str(wheel))
    assert "has no usable pynvml" not in output
    assert node.instances() == [["1g.10gb at 0", "1g.10gb at 1", "3g.40gb at 4"]]
    assert role(node, SMALL, "--diff", nvidia_mig_pynvml_wheel=str(wheel))[0] == 0


CHANGED_BY_OTHERS = """
- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: gpufleet.node.nvidia_mig}
      vars: {nvidia_mig_layout: "{{ applied }}"}
    - &verify
      ansible.builtin.include_role: {name: gpufleet.node.nvidia_mig, tasks_from: verify}
      vars: {nvidia_mig_layout: "{{ other }}"}
    - &show
      ansible.builtin.debug: {msg: "{{ nvidia_mig_problems[0] }}"}
    - ansible.builtin.copy:
        content: 2030-01-01 00:00:00 UTC by bob@elsewhere
        dest: "{{ nvidia_mig_record_path }}/mig-last-change"
    - *verify
    - *show
    - ansible.builtin.file: {path: "{{ nvidia_mig_record_path }}/mig-last-change", state: absent}
    - *verify
    - *show
"""


def test_verify_reports_whether_another_run_changed_the_gpus(make_node, tmp_path):
    playbook = tmp_path / "changed.yml"
    playbook.write_text(CHANGED_BY_OTHERS)
    paths = {"nvidia_mig_lock_path": str(tmp_path / "lock"), "nvidia_mig_record_path": str(tmp_path / "records")}
    output = make_node("--board", "A100-80GB").play(playbook, {"applied": SMALL, "other": LARGE, **paths})
    assert re.search(r"The role last changed the GPUs 20[0-9: -]+ UTC by \S*@\S+, in this run\. Apply", output)
    assert "last changed the GPUs 2030-01-01 00:00:00 UTC by bob@elsewhere, after this run did. Apply" in output
    assert "The role has not changed the GPUs since the node booted. Apply the layout with mig.yml" in output
