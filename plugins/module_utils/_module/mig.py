# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module nvidia_mig: from its options to its result.

Everything is read and planned before the first write; check mode ends there.
"""

from __future__ import annotations

import contextlib
import typing as t

from .._driver import lock, select
from .._driver.errors import DriverError
from .._mig import layout
from .._mig.converge import converge
from .._mig.errors import MigError
from .._mig.plan import deferred_plan, plan
from . import config, results

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

    from .._driver.base import Driver
    from .._mig.layout import Layout, Request
    from .._mig.model import Gpu
    from .._mig.operations import Plan
    from .results import Result

ARGUMENTS: t.Dict[str, t.Any] = {
    "argument_spec": {
        "layout": {"type": "list", "elements": "dict"},
        "config_file": {"type": "path"},
        "config_name": {"type": "str"},
        "reset": {"type": "bool", "default": False},
        "disturb": {"type": "bool", "default": True},
        "lock_path": {"type": "path", "default": lock.DEFAULT_PATH},
        "lock_wait": {"type": "int", "default": 120},
        "driver": {"type": "str", "default": select.AUTO, "choices": list(select.NAMES)},
    },
    "mutually_exclusive": [("layout", "config_file")],
    "required_one_of": [("layout", "config_file")],
    "required_by": {"config_name": "config_file"},
}


def run(module: AnsibleModule) -> None:
    params = module.params
    try:
        wanted = _layout(params["layout"], params["config_file"], params["config_name"])
        with lock.held(
            params["lock_path"],
            params["lock_wait"],
            create=not module.check_mode,
            command="Ansible module nvidia_mig",
            progress=module.warn,
        ), contextlib.closing(select.open_driver(params["driver"])) as driver:
            found = _bring(driver, wanted, params["disturb"], params["reset"], module.check_mode)
    except lock.LockError as error:
        module.fail_json(msg="%s (options lock_wait and lock_path)" % error, changed=False)
    except (MigError, DriverError) as error:
        module.fail_json(msg=str(error), changed=False)
    for result in found:
        if result.notice is not None:
            module.warn(result.notice)
    returned = results.merged(found, driver.name)
    failures = [result.error for result in found if result.error is not None]
    if failures:
        module.fail_json(msg="\n".join(failures), **returned)
    module.exit_json(**returned)


def _layout(entries: t.Any, config_file: t.Optional[str], config_name: t.Optional[str]) -> Layout:
    if config_file is None:
        return layout.parse(entries)
    document = config.read(config_file)
    try:
        return layout.from_mig_parted(document, config_name)
    except MigError as error:
        raise MigError("config_file %s: %s" % (config_file, error)) from error


def _bring(driver: Driver, wanted: Layout, disturb: bool, reset: bool, check_mode: bool) -> t.List[Result]:
    gpus = [driver.read(index) for index in range(driver.count())]
    requests = wanted.resolve(gpus)
    plans = _plans([gpu for gpu in gpus if gpu.index in requests], requests, disturb)
    if check_mode:
        return [results.of_plan(item) for item in plans]

    def replan(gpu: Gpu) -> Plan:
        return plan(gpu, requests[gpu.index].target(gpu.board), disturb)

    return [results.of_outcome(outcome) for outcome in converge(driver, plans, replan, reset)]


def _plans(gpus: t.Sequence[Gpu], requests: t.Mapping[int, Request], disturb: bool) -> t.List[Plan]:
    """The plans of all GPUs; or one error with what every GPU has against it."""
    plans = []
    refused: t.List[t.Tuple[Gpu, str]] = []
    for gpu in gpus:
        try:
            plans.append(_plan(gpu, requests[gpu.index], disturb))
        except MigError as error:
            refused.append((gpu, str(error)))
    if refused:
        raise MigError(_together(refused))
    return plans


def _plan(gpu: Gpu, request: Request, disturb: bool) -> Plan:
    if request.enabled and request.items and not gpu.profiles_known and not gpu.mode_current:
        return deferred_plan(gpu)
    return plan(gpu, request.target(gpu.board), disturb)


def _together(refused: t.Sequence[t.Tuple[Gpu, str]]) -> str:
    """One line for each reason, and not for each of the GPUs that share it."""
    alike: t.Dict[str, t.List[Gpu]] = {}
    for gpu, text in refused:
        alike.setdefault(text.replace(gpu.label, "\0"), []).append(gpu)
    return "\n".join(text.replace("\0", _names(gpus)) for text, gpus in alike.items())


def _names(gpus: t.Sequence[Gpu]) -> str:
    if len(gpus) == 1:
        return gpus[0].label
    products = sorted({gpu.name for gpu in gpus})
    return "GPUs %s (%s)" % (", ".join(str(gpu.index) for gpu in gpus), ", ".join(products))
