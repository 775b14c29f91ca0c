# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A client of NVIDIA's go-nvml, which binds all functions and structures of its own nvml.h through cgo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .support import HERE, REPOSITORY, MakeNode

sys.path.insert(0, str(REPOSITORY / "tests" / "lab"))

from gpulab import programs


def test_go_nvml_creates_and_lists_mig_devices(make_node: MakeNode, tmp_path: Path) -> None:
    environment = dict(programs.environment(cgo=True), CGO_CFLAGS="-w", GOTOOLCHAIN="local")
    build = [programs.go(), "build", "-o", str(tmp_path / "client"), "."]
    subprocess.run(build, cwd=HERE / "go", env=environment, check=True)
    node = make_node("--board", "A100-80GB", "--gpus", "2")
    done = subprocess.run([tmp_path / "client"], env=node.environment(), stdout=subprocess.PIPE, text=True, check=True)
    first, second = node.show()["gpus"]
    assert [(gi["profile"], gi["start"]) for gi in second["gpu_instances"]] == [("3g.40gb", 4)]
    mig = second["gpu_instances"][0]["compute_instances"][0]["uuid"]
    assert done.stdout.splitlines() == [
        "again: Insufficient Resources",
        "driver: 550.163.01",
        "%s NVIDIA A100-SXM4-80GB 0" % first["uuid"],
        "%s NVIDIA A100-SXM4-80GB 1" % second["uuid"],
        "%s NVIDIA A100-SXM4-80GB MIG 3g.40gb" % mig,
    ]
