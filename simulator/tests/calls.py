# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is simulated, call by call, read from the sources: python3 tests/calls.py >CALLS.md"""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

SIMULATOR = Path(__file__).resolve().parents[1]
NAME = re.compile(r"^(nvml\w+) *(.*)$", re.MULTILINE)
DEFINITION = re.compile(r"\b(nvml[A-Z]\w+)\([^;{}]*\)\s*\{")
# The frame of a function, checks of its arguments, whether it is available, and figures of the product: nothing on which
# the value itself depends.
FRAME = re.compile(
    r"struct sim_call call = .*?while \(0\);|struct sim_(gpu|target) \*?(gpu|target)\b|sim_hardware\(gpu\)"
    r"|sim_(gpu|gpu_or_parent)\(&call, \w+\)"
    r"|if \([^;{}]*\)\s*return sim_leave\(&call, \(NVML_ERROR_\w+\)\);|return sim_leave\(&call,",
    re.DOTALL,
)
STATE = re.compile(r"\b(gpu|target|call|initialise|sim_\w+)\b")
HEAD = """<!--
Copyright (c) 2026, the gpufleet.node authors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->

# What is simulated, call by call

Made from the sources by `tests/calls.py`; the notes are those of `names.list`.

- full: the value follows the node's state, or its description. Calls that change the node are all full.
- fixed: the same value on every node, or on every node with that product.
- not supported: the function exists, and returns `NOT_SUPPORTED`.

%d functions are full, %d fixed and %d not supported. A note names the boards or driver branches (such as 580) on which
the answer differs. `nvidia-smi` itself calls further functions by number: `src/smi_table.c`.

| function | answer | differences |
| --- | --- | --- |
"""


class Call(t.NamedTuple):
    name: str
    answer: str
    note: str


def bodies() -> t.Dict[str, str]:
    """Return the body of each implemented function, with all macros expanded."""
    found = {}
    for path in sorted((SIMULATOR / "src").glob("*.c")):
        if path.name == "stubs.c":
            continue
        text = subprocess.run(["cc", "-E", "-P", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout
        for match in DEFINITION.finditer(text):
            depth, end = 1, match.end()
            while depth:
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
            found[match[1]] = text[match.end() : end]
    return found


def calls() -> t.List[Call]:
    code = bodies()

    def answer(name: str) -> str:
        if name not in code:
            return "not supported"
        rest = FRAME.sub("", code[name])
        inner = [called for called in re.findall(r"\b(nvml[A-Z]\w+)\(", rest) if called in code]
        return "full" if STATE.search(rest) or any(answer(called) == "full" for called in inner) else "fixed"

    return [Call(name, answer(name), note) for name, note in NAME.findall((SIMULATOR / "names.list").read_text())]


def document() -> str:
    found = calls()
    counts = tuple(sum(call.answer == answer for call in found) for answer in ("full", "fixed", "not supported"))
    return HEAD % counts + "".join("| `%s` | %s | %s |\n" % call for call in found)


if __name__ == "__main__":
    print(document(), end="")
