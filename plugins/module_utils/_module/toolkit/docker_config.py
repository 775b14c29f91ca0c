# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Docker's configuration: CDI device names, and the settings of the nvidia runtime that are removed again."""

from __future__ import annotations

import json
import typing as t

from .config_files import Content


class ConfigError(Exception):
    """The configuration cannot be changed. Nothing was changed."""


def with_cdi(config: bytes) -> bytes:
    """Enable CDI device names in docker's configuration."""
    settings = parse(config)
    features = settings.get("features") or {}
    if features.get("cdi") is True:
        return config
    settings["features"] = dict(features, cdi=True)
    return _json(settings)


def without_runtime(config: bytes, before: Content) -> bytes:
    """Remove the runtime and the settings that docker's configuration did not have before."""
    settings, previous = parse(config), parse(before or b"{}")
    if "nvidia" not in (settings.get("runtimes") or {}):
        return config
    for key, name in (("runtimes", "nvidia"), ("features", "cdi")):
        if name in (settings.get(key) or {}) and name not in (previous.get(key) or {}):
            del settings[key][name]
            if not settings[key] and key not in previous:
                del settings[key]
    if settings.get("default-runtime") == "nvidia" and previous.get("default-runtime") != "nvidia":
        del settings["default-runtime"]
    return _json(settings)


def parse(config: bytes) -> t.Dict[str, t.Any]:
    """The settings in a configuration of docker, which may be empty."""
    try:
        settings = json.loads(config) if config.strip() else {}
    except ValueError as error:
        raise ConfigError("The configuration of docker is not valid JSON: %s" % error) from error
    if not isinstance(settings, dict):
        raise ConfigError("The configuration of docker is not a JSON object")
    for key, example in _OBJECTS.items():
        if not isinstance(settings.get(key, {}), (dict, type(None))):
            raise ConfigError("%s in the configuration of docker is not an object. Write it as %s" % (key, example))
    return settings


_OBJECTS = {"features": '{"cdi": true}', "runtimes": '{"NAME": {"path": "/PATH"}}'}


def _json(settings: t.Dict[str, t.Any]) -> bytes:
    return (json.dumps(settings, indent=4, sort_keys=True) + "\n").encode()
