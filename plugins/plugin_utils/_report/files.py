# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The files of a report: the page and its data."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t
from pathlib import Path

from ...module_utils._common.data import Data
from .._common.refusal import Refusal
from . import data, page
from .data import Report
from .totals import maps, totals


def write(report: Report, previous: Report | None, path: str, check_mode: bool) -> Data:
    """Write both files, and return where they are. Changed if more than the date differs from existing ones."""
    page_path, data_path = paths(path)
    gpus = maps(report)
    summary = totals(report, gpus)
    content = json.dumps({**data.serialized(report), "totals": summary}, indent=1, sort_keys=True, default=str) + "\n"
    changed = _without_date(json.loads(content)) != _without_date(_existing(data_path))
    if not check_mode:
        try:
            page_path.parent.mkdir(parents=True, exist_ok=True)
            _replace(data_path, content)
            _replace(page_path, page.render(report, gpus, summary, previous, data_path.name))
        except OSError as error:
            raise Refusal("the report cannot be written to %s: %s. Set report_path" % (path, error)) from None
    return {"changed": changed, "page": str(page_path), "data": str(data_path), "totals": summary}


def paths(path: str) -> tuple[Path, Path]:
    """The page and the data: in a directory, or if the path is that of a page, beside it."""
    found = Path(os.path.abspath(os.path.expanduser(path)))
    if found.suffix in (".html", ".htm"):
        return found, found.with_suffix(".json")
    return found / "index.html", found / "report.json"


def previous(path: str) -> Report | None:
    """The report to compare with: a file, or the directory of a report. Raises Refusal."""
    if not path:
        return None
    found = Path(os.path.abspath(os.path.expanduser(path)))
    return data.read(found / "report.json" if found.is_dir() else found)


def _existing(path: Path) -> t.Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _without_date(content: t.Any) -> t.Any:
    return {**content, "created": None} if isinstance(content, dict) else None


def _replace(path: Path, text: str) -> None:
    """Write a file in one step, readable for its owner and group as the umask allows."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".%s." % path.name)
    try:
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
