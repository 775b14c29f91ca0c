# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module's main() in this process, from arguments to the JSON that it prints."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from ansible.module_utils.common import warnings


@contextlib.contextmanager
def arguments(values):
    """ansible-core 2.19 passes arguments to a module in its own way; in 2.18 they are a global."""
    try:
        from ansible.module_utils.testing import patch_module_args
    except ImportError:
        from ansible.module_utils import basic

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": values}).encode())
            yield
    else:
        with patch_module_args(values):
            yield


def run(main, check=False, diff=False, **values):
    """The result of the module, even if it failed."""
    warnings._global_warnings.clear()  # a module's process has none from an earlier run
    printed = io.StringIO()
    internal = {"_ansible_check_mode": check, "_ansible_diff": diff}
    with arguments({**values, **internal}), contextlib.redirect_stdout(printed):
        with pytest.raises(SystemExit):
            main()
    return json.loads(printed.getvalue())


def cycle(call, snapshot, **values):
    """One change in check mode, for real, and both again; the four results. ``snapshot`` returns what it may change."""
    before = snapshot()
    results = [call(check=True, **values)]
    assert snapshot() == before
    results.append(call(check=False, **values))
    after = snapshot()
    for check in (True, False):
        results.append(call(check=check, **values))
        assert snapshot() == after
    assert [result.get("changed") for result in results] == [True, True, False, False]
    return results
