# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The Kubernetes client of kubernetes.core."""

from __future__ import annotations

import os
import signal
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


# Seconds for all requests of a module. The client would wait for ever for a server that accepts connections only.
_LIMIT = 120


class _NoResponse(Exception):
    """Not an OSError, after which the client would repeat the request."""


def _stop(*_arguments: t.Any) -> t.NoReturn:
    raise _NoResponse("the API server has not responded for %d seconds" % _LIMIT)


def _kubeconfig() -> str:
    """The path that the client reads."""
    return os.environ.get("K8S_AUTH_KUBECONFIG") or os.environ.get("KUBECONFIG") or "~/.kube/config"


def use(module: AnsibleModule, function: t.Callable[[t.Any], t.Any]) -> t.Any:
    """Call the function with the module in the form that kubernetes.core expects, and fail if it raises an error."""
    try:
        from ansible_collections.kubernetes.core.plugins.module_utils.k8s.core import AnsibleK8SModule
    except ImportError:
        module.fail_json(
            msg="the collection kubernetes.core is missing: install it with ansible-galaxy collection install "
            "kubernetes.core"
        )
    # This fails with a clear message if the Python library kubernetes is missing.
    wrapped = AnsibleK8SModule(module_class=lambda **_arguments: module)
    signal.signal(signal.SIGALRM, _stop)
    # Again every few seconds, because libraries may handle the exception.
    signal.setitimer(signal.ITIMER_REAL, _LIMIT, 5)
    try:
        return function(wrapped)
    except Exception as error:  # the client has many, and some have no common base class
        message = str(error) or type(error).__name__
        if message.endswith("No configuration found."):
            message = "%s in %s" % (message[:-1], _kubeconfig())
        module.fail_json(msg=message)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
