# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Run a job on a simulated node, in a process whose NVML is the simulator's."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from ...module_utils._common.data import Data
from .._common.refusal import Refusal

_TOP = Path(__file__).resolve().parents[3]  # of the collection
_NEEDS = ("nvsim", "pynvml")
_CHILD = "ansible_collections.gpufleet.node.plugins.plugin_utils._rehearsal.child"
_LIMIT = 300  # seconds for one host


def require() -> None:
    """Raises Refusal unless the simulator and pynvml are installed for the controller's Python."""
    missing = [name for name in _NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise Refusal(
            "the rehearsal needs the simulator and pynvml on the controller, and %s has no %s: run %s -m pip install "
            "nvidia-ml-py %s" % (sys.executable, " and no ".join(missing), sys.executable, _TOP / "simulator")
        )
    from nvsim import library  # not installed everywhere

    try:
        library.library_path()
    except library.NodeError as error:
        raise Refusal(str(error)) from None


def prepare(folder: Path) -> None:
    """Let processes import the collection from the folder, from wherever it is installed."""
    namespace = folder / "python" / "ansible_collections" / "gpufleet"
    namespace.mkdir(parents=True)
    (namespace / "node").symlink_to(_TOP)


def run(job: Data, folder: Path) -> Data:
    """The outcome of a job (see child.py). Raises Refusal if the process fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", _CHILD],
            input=json.dumps(job),
            env=_environment(Path(job["folder"]), folder),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            timeout=_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Refusal("the rehearsal took more than %d seconds" % _LIMIT) from None
    if done.returncode != 0:
        raise Refusal("the rehearsal failed: %s" % (done.stderr.strip().splitlines() or ["no message"])[-1])
    outcome: Data = json.loads(done.stdout)
    return outcome


def _environment(node: Path, folder: Path) -> dict[str, str]:
    """Of the process: the simulated node, and the collection; of this one, nothing that changes what Python does."""
    from nvsim import library  # not installed everywhere

    kept = {name: value for name, value in library.Node(node).environment().items() if not name.startswith("PYTHON")}
    search = [str(folder / "python"), *(path for path in sys.path if path)]
    return {**kept, "PYTHONPATH": os.pathsep.join(search), "NVSIM_PYTHON": sys.executable}
