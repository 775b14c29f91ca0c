# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Results of modules that use the API: the errors that they mean, and their messages."""

from __future__ import annotations

import re

from ...module_utils._common.data import Data

_API_MESSAGE = '"message":"'  # in the text of an exception, after the response headers
_END_OF_MESSAGE = re.compile(r'"(?:,"|})')
_PERMANENT = ("Failed to import the required Python library", "Invalid kube-config")
_NO_CLIENT = re.compile(r"Failed to import the required Python library \((kubernetes|PyYAML)\)")
_DENIED = ("Reason: Unauthorized", "Reason: Forbidden")


class Unreadable(Exception):
    """The API does not respond, or rejects the request."""


class Final(Unreadable):
    """An error that does not pass: the client cannot send requests, or the node does not exist."""


class Denied(Unreadable):
    """The API rejects the user, or does not allow the request."""


class NoNode(Final):
    """The cluster has no node of the host."""


def message(result: Data) -> str:
    """The message of a module's result, on one line and without a full stop. That of the API, if it has responded."""
    text = " ".join(str(result.get("msg") or "no answer").split())
    rejected = text.partition(_API_MESSAGE)[2]
    end = _END_OF_MESSAGE.search(rejected)
    return (rejected[: end.start()].replace("\\", "") if end else text)[:400].rstrip(".")


def error_of(result: Data) -> Unreadable:
    """The error that the failed result of a module means."""
    text, raw = message(result), str(result.get("msg"))
    if any(each in raw for each in _PERMANENT):
        return Final(text)
    return Denied(text) if any(each in raw for each in _DENIED) else Unreadable(text)


def was_read(result: Data) -> bool:
    """Whether the API has returned objects. It returns none of a kind that it does not know."""
    return "resources" in result and bool(result.get("api_found", True))


def unreachable(result: Data, may_be_missing: bool, on_controller: bool) -> str:
    """Why a result without ``resources`` is a problem; empty for others, and if the cluster need not be readable yet."""
    if "resources" in result:
        return ""
    text = message(result)
    client_missing = _NO_CLIENT.search(text)
    if client_missing and on_controller:
        return (
            "the controller's Python lacks the library %s: install it in Ansible's environment, with pip install "
            "kubernetes (or pipx inject, or in the execution environment)" % client_missing.group(1)
        )
    # On a server, gpu_cluster installs the library.
    if client_missing or may_be_missing:
        return ""
    return (
        "the cluster cannot be read: %s. Check gpu_cluster_host and gpu_cluster_kubeconfig, the permissions of its user, "
        "and that the API server runs" % text
    )
