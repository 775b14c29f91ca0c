# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compare a cluster with a plan, and report the differences as problems."""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from .._cluster.api import Api
from .._cluster.readiness import ExpectedNode
from . import device_check, device_jobs, wait
from .device_check import Checked

_WITHOUT_CLIENT = "the cluster cannot be read, because %s has no Kubernetes client. Run %s"
_OUTDATED = "the cluster does not match the variables: %s. Run %s"


class Options(t.NamedTuple):
    """How the cluster is compared."""

    server: str  # the host that uses the API
    playbook: str  # that applies the plan
    helm_changes: bool  # whether helm would change the chart
    check_pods: bool  # whether pods check the GPUs of nodes that are ready
    image: str  # of these pods
    timeout: int  # seconds for them


def compare(api: Api, plan: Data, options: Options) -> tuple[list[str], Checked]:
    """The differences that concern the cluster, and the GPUs that were checked. ``plan`` is that of gpu_cluster_plan."""
    if plan["missing"]:
        return [_WITHOUT_CLIENT % (options.server, options.playbook)], Checked()
    if plan["problems"]:
        return [], Checked()
    outdated = [
        *plan["outdated"],
        *(["Helm release %s" % plan["settings"]["release"]] if options.helm_changes else []),
    ]
    problems = [_OUTDATED % (each, options.playbook) for each in outdated]
    expected = {node: ExpectedNode(**each) for node, each in plan["expected"].items()}
    unready = _unready(api, plan, expected)
    # If a node does not advertise its GPUs, the pods would stay pending.
    checked = _checked(api, plan, expected, options) if options.check_pods and not unready else Checked()
    return [*problems, *unready, *checked.problems], checked


def by_host(plan: Data, hosts: t.Sequence[str], of_cluster: t.Sequence[str]) -> dict[str, list[str]]:
    """All problems. Those of the cluster are reported for the first host, of those that have not failed before."""
    pending = plan.get("pending", {})
    problems = {
        host: [*plan["problems"].get(host, ()), *pending.get(host, {}).get("differences", ())] for host in hosts
    }
    problems[hosts[0]] += of_cluster
    return problems


def _unready(api: Api, plan: Data, expected: t.Mapping[str, ExpectedNode]) -> list[str]:
    """Why nodes do not match their layouts."""
    settings = plan["settings"]
    helm_chart = settings["release"] if plan["method"] == "helm_chart" else ""
    options = wait.Options(settings["namespace"], helm_chart, elsewhere=True, timeout=0, settle=0)
    state = wait.wait(api, expected, options, show=lambda _text: None)
    return [*state.failed, *state.waiting]


def _checked(api: Api, plan: Data, expected: t.Mapping[str, ExpectedNode], options: Options) -> Checked:
    pods = device_jobs.Options(
        strategy=plan["settings"]["mig_strategy"],
        has_gfd=plan["has_gfd"],
        namespace=plan["settings"]["namespace"],
        runtime_class=plan["pods_runtime_class"],
        image=options.image,
        timeout=options.timeout,
    )
    return device_check.check(api, expected, pods)
