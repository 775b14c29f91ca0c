# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Driver repositories, branches and package names of each supported operating system.

``distributions/debian_13.yml`` has what is specific to a release, such as the default branch of each source.
``distributions/debian.yml`` has what all releases of the distribution share.
"""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ...module_utils._common.data import Data
from .._common.refusal import Refusal

_FOLDER = Path(__file__).with_name("distributions")


def system_names() -> t.List[str]:
    """The supported operating systems, sorted, such as debian_13."""
    return sorted(path.stem for path in _FOLDER.glob("*_*.yml"))


def system_name(facts: t.Mapping[str, t.Any]) -> str:
    """The operating system of a node, from Ansible's facts."""
    distribution, release = str(facts["distribution"]), str(facts["distribution_major_version"])
    if facts["os_family"] == "RedHat":
        name = "el_" + release
    elif distribution == "Ubuntu":
        name = "ubuntu_" + str(facts["distribution_version"])
    else:
        name = "%s_%s" % (distribution.lower(), release)
    if name not in system_names():
        raise Refusal(
            "no driver packages are known for %s %s: the supported systems are %s"
            % (
                distribution,
                facts["distribution_version"],
                ", ".join(load_table(each)["title"] for each in system_names()),
            )
        )
    return name


@functools.lru_cache(maxsize=None)
def load_table(name: str) -> Data:
    """The table of an operating system."""
    family = name.split("_", maxsplit=1)[0]
    shared, own = _read(family), _read(name)
    sources = {source: {**shared["sources"][source], **rows} for source, rows in own["sources"].items()}
    return {**shared, **own, "family": family, "sources": sources}


def _read(name: str) -> Data:
    text = (_FOLDER / (name + ".yml")).read_text(encoding="utf-8")
    return t.cast("Data", yaml_load(text))
