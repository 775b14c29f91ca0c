# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Reads a configuration file from the node. What is in it is judged elsewhere."""

from __future__ import annotations

import json
import typing as t

from .._mig.errors import LayoutError


def read(path: str) -> t.Any:
    """The document in the file: JSON with the standard library, YAML where PyYAML is there."""
    try:
        with open(path, encoding="utf-8") as handle:
            text = handle.read()
    except (OSError, UnicodeDecodeError) as error:
        raise LayoutError(
            "config_file %s cannot be read on the node: %s. A file on the controller is given in layout instead: "
            "\"{{ (lookup('ansible.builtin.file', PATH) | from_yaml)['mig-configs'][NAME] }}\"" % (path, error)
        ) from error
    try:
        return json.loads(text)
    except ValueError:
        return _yaml(path, text)


def _yaml(path: str, text: str) -> t.Any:
    try:
        import yaml
    except ImportError:
        raise LayoutError(
            "config_file %s is not JSON, and the Python on the node that runs this has no PyYAML. Install it there "
            "(package python3-yaml or python3-pyyaml), or give the configuration in layout: "
            "\"{{ (lookup('ansible.builtin.file', PATH) | from_yaml)['mig-configs'][NAME] }}\"" % path
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise LayoutError("config_file %s is neither JSON nor YAML: %s" % (path, error)) from error
