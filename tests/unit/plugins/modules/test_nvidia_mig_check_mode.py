# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of the module nvidia_mig predicts the run, over random states."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st

from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import (
    A100,
    H100,
    FakeGpu,
)
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.nvidia_mig_support import (
    off,
    on,
    warnings,
    without_ids,
)


@st.composite
def states(draw):
    """A GPU with a mode that may be pending, instances, clients that are listed, and a driver that may wait for a reset."""
    board = draw(st.sampled_from([A100, H100]))
    gpu = FakeGpu(board=board, mode=draw(st.booleans()), lists_profiles=draw(st.booleans()))
    small, _two, large = (board.profiles[position].name for position in range(3))
    if gpu.current:
        for name, start in draw(
            st.sampled_from([(), ((small, 0), (small, 1)), ((large, 4),), ((large, 4), (small, 0))])
        ):
            gpu.add(name, start)
    users = [None, *gpu.instances] if gpu.current else [None]
    for gi_id in draw(st.lists(st.sampled_from(users), max_size=2, unique=True)):
        gpu.use(gi_id, None if gi_id is None else 0, pid=100 + len(gpu.processes))
    if board is A100:
        gpu.pending = draw(st.booleans())
        gpu.activation = draw(st.sampled_from([codes.SUCCESS, codes.RESET_REQUIRED]))
        gpu.hidden_client = draw(st.booleans())
    wanted = draw(st.sampled_from([off(), on({}), on({large: 1}), on({large: 1, small: 2})]))
    return gpu, wanted, draw(st.booleans())


@hypothesis.settings(suppress_health_check=list(hypothesis.HealthCheck), max_examples=300)
@hypothesis.given(states())
def test_check_mode_predicts_the_run_for_any_mode_clients_and_permission(node, state):
    gpu, wanted, reset = state
    driver = node(gpu)
    if gpu.activation or gpu.hidden_client:
        # The result of a request cannot be read in advance. Once it is pending or cancelled, everything is known...
        driver.run(wanted, reset=reset)
        # ... except for an unlisted client, which appears only when a reset is attempted.
        hypothesis.assume(not (gpu.hidden_client and reset) and (gpu.current, gpu.pending) != (True, True))
    known = gpu.snapshot().profiles_known
    checked = driver.run(wanted, reset=reset, check=True)
    done = driver.run(wanted, reset=reset)
    assert checked.get("failed") == done.get("failed")
    if "failed" in checked:
        assert checked["msg"] == done["msg"]
        return
    (predicted,), (found,) = checked["gpus"], done["gpus"]
    if predicted["mode_first"]:
        assert done["operations"][0] == checked["operations"][0]
        return
    for key in ("changed", "operations", "reset_required", "reboot_required", "diff"):
        assert checked[key] == done[key] or (key == "diff" and not known), key
    asks = [text for text in warnings(checked) if "only if the driver resets" in text]
    switches = predicted["mode"]["before"] != predicted["mode"]["desired"]
    switches = switches and any(operation["kind"] == "set_mode" for operation in checked["operations"])
    assert len(asks) == (switches and not reset and not gpu.resetless)
    assert warnings(checked) == asks + warnings(done)
    assert without_ids(predicted) == without_ids(found)
