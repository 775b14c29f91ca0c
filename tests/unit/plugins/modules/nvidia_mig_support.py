# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Layouts and results for the tests of the module nvidia_mig."""

from __future__ import annotations

MIXED = {"3g.20gb": 1, "1g.5gb": 2}


def on(mig_devices, devices="all"):
    return {"devices": devices, "mig_enabled": True, "mig_devices": mig_devices}


def off(devices="all"):
    return {"devices": devices, "mig_enabled": False}


def places(instances):
    return ["%s at %d:%d" % (item["profile"], item["start"], item["size"]) for item in instances]


def without_ids(gpu):
    def bare(instances):
        return [
            dict(item, id=None, compute_instances=[dict(ci, id=None, uuid=None) for ci in item["compute_instances"]])
            for item in instances
        ]

    return dict(gpu, mode=None, kept=bare(gpu["kept"]), created=bare(gpu["created"]), destroyed=bare(gpu["destroyed"]))


def warnings(result):
    """In ansible-core 2.19 a warning has more fields than its text."""
    return [item if isinstance(item, str) else item["event"]["msg"] for item in result.get("warnings", [])]


def refused(driver, *entries, **options):
    result = driver.run(*entries, **options)
    assert result["failed"] is True
    assert result["changed"] is False
    assert driver.writes == []
    return result["msg"]
