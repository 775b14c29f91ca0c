# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writes that are repeated after a failure."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes, retry
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    FakeBackend,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._mig.converge_support import (
    run,
    target,
)


@pytest.mark.parametrize(
    "code", [codes.UNKNOWN, codes.TIMEOUT, codes.IN_USE, codes.INSUFFICIENT_RESOURCES, codes.RESET_REQUIRED]
)
def test_a_write_is_retried_after_a_transient_failure(a100, code):
    driver = FakeBackend(a100)
    driver.fail = {("create_gpu_instance", 0): code, ("create_gpu_instance", 1): code}
    outcome = run(driver, target(A100, "7g.40gb"))
    assert (outcome.error is None) == (code != codes.RESET_REQUIRED)
    assert len(outcome.retries) == (2 if outcome.error is None else 0)


def test_a_call_that_timed_out_is_not_retried(a100):
    """With timeouts of minutes, the other GPUs of a node would have no time left at boot."""
    backend = FakeBackend(a100)

    def hang(*_args: object) -> int:
        raise BackendError(codes.TIMEOUT, "nvidia-smi mig -cgi", "no response after 300 seconds", waited=True)

    backend.create_gpu_instance = hang
    outcome = run(backend, target(A100, "7g.40gb"))
    assert outcome.restored is True and outcome.retries == ()


def test_the_number_of_retries_is_limited(a100):
    driver = FakeBackend(a100)
    driver.always = {"create_gpu_instance": codes.UNKNOWN}
    outcome = run(driver, target(A100, "7g.40gb"))
    assert driver.writes == ["create_gpu_instance"] * (1 + len(retry.PAUSES))
    assert outcome.restored is True and len(outcome.retries) == len(retry.PAUSES)
    assert "injected failure" in outcome.retries[0].error
