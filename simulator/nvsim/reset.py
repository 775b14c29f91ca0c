# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``nvidia-smi --gpu-reset`` on a simulated node, with the messages and exit codes of the real program."""

from __future__ import annotations

import os
import sys
import typing as t

from .library import IN_USE, NO_PERMISSION, NOT_SUPPORTED, Node, NodeError

REASONS = {
    IN_USE: "In use by another client",
    NO_PERMISSION: "Insufficient Permissions",
    NOT_SUPPORTED: "Not Supported",
}
EXITS = {NOT_SUPPORTED: 3, NO_PERMISSION: 4}
BUSY = (
    "%d device%s currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, graphics "
    "application such as an X server, or a monitoring application such as another instance of nvidia-smi). Please "
    "first kill all processes using %s and all compute applications running in the system."
)


def selected(arguments: t.Sequence[str], gpus: t.Sequence[t.Dict[str, t.Any]]) -> t.List[t.Dict[str, t.Any]]:
    """Return the GPUs of -i, by index, UUID, serial or bus id; without -i, all GPUs."""
    given = None
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        if argument in ("-i", "--id") and rest:
            given = rest.pop(0)
        elif argument.startswith(("-i=", "--id=")):
            given = argument.split("=", 1)[1]
        elif argument not in ("-r", "--gpu-reset"):
            raise NodeError("Option \"%s\" is not recognized. Please run 'nvidia-smi -h'." % argument, 2)
    if given is None:
        return list(gpus)
    found = []
    for name in given.split(","):
        match = [gpu for gpu in gpus if name.lower() in names(gpu)]
        if not match:
            raise NodeError("No devices were found matching %s" % name, 6)
        found += match
    return found


def names(gpu: t.Dict[str, t.Any]) -> t.Tuple[str, ...]:
    bus_id = gpu["pci_bus_id"].lower()
    return str(gpu["index"]), gpu["uuid"].lower(), gpu["serial"], bus_id, bus_id[4:], bus_id.split(":", 1)[1]


def gpu_reset(arguments: t.Sequence[str]) -> int:
    node = Node(os.path.dirname(os.environ.get("NVSIM_STATE") or "/var/lib/nvsim/state"))
    try:
        gpus = selected(arguments, node.show()["gpus"])
    except NodeError as problem:
        print(problem)
        return problem.code if problem.code < 256 else 255

    failed = []
    for gpu in gpus:
        try:
            if int(os.environ.get("NVSIM_UID") or os.geteuid()) != 0:
                raise NodeError("not root", NO_PERMISSION)
            node.reset(gpu["index"])
        except NodeError as problem:
            failed.append((gpu, problem))
        else:
            print("GPU %s was successfully reset." % gpu["pci_bus_id"])
    if not failed:
        print("All done.")
        return 0
    print("The following GPUs could not be reset:")
    for gpu, error in failed:
        print("  GPU %s: %s" % (gpu["pci_bus_id"], REASONS.get(error.code, str(error))))
    busy = sum(error.code == IN_USE for _gpu, error in failed)
    if busy:
        print("\n" + BUSY % (busy, " is" if busy == 1 else "s are", "this device" if busy == 1 else "these devices"))
    sys.stdout.flush()
    return EXITS.get(failed[0][1].code, 255)
