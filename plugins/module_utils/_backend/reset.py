# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reset one GPU. NVML has no call for it, so both backends use nvidia-smi."""

from __future__ import annotations

import typing as t

from .smi_errors import failure

if t.TYPE_CHECKING:
    from .command import Runner


def reset(run: Runner, uuid: str) -> None:
    """Reset only this GPU. Raises BackendError, with code IN_USE if the GPU has clients."""
    command = ["nvidia-smi", "--gpu-reset", "-i", uuid]
    result = run(command)
    # nvidia-smi may exit with status 0 even if the reset was refused.
    if result.rc != 0 or "successfully reset" not in result.out:
        raise failure(" ".join(command), result)
