# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: plan what a role installs in a cluster, and list the reasons why it cannot."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import shutil
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import permissions
from ansible_collections.gpufleet.node.plugins.plugin_utils._charts import plan as charts_plan
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.api import Api, Unreadable
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster.nodes import host_of
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import clean
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.truth import is_true
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

_ARGUMENTS = {
    "role": {"type": "str", "required": True, "choices": ["gpu_operator", "device_plugin"]},
    "may_be_missing": {"type": "bool", "default": False},
    "on_controller": {"type": "bool", "default": True},
    "changes": {"type": "bool", "default": True},
    "check_pods": {"type": "bool", "default": True},
}
_NO_HELM = (
    "the controller lacks the command helm, which installs charts in a cluster without helm-controller: install it, or set "
    "gpu_cluster_host to a server of the cluster"
)
# Variables of other roles that affect the plan.
_OTHERS: t.Mapping[str, t.Callable[[object], t.Any]] = {
    "nvidia_mig_owner": lambda value: str(value or "host"),
    "nvidia_mig_reboot": is_true,
    "gpu_cluster_drain": is_true,
}


class ActionModule(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    _VALID_ARGS = frozenset(_ARGUMENTS)
    _requires_connection = True

    @clean
    def run(self, tmp: object = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(_ARGUMENTS)
        variables = task_vars or {}
        role = arguments["role"]
        names = sorted(inventory_variables.variables_of(role))
        values = {name: self._templar.template(variables[name]) for name in names if name in variables}
        own, errors = inventory_variables.validated(role, values)
        hostvars = variables["hostvars"]
        hosts = [host_of(name, hostvars[name]) for name in variables["ansible_play_hosts"]]
        gone = set(variables["ansible_play_hosts_all"]) - {host.name for host in hosts}
        with_gpus = [host.name for host in hosts if host.gpus != []] or [hosts[0].name]
        others = _others(hostvars[with_gpus[0]])
        result.update(changed=False, plan={}, missing=False)
        if errors:
            return {**result, **_refused({hosts[0].name: errors})}
        prefix = role + "_"
        settings = charts_plan.Settings(
            role=role,
            own={name[len(prefix) :]: value for name, value in own.items() if name.startswith(prefix)},
            owner=others["nvidia_mig_owner"],
            reboot=others["nvidia_mig_reboot"],
            drain=others["gpu_cluster_drain"],
            changes=arguments["changes"],
            check_pods=arguments["check_pods"],
            may_be_missing=arguments["may_be_missing"],
            on_controller=arguments["on_controller"],
            selected=[each for each in charts_plan.CHARTS if each + "_version" in variables],
        )
        failed = [host_of(name, hostvars[name]) for name in sorted(gone)]
        cluster = self._cluster(settings, variables)
        planned = charts_plan.plan(settings, hosts, cluster, failed)
        if planned.plan:
            chart = planned.plan["helm_chart"] = self._helm_chart(settings.own, planned.plan["values_text"])
            if planned.plan["method"] == "helm_chart" and not charts_plan.chart_is_current(chart, cluster.helm_charts):
                planned.plan["outdated"].append("HelmChart")
        planned.problems[hosts[0].name].extend(self._wrong_chart(role, settings.own))
        for host in hosts:
            planned.problems[host.name].extend(
                inventory_variables.forged(hostvars[host.name].get("ansible_facts") or {})
            )
        for host in hosts[1:]:
            other = hostvars[host.name]
            given = {name: other[name] for name in own if name in other}
            planned.problems[host.name].extend(_different({**own, **values}, given, hosts[0].name))
        for name in with_gpus[1:]:
            given = _others(hostvars[name])
            if others["nvidia_mig_owner"] != "operator":
                del given["nvidia_mig_reboot"]  # otherwise it is a value of the chart
            planned.problems[name].extend(_different(others, given, with_gpus[0]))
        if planned.plan.get("method") == "helm" and arguments["on_controller"] and not shutil.which("helm"):
            planned.problems[hosts[0].name].append(_NO_HELM)
        problems = {name: found for name, found in planned.problems.items() if found}
        result.update(
            _refused(problems),
            plan={} if problems else planned.plan,
            missing=planned.missing,
            settings=settings.own,
        )
        if planned.warnings:
            result["warnings"] = planned.warnings
        return result

    def _cluster(self, settings: charts_plan.Settings, variables: dict[str, t.Any]) -> charts_plan.Cluster:
        api, objects = Api(self, variables), charts_plan.objects(settings)
        try:
            found = api.call("gpufleet.node.gpu_cluster_objects", objects=list(objects.values()))["results"]
        except Unreadable as error:
            return charts_plan.Cluster(nodes={"msg": str(error)})
        cluster = charts_plan.Cluster(**dict(zip(objects, found, strict=True)))
        reviews = permissions.reviews(charts_plan.permissions(settings, cluster))
        with contextlib.suppress(Unreadable):  # the plan ignores reviews that the API did not evaluate
            answer = api.call("kubernetes.core.k8s", resource_definition=reviews)
            return cluster._replace(reviews=answer["result"]["results"])
        return cluster

    def _helm_chart(self, own: t.Mapping[str, t.Any], values: str) -> dict[str, t.Any]:
        """The HelmChart specification for RKE2 and k3s. It embeds a chart that is a file on the controller."""
        target = {"targetNamespace": own["namespace"], "valuesContent": values}
        if own["chart_file"]:
            return {"chartContent": base64.b64encode(self._chart_file(own)).decode(), **target}
        repository = {"repo": own["repository"]} if own["repository"] else {}  # helm-controller removes empty keys
        return {"chart": own["chart"], "version": own["version"], **repository, **target}

    def _chart_file(self, own: t.Mapping[str, t.Any]) -> bytes:
        with open(self._find_needle("files", own["chart_file"]), "rb") as file:
            return file.read()

    def _wrong_chart(self, role: str, own: t.Mapping[str, t.Any]) -> list[str]:
        """A problem if the chart does not have the checksum that the variables require."""
        wanted = own["chart_checksum"].lower()
        if not wanted:
            return []
        if not own["chart_file"]:
            return ["%s_chart_checksum needs %s_chart_file: download the chart with helm pull" % (role, role)]
        algorithm = wanted[:6] if wanted.startswith(("sha384:", "sha512:")) else "sha256"
        found = "%s:%s" % (algorithm, hashlib.new(algorithm, self._chart_file(own)).hexdigest())
        text = "%s_chart_file has the checksum %s, and %s_chart_checksum is %s"
        return [text % (role, found, role, wanted)] if found != wanted else []


def _others(variables: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {name: kind(variables.get(name)) for name, kind in _OTHERS.items()}


def _refused(problems: t.Mapping[str, list[str]]) -> dict[str, t.Any]:
    refusal = "; ".join("%s: %s" % (host, "; ".join(found)) for host, found in problems.items())
    return {"problems": problems, "refusal": refusal}


def _different(values: t.Mapping[str, t.Any], given: t.Mapping[str, t.Any], first: str) -> list[str]:
    return [
        "%s differs from its value on %s, but cluster roles run once for all hosts: use one value for all"
        % (name, first)
        for name in sorted(given)
        if given[name] != values[name]
    ]
