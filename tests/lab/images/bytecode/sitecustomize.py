# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of Python for tests, which run Ansible's short processes thousands of times.

The bytecode of Ansible's modules is cached: Ansible sends each module as an archive of sources, and Python compiles them
again in every task, which is half of a short task's time in a container, and two seconds in a virtual machine without
KVM. Garbage is collected less often, and not at the end, which saves a fifth of the processor time. Python imports this
file at its start: nodes of the lab through a .pth file, controllers through PYTHONPATH.
"""

import _imp
import atexit
import gc
import marshal
import os
import sys
import zipimport

CACHE = "%s/modules-%s" % (os.environ.get("GPUFLEET_BYTECODE", "/var/cache/gpufleet-lab"), sys.implementation.cache_tag)
compile_source = zipimport._compile_source  # type: ignore[attr-defined]


def compile_once(path: str, source: bytes) -> object:
    cached = "%s/%s" % (CACHE, _imp.source_hash(0, source).hex())
    try:
        with open(cached, "rb") as stream:
            return marshal.loads(stream.read())
    except (OSError, EOFError, TypeError, ValueError):
        pass  # not cached, or damaged
    code = compile_source(path, source)
    try:
        os.makedirs(CACHE, exist_ok=True)
        new = "%s.%s" % (cached, os.urandom(8).hex())  # nodes share the directory, and have the same process ids
        with open(new, "wb") as stream:
            stream.write(marshal.dumps(code))
        os.replace(new, cached)
    except OSError:
        pass  # a process that may not write there
    return code


gc.set_threshold(100_000)
atexit.register(gc.freeze)
zipimport._compile_source = compile_once  # type: ignore[attr-defined]
