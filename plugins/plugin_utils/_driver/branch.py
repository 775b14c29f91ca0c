# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The branch and the version of a driver."""

from __future__ import annotations

import re
import typing as t

from ...module_utils._common.data import Data
from .._common.refusal import Problems, Refusal
from .sources import DriverRequest, source_remedy

_OLDEST_BRANCH = 515  # the first with open kernel modules
_VERSION = re.compile(r"\d{3}\.\d+(\.\d+)?", re.ASCII)


def select_branch(request: DriverRequest) -> Data:
    """The requested branch as the table has it, and the branch that its packages install. Raises Refusal."""
    requested = _requested(request)
    known: t.Dict[str, Data] = request.source["branches"]
    # A mirror may hold any branch.
    if requested not in known and not (request.source_name == "cuda_repository" and request.settings["repository_url"]):
        _check_unknown(request, requested)
    branch: Data = {"installs": requested, **known.get(requested, {})}
    if branch["installs"] != requested:
        request.notices.append(
            "Branch %s is transitional on %s: its packages install branch %s."
            % (requested, request.table["title"], branch["installs"])
        )
    problems = Problems()
    for check in (_check_series, _check_version):
        with problems.collected():
            check(request, requested, branch)
    problems.refuse()
    return branch


def _requested(request: DriverRequest) -> str:
    requested, version = str(request.settings["branch"]), request.settings["version"]
    if requested == "auto":
        requested = version.split(".")[0] if _VERSION.fullmatch(version) else request.source["default_branch"]
    if not (requested.isascii() and requested.isdigit()) or int(requested) < _OLDEST_BRANCH:
        raise Refusal(
            "nvidia_driver_branch is %r; set it to auto or to a number from %d on" % (requested, _OLDEST_BRANCH)
        )
    return requested


def _check_unknown(request: DriverRequest, requested: str) -> None:
    """Refuse a branch that the source cannot have, or give notice of one that it may have by now."""
    table, source = request.table, request.source
    own = ", ".join(sorted({row.get("installs", name) for name, row in source["branches"].items()}))
    variable = "version" if str(request.settings["branch"]) == "auto" else "branch"
    remedy = "set nvidia_driver_%s to one of these" % variable
    if request.source_name == "distribution":
        raise Refusal(
            "%s itself has no branch %s, but %s; %s%s"
            % (table["title"], requested, own, remedy, source_remedy(table, "cuda_repository", branch=requested))
        )
    if int(requested) < int(source["oldest_branch"]):
        raise Refusal(
            "NVIDIA's repository for %s has no branch %s, but %s; %s%s"
            % (table["title"], requested, own, remedy, source_remedy(table, "distribution", branch=requested))
        )
    request.notices.append(
        "Branch %s is not among the known branches of NVIDIA's repository for %s: %s. The installation fails if the "
        "repository does not offer it." % (requested, table["title"], own)
    )


def _check_series(request: DriverRequest, requested: str, branch: Data) -> None:
    if request.settings["server"] and branch.get("server") is False:
        raise Refusal(
            "%s has no server series of branch %s; set nvidia_driver_server to false, or nvidia_driver_branch to another"
            % (request.table["title"], requested)
        )
    if not request.settings["server"] and branch.get("server") == "only":
        raise Refusal(
            "%s has only the server series of branch %s; set nvidia_driver_server to true"
            % (request.table["title"], requested)
        )


def _check_version(request: DriverRequest, requested: str, branch: Data) -> None:
    version = request.settings["version"]
    if version and not _VERSION.fullmatch(version):
        raise Refusal(
            "nvidia_driver_version is %r; it must be a driver version such as 580.126.20, without the "
            "package's revision" % version
        )
    if version and version.split(".")[0] != branch["installs"]:
        remedy = "; set nvidia_driver_branch to auto"
        if version.split(".")[0] == requested:
            remedy = "; set nvidia_driver_version to one of branch %s%s" % (
                branch["installs"],
                source_remedy(request.table, "cuda_repository", branch=requested),
            )
        raise Refusal(
            "nvidia_driver_version %s is not of branch %s, which nvidia_driver_branch %s installs on %s%s"
            % (version, branch["installs"], requested, request.table["title"], remedy)
        )
