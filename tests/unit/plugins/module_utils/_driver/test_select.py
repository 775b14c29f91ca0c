# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible_collections.gpufleet.node.plugins.module_utils._driver import errors
from ansible_collections.gpufleet.node.plugins.module_utils._driver.command import Result, missing
from ansible_collections.gpufleet.node.plugins.module_utils._driver.errors import DriverError
from ansible_collections.gpufleet.node.plugins.module_utils._driver.select import open_driver
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._driver.fake_pynvml import FakeNvml
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._driver.smi_texts import QUERY


def smi(argv):
    return Result(0, QUERY, "")


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
    assert open_driver("auto", smi).name == "nvml"
    assert open_driver("nvml", no_smi).name == "nvml"
    assert open_driver("nvidia_smi", smi).name == "nvidia_smi"


@pytest.mark.usefixtures("no_nvml")
def test_without_pynvml_nvidia_smi_serves():
    assert open_driver("auto", smi).name == "nvidia_smi"
    with pytest.raises(DriverError, match="Install nvidia-ml-py"):
        open_driver("nvml", smi)


@pytest.mark.usefixtures("no_nvml")
def test_with_neither_both_are_named():
    with pytest.raises(DriverError) as error:
        open_driver("auto", no_smi)
    assert error.value.code == errors.LIBRARY_NOT_FOUND
    assert "pynvml" in str(error.value) and "nvidia-smi" in str(error.value)


def test_without_the_library_nvidia_smi_is_tried(nvml):
    nvml.errors["nvmlInit"] = errors.LIBRARY_NOT_FOUND
    assert open_driver("auto", smi).name == "nvidia_smi"


def test_a_driver_that_is_not_loaded_is_not_helped_by_nvidia_smi(nvml):
    nvml.errors["nvmlInit"] = errors.DRIVER_NOT_LOADED
    with pytest.raises(DriverError) as error:
        open_driver("auto", smi)
    assert error.value.code == errors.DRIVER_NOT_LOADED
