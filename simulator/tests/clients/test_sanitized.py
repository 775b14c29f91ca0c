# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The real nvidia-smi on the library with sanitizers: no memory error in any view of a busy, mixed node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from .support import REPOSITORY, SIMULATOR, MakeNode, Sleeper, Smi

VIEWS = (
    (),
    ("-L",),
    ("-q",),
    ("-q", "-x"),
    ("-q", "-i", "00000000:0F:00.0"),
    ("--query-compute-apps=pid,name,used_memory", "--format=csv"),
    ("mig", "-i", "0", "-lgip"),
    ("mig", "-i", "0", "-lgipp"),
    ("mig", "-lgi"),
    ("mig", "-lci"),
    ("mig", "-lcip"),
    ("mig", "-lcipp"),
    ("mig", "-i", "0", "-dci"),
    ("mig", "-i", "0", "-dgi"),
    ("--gpu-reset",),
    ("topo", "-m"),
    ("pmon", "-c", "1"),
)


@pytest.fixture(scope="session")
def preload() -> str:
    """Return the runtimes of the sanitizers, which must be preloaded."""
    if shutil.which("cc") is None:
        pytest.skip("cc is missing")
    names = ("libasan.so", "libubsan.so")
    libraries = [subprocess.check_output(["cc", "-print-file-name=" + name], text=True).strip() for name in names]
    if not all(Path(path).is_absolute() for path in libraries):
        pytest.skip("the compiler has no sanitizers: install its libasan and libubsan")
    subprocess.run(["make", "-s", "-C", str(SIMULATOR), "sanitized"], check=True)
    return " ".join(libraries)


def test_no_memory_errors(make_node: MakeNode, smi: Smi, preload: str, sleeper: Sleeper) -> None:
    node = make_node("--board", "A100-40GB", "--board", "H100-80GB", "--board", "T4", "--driver", smi.version)
    smi.ok(node, "-i", "0", "-mig", "1")
    smi.ok(node, "mig", "-i", "0", "-cgi", "9,14,19", "-C")
    node.attach(sleeper().pid, gpu=0, gi=1)
    node.attach(sleeper().pid, gpu=1, kind="mps")
    environment = dict(
        node.environment(),
        LD_PRELOAD=preload,
        LD_LIBRARY_PATH=str(REPOSITORY / ".cache" / "simulator" / "sanitized"),
        ASAN_OPTIONS="detect_leaks=0:exitcode=99",  # the leaks are nvidia-smi's
        UBSAN_OPTIONS="halt_on_error=1:exitcode=99",
    )
    for view in VIEWS:
        command = [str(smi.program), *view]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert said.returncode in (0, 19, 255), (view, said.stderr)
        # Ignore warnings of nvidia-smi's hwloc on a machine without /sys.
        assert [line for line in said.stderr.splitlines() if not line.startswith("hwloc/")] == [], view
