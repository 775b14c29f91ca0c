# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend.command import CommandResult, missing
from ansible_collections.gpufleet.node.plugins.module_utils._backend.select import open_backend
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake_pynvml import FakeNvml
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.smi_texts import QUERY


def smi(argv):
    return CommandResult(0, QUERY, "")


def no_smi(argv):
    raise missing(argv[0])


@pytest.fixture
def nvml(monkeypatch):
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    return nvml


@pytest.fixture
def no_nvml(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)


def test_nvml_is_preferred(nvml):
    assert open_backend("auto", smi).name == "nvml"
    assert open_backend("nvml", no_smi).name == "nvml"
    assert open_backend("nvidia_smi", smi).name == "nvidia_smi"


@pytest.mark.usefixtures("no_nvml")
def test_without_pynvml_nvidia_smi_is_used():
    assert open_backend("auto", smi).name == "nvidia_smi"
    with pytest.raises(BackendError, match="Install nvidia-ml-py"):
        open_backend("nvml", smi)


@pytest.mark.usefixtures("no_nvml")
def test_with_neither_both_are_named():
    with pytest.raises(BackendError) as error:
        open_backend("auto", no_smi)
    assert error.value.code == codes.LIBRARY_NOT_FOUND
    assert "pynvml" in str(error.value) and "nvidia-smi" in str(error.value)


def test_without_the_library_nvidia_smi_is_tried(nvml):
    nvml.errors["nvmlInit"] = codes.LIBRARY_NOT_FOUND
    assert open_backend("auto", smi).name == "nvidia_smi"


def test_a_transient_error_is_retried(nvml):
    class Once(dict):
        def get(self, name, default=None):
            return self.pop(name, default)

    nvml.errors = Once(nvmlInit=codes.UNKNOWN)
    assert open_backend("nvml", no_smi).name == "nvml"
    assert nvml.calls.count("nvmlInit") == 2


def test_nvidia_smi_is_not_a_fallback_for_an_unloaded_driver(nvml):
    nvml.errors["nvmlInit"] = codes.DRIVER_NOT_LOADED
    with pytest.raises(BackendError) as error:
        open_backend("auto", smi)
    assert error.value.code == codes.DRIVER_NOT_LOADED
