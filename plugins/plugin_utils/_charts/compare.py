# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Compare a cluster with a plan, and report the differences as problems."""

from __future__ import annotations

import typing as t

from .._cluster.api import Api
from . import device_check, device_jobs, wait
from .build import ChartPlan
from .device_check import Checked
from .plan import Planned

_WITHOUT_CLIENT = "the cluster cannot be read, because %s has no Kubernetes client. Run %s"
_OUTDATED = "the cluster does not match the variables: %s. Run %s"


class CompareOptions(t.NamedTuple):
    """How the cluster is compared."""

    server: str  # the host that uses the API
    playbook: str  # that applies the plan
    helm_changes: bool  # whether helm would change the chart
    check_pods: bool  # whether pods check the GPUs of nodes that are ready
    image: str  # of these pods
    timeout: int  # seconds for them


def compare_cluster(
    api: Api, planned: Planned, options: CompareOptions, show: t.Callable[[str], object]
) -> tuple[list[str], Checked]:
    """The differences that concern the cluster, and the GPUs that were checked."""
    if planned.missing:
        return [_WITHOUT_CLIENT % (options.server, options.playbook)], Checked()
    plan, settings = planned.plan, planned.settings
    if plan is None:
        return [], Checked()
    outdated = [*plan.outdated, *(["Helm release %s" % settings["release"]] if options.helm_changes else [])]
    problems = [_OUTDATED % (each, options.playbook) for each in outdated]
    unready = _unready(api, plan, settings)
    # If a node does not advertise its GPUs, the pods would stay pending.
    checked = _checked(api, plan, settings, options, show) if options.check_pods and not unready else Checked()
    return [*problems, *unready, *checked.problems], checked


def problems_by_host(planned: Planned, hosts: t.Sequence[str], of_cluster: t.Sequence[str]) -> dict[str, list[str]]:
    """All problems. Those of the cluster are reported for the first host, of those that have not failed before."""
    later = planned.plan.while_drained if planned.plan else {}
    problems = {
        host: [*planned.problems.get(host, ()), *(later[host].differences if host in later else ())] for host in hosts
    }
    problems[hosts[0]] += of_cluster
    return problems


def _unready(api: Api, plan: ChartPlan, settings: t.Mapping[str, t.Any]) -> list[str]:
    """Why nodes do not match their layouts."""
    helm_chart = settings["release"] if plan.method == "helm_chart" else ""
    options = wait.WaitOptions(settings["namespace"], helm_chart, elsewhere=True, timeout=0, settle=0)
    state = wait.wait_for_nodes(api, plan.expected, options, show=lambda _text: None)
    return [*state.failed, *state.waiting]


def _checked(
    api: Api,
    plan: ChartPlan,
    settings: t.Mapping[str, t.Any],
    options: CompareOptions,
    show: t.Callable[[str], object],
) -> Checked:
    pods = device_jobs.JobOptions(
        strategy=settings["mig_strategy"],
        has_gfd=plan.has_gfd,
        namespace=settings["namespace"],
        runtime_class=plan.pods_runtime_class,
        image=options.image,
        timeout=options.timeout,
    )
    return device_check.check_devices(api, plan.expected, pods, show)
