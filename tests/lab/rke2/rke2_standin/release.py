# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Properties of this release of the stand-in. The lab adds this file when it builds the release's archive."""

from __future__ import annotations

import json
import pkgutil

_data = json.loads(pkgutil.get_data(__name__.rpartition(".")[0], "release.json") or b"{}")
VERSION: str = _data["version"]  # such as v1.36.3+rke2r1
PAUSE: str = _data["pause"]  # version of the image
HELM_JOB: str = _data["helm_job"]  # image of the jobs that install charts
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "helm-controller")
