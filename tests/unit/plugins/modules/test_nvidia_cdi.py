# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module nvidia_cdi with simulated nvidia-ctk and systemctl."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._module import cdi
from ansible_collections.gpufleet.node.plugins.modules import nvidia_cdi

from .running import run

NVIDIA_CTK = """#!/bin/sh
[ "$*" = "--quiet cdi generate --format=yaml" ] || [ "$*" = "--quiet cdi generate --format=json" ] || exit 64
[ -z "$NVIDIA_CTK_CDI_OUTPUT_FILE_PATH" ] || exit 65
[ ! -e %(work)s/error ] || { cat %(work)s/error >&2; exit 1; }
cat %(work)s/devices
echo "$HOOKS"
"""
# Records each call. The service writes the content of the file "service" if it exists.
SYSTEMCTL = """#!/bin/sh
case "$1" in
show) cat %(work)s/units/"$3" 2>/dev/null || echo LoadState=not-found; exit ;;
restart) [ ! -e %(work)s/service ] || cp %(work)s/service %(work)s/nvidia.yaml ;;
stop) printf 'LoadState=loaded\\nActiveState=inactive\\n' >%(work)s/units/"$2" ;;
esac
echo "$*" >>%(work)s/calls
"""


class Node:
    def __init__(self, work):
        self.work = work
        self.specification = work / "nvidia.yaml"

    def program(self, name, text):
        path = self.work / "bin" / name
        path.write_text(text % {"work": self.work})
        path.chmod(0o755)

    def unit(self, name, state):
        (self.work / "units" / name).write_text("LoadState=loaded\nActiveState=%s\n" % state)

    def calls(self):
        path = self.work / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, **options):
        return run(nvidia_cdi.main, **options)


@pytest.fixture
def node(tmp_path, monkeypatch):
    for name in ("bin", "units"):
        (tmp_path / name).mkdir()
    for name in ("driver", "devices"):
        (tmp_path / name).write_text("GPU-1\n")
    monkeypatch.setattr(cdi, "SETTINGS", str(tmp_path / "settings"))
    monkeypatch.setattr(cdi, "DRIVER", str(tmp_path / "driver"))
    monkeypatch.setattr(cdi, "DEFAULT_OUTPUT", str(tmp_path / "nvidia.yaml"))
    monkeypatch.setenv("PATH", "%s:/usr/bin:/bin" % (tmp_path / "bin"))
    made = Node(tmp_path)
    made.program("nvidia-ctk", NVIDIA_CTK)
    made.program("systemctl", SYSTEMCTL)
    return made


def test_a_specification_is_written_once(node):
    result = node.run()
    assert (result["changed"], result["matches"], result["reason"]) == (True, False, "outdated")
    assert node.specification.read_text() == "GPU-1\n\n"
    assert node.specification.stat().st_mode & 0o777 == 0o644
    result = node.run()
    assert (result["changed"], result["matches"], result["reason"]) == (False, True, "current")
    assert node.calls() == []


def test_check_mode_only_compares(node):
    result = node.run(check=True)
    assert (result["changed"], result["matches"], result["reason"]) == (True, False, "outdated")
    assert not node.specification.exists()


def test_the_toolkits_service_is_preferred(node):
    node.unit(cdi.SERVICE, "inactive")
    node.unit(cdi.PATH, "active")
    (node.work / "service").write_text("GPU-1\n\n")
    node.specification.write_text("GPU-0\n\n")
    assert node.run()["changed"]
    assert node.calls() == ["restart nvidia-cdi-refresh.service", "start nvidia-cdi-refresh.path"]
    assert node.specification.read_text() == "GPU-1\n\n"


def test_a_service_that_does_nothing_is_not_trusted(node):
    node.unit(cdi.SERVICE, "inactive")
    assert node.run()["changed"]
    assert node.specification.read_text() == "GPU-1\n\n"


def test_the_services_settings_apply(node):
    target = node.work / "other.json"
    (node.work / "settings").write_text(
        "# As an administrator may write it\nNVIDIA_CTK_CDI_OUTPUT_FILE_PATH='%s'\nHOOKS=a $(b) \\\n c\n" % target
    )
    result = node.run()
    assert result["path"] == str(target)
    assert target.read_text() == "GPU-1\na $(b)  c\n"
    assert not node.specification.exists()


def test_another_output_is_written_beside_the_services(node):
    node.unit(cdi.SERVICE, "inactive")
    (node.work / "service").write_text("GPU-1\n\n")
    assert node.run(output=str(node.work / "cdi" / "mine.yaml"))["changed"]
    assert (node.work / "cdi" / "mine.yaml").read_text() == "GPU-1\n\n"


def test_empty_output_does_not_replace_the_specification(node):
    node.specification.write_text("GPU-0\n")
    (node.work / "devices").write_text("")
    result = node.run()
    assert result["failed"] and "without a specification" in result["msg"]
    assert node.specification.read_text() == "GPU-0\n"


def test_without_devices_no_specification_and_no_failed_unit_is_left(node):
    node.unit(cdi.SERVICE, "failed")
    node.unit(cdi.PATH, "active")
    node.specification.write_text("GPU-0\n")
    (node.work / "error").write_text("failed to get spec: empty device edits\n")

    result = node.run(check=True)
    assert (result["changed"], result["reason"]) == (True, "outdated")
    assert node.specification.exists() and node.calls() == []

    result = node.run()
    assert (result["changed"], result["matches"]) == (True, False)
    assert not node.specification.exists()
    assert node.calls() == [
        "stop nvidia-cdi-refresh.path",
        "stop nvidia-cdi-refresh.service",
        "reset-failed nvidia-cdi-refresh.path nvidia-cdi-refresh.service",
    ]
    result = node.run()
    assert (result["changed"], result["matches"], result["reason"]) == (False, True, "no_devices")


@pytest.mark.parametrize(("missing", "reason"), [("driver", "no_driver"), ("bin/nvidia-ctk", "no_toolkit")])
def test_nothing_to_compare(node, missing, reason):
    (node.work / missing).unlink()
    node.specification.write_text("GPU-0\n")
    result = node.run()
    assert (result["changed"], result["reason"], result["matches"]) == (False, reason, reason == "no_driver")
    assert node.specification.exists()


def test_gpus_that_cannot_be_described(node):
    (node.work / "error").write_text("failed to initialize NVML: ERROR_UNKNOWN\n")
    node.specification.write_text("GPU-0\n")
    result = node.run()
    assert result["failed"]
    assert "ERROR_UNKNOWN. Check that nvidia-smi works" in result["msg"]
    assert node.specification.exists()


def test_absent(node):
    node.specification.write_text("GPU-0\n")
    assert node.run(state="absent", check=True)["changed"]
    assert node.run(state="absent")["changed"]
    assert not node.run(state="absent")["changed"]
    assert not node.specification.exists()
