# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Runs a module that uses the API in a copy of this process, if Ansible would start it with the same Python here.

A new process takes half a second to import the client, which would triple the processor time of a rollout. This file has
imported it once, into Ansible's own process.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import typing as t

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.utils.display import Display

from ...module_utils._module.cluster import objects, patch, pods
from .nodes import Data

with contextlib.suppress(Exception):  # only a server may have it, or one that works
    importlib.import_module("kubernetes")

# Variables that Python and the client have read when they were imported.
_READ_FIRST = {"KUBECONFIG", "PYTHONPATH"}
_MODULES: t.Mapping[str, t.Any] = {
    "gpufleet.node.gpu_cluster_objects": objects,
    "gpufleet.node.gpu_cluster_patch": patch,
    "gpufleet.node.gpu_cluster_pods": pods,
}


class _Module:
    """What these modules use of AnsibleModule."""

    def __init__(self, name: str, arguments: Data, check_mode: bool) -> None:
        validator = ArgumentSpecValidator(_MODULES[name].ARGUMENTS["argument_spec"])
        self.params = validator.validate(arguments).validated_parameters
        self.check_mode = check_mode
        self.result: Data = {}

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        self.result = result
        raise SystemExit

    def fail_json(self, **result: t.Any) -> t.NoReturn:
        self.exit_json(failed=True, **result)

    @staticmethod
    def warn(text: str) -> None:
        Display().warning(text)


def runs_here(action: t.Any, module: str, variables: t.Mapping[str, t.Any]) -> bool:
    python = action._templar.template(variables.get("ansible_python_interpreter"))
    is_local = getattr(action._connection, "transport", None) == "local" and not action._play_context.become
    return module in _MODULES and is_local and python == sys.executable and not _READ_FIRST & {*_environment(action)}


def run(action: t.Any, module: str, arguments: Data) -> Data:
    """The result of the module, with the environment and in the check mode of the action's task."""
    check_mode, environment = action._task.check_mode, _environment(action)

    def work() -> Data:
        os.environ.update(environment)
        # The client writes certificates and keys to files, which it removes only when Python exits.
        with tempfile.TemporaryDirectory(dir=environment.get("TMPDIR")) as tempfile.tempdir:
            return _result(module, arguments, check_mode)

    with beside(work) as receiver:
        return result(receiver, module)


@contextlib.contextmanager
def beside(work: t.Callable[[], Data]) -> t.Iterator[t.Any]:
    """Run ``work`` in a copy of this process. Yields the end of a pipe, from which ``result`` reads what it returns."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(work, receiver, sender), daemon=True)
    process.start()
    sender.close()
    try:
        yield receiver
    except BaseException:  # such as the task's time limit
        process.terminate()
        raise
    process.join()


def result(receiver: t.Any, module: str) -> Data:
    """Wait for the result of the module that the other process runs."""
    try:
        return t.cast("Data", receiver.recv())
    except (EOFError, OSError):
        return {"failed": True, "msg": "the process of %s has ended without a result" % module}


def _environment(action: t.Any) -> dict[str, str]:
    out: Data = {}
    action._compute_environment_string(out)
    return {name: str(value) for name, value in out.items()}


def _run(work: t.Callable[[], Data], receiver: t.Any, sender: t.Any) -> None:
    receiver.close()  # so that this process ends with its parent
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        sys.stdout = sys.stderr = nothing
        sender.send(work())


def _result(name: str, arguments: Data, check_mode: bool) -> Data:
    module = _Module(name, arguments, check_mode)
    try:
        _MODULES[name].run(module)
    except SystemExit:
        return module.result
    except Exception as error:  # the cause is not lost
        return {"failed": True, "msg": "%s: %s" % (type(error).__name__, error)}
    return {"failed": True, "msg": "no result"}
