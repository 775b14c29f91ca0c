# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""A kubeconfig for the controller, from one that a server has.

Clients run programs that a kubeconfig names, and send files to the API server that it names. Only its data is taken.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import typing as t

import yaml

from ...module_utils._common.data import Data
from .._common.refusal import Refusal

_MAX_KUBECONFIG = 1 << 20  # characters
_NAMED = 5  # keys in a message
_CLUSTER = {"server", "certificate-authority-data", "tls-server-name"}
_USER = {"client-certificate-data", "client-key-data", "token"}
_LOOPBACK = re.compile(r"https://(?:127[.]0[.]0[.]1|localhost|\[::1\])(?=:)")
_SERVER = re.compile(r"https://(?:[a-zA-Z0-9.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?/?")
_WORD = re.compile(r"[!-~]*")


def rebuild(text: str, server: str) -> str:
    """A kubeconfig, as JSON, with the address, authority and credentials of the current context of another one.

    A loopback address becomes that of the server. Raises Refusal, without values, for anything else in the context's
    cluster and user, such as a program to run or a file to read.
    """
    try:
        # All values as strings, and no merged mappings: both can take very long.
        found: t.Any = yaml.load(text, Loader=yaml.BaseLoader) if len(text) <= _MAX_KUBECONFIG else None
        context = _named(found, "context", found["current-context"])
        cluster = _strings("cluster", _named(found, "cluster", context["cluster"]), _CLUSTER)
        user = _strings("user", _named(found, "user", context["user"]), _USER)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise Refusal("it is not a kubeconfig with a current context, cluster and user") from error
    cluster["server"] = _LOOPBACK.sub(
        "https://%s" % ("[%s]" % server if ":" in server else server), cluster.get("server", "")
    )
    if not _SERVER.fullmatch(cluster["server"]):
        raise Refusal("the address of its cluster is not https://HOST:PORT")
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "default", "cluster": cluster}],
            "users": [{"name": "default", "user": user}],
            "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
            "current-context": "default",
        },
        indent=2,
    )


def _named(found: Data, kind: str, name: object) -> Data:
    if not isinstance(name, str):  # to compare lists of lists that share their items can take for ever
        raise TypeError
    (entry,) = (each for each in found[kind + "s"] if each["name"] == name)
    data: Data = entry[kind]
    return data


def _strings(kind: str, data: Data, known: t.Collection[str]) -> dict[str, str]:
    other = sorted("%.70s" % key for key in data.keys() - known)[:_NAMED]
    if other:
        raise Refusal(
            "its %s has %s, which is not taken from a server: only %s are"
            % (kind, ", ".join(other), ", ".join(sorted(known)))
        )
    for key, value in data.items():
        if not _WORD.fullmatch(value):
            raise Refusal("%s of its %s is not a single word" % (key, kind))
        if key.endswith("-data"):
            try:
                base64.b64decode(value, validate=True)
            except binascii.Error as error:
                raise Refusal("%s of its %s is not in base64" % (key, kind)) from error
    return dict(data)
