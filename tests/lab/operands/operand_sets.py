# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The DaemonSets that the operator creates for its operands."""

from __future__ import annotations

import typing as t

Object = t.Dict[str, t.Any]
DEPLOY = "nvidia.com/gpu.deploy."
STAND_IN = {"gpufleet.invalid/stand-in": "this is not NVIDIA's program"}
RUNTIME_VARIABLES = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
VALIDATIONS = "/run/nvidia/validations"


class Operand(t.NamedTuple):
    section: str  # of the policy, with the image and the environment
    name: str  # of the DaemonSet
    deploy: str  # suffix of the label name
    command: str


OPERANDS = (
    Operand("validator", "nvidia-operator-validator", "operator-validator", "nvidia-validator"),
    Operand("devicePlugin", "nvidia-device-plugin-daemonset", "device-plugin", "nvidia-device-plugin"),
    Operand("gfd", "gpu-feature-discovery", "gpu-feature-discovery", "gpu-feature-discovery"),
    Operand("migManager", "nvidia-mig-manager", "mig-manager", "nvidia-mig-manager"),
)


def enabled(operand: Operand, spec: Object) -> bool:
    return bool(spec.get(operand.section, {}).get("enabled", True))


def image(section: Object, version: str) -> str:
    return "%s/%s:%s" % (section["repository"], section["image"], section.get("version") or version)


def variables(values: t.Mapping[str, str], section: Object) -> t.List[Object]:
    """Variables of a container; the policy's override ours."""
    own = {each["name"]: each for each in section.get("env") or []}
    return [{"name": name, "value": value} for name, value in values.items() if name not in own] + list(own.values())


def own_fields() -> t.List[Object]:
    fields = {"NODE_NAME": "spec.nodeName", "NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"}
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]


def settings(operand: Operand, spec: Object) -> t.Dict[str, str]:
    """The environment that the operator gives an operand."""
    made = dict(RUNTIME_VARIABLES)
    if operand.section in ("devicePlugin", "gfd"):
        made["MIG_STRATEGY"] = spec["mig"]["strategy"]
        made["FAIL_ON_INIT_ERROR"] = "true"
    if configurable(operand) and plugin_config(spec):
        made["CONFIG_FILE"] = "/config/config.yaml"
    if operand.command == "nvidia-device-plugin":
        made["PASS_DEVICE_SPECS"] = "true"
        with_cdi = spec.get("cdi", {}).get("enabled")
        made["DEVICE_LIST_STRATEGY"] = "cdi-annotations,cdi-cri" if with_cdi else "envvar"
        if with_cdi:
            made["CDI_ANNOTATION_PREFIX"] = "nvidia.cdi.k8s.io/"
            made["PASS_DEVICE_SPECS"] = "false"
    if operand.section == "migManager" and own_config(spec):
        made["CONFIG_FILE"] = "/mig-parted-config/config.yaml"
    return made


def own_config(spec: Object) -> str:
    """The ConfigMap with the user's MIG configurations, or an empty string."""
    return str((spec["migManager"].get("config") or {}).get("name") or "")


def configurable(operand: Operand) -> bool:
    """Whether it reads the device plugin's configuration file."""
    return operand.section in ("devicePlugin", "gfd")


def plugin_config(spec: Object) -> str:
    """The ConfigMap with the device plugin's configuration files, or an empty string."""
    return str((spec["devicePlugin"].get("config") or {}).get("name") or "")


def config_manager(spec: Object, process: str) -> t.Dict[str, str]:
    """The environment of a config manager, which runs once if it has no process to signal."""
    return {
        "ONESHOT": "false" if process else "true",
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": "/available-configs",
        "CONFIG_FILE_DST": "/config/config.yaml",
        "DEFAULT_CONFIG": spec["devicePlugin"]["config"].get("default") or "",
        "SEND_SIGNAL": "true" if process else "false",
        "SIGNAL": "1",
        "PROCESS_TO_SIGNAL": process,
    }


def mounts(operand: Operand, spec: Object) -> t.Tuple[t.List[Object], t.List[Object]]:
    """Mounts of the containers, and the pod's volumes."""
    paths = {"host": ("/host", "/"), "validations": (VALIDATIONS, VALIDATIONS)}
    if operand.section == "devicePlugin":
        folder = "/var/lib/kubelet/device-plugins"
        root = spec.get("hostPaths", {}).get("kubeletRootDir") or "/var/lib/kubelet"
        paths["plugins"] = (folder, root + "/device-plugins")
    volumes = [
        {
            "name": name,
            "hostPath": {"path": path, "type": "DirectoryOrCreate" if name == "validations" else ""},
        }
        for name, (_place, path) in paths.items()
    ]
    made: t.List[Object] = [{"name": name, "mountPath": place} for name, (place, _path) in paths.items()]
    made[0]["mountPropagation"] = "HostToContainer"
    if operand.section == "migManager" and own_config(spec):
        volumes.append({"name": "config", "configMap": {"name": own_config(spec)}})
        made.append({"name": "config", "mountPath": "/mig-parted-config"})
    if configurable(operand) and plugin_config(spec):
        volumes += [
            {"name": "available-configs", "configMap": {"name": plugin_config(spec)}},
            {"name": "config", "emptyDir": {}},
        ]
        made += [{"name": name, "mountPath": "/" + name} for name in ("available-configs", "config")]
    return made, volumes


def daemon_set(operand: Operand, spec: Object, namespace: str, version: str, runtime_class: str) -> Object:
    section = spec[operand.section]
    common = spec.get("daemonsets", {})
    places, volumes = mounts(operand, spec)

    def container(name: str, command: t.Sequence[str], extra: t.Mapping[str, str]) -> Object:
        return {
            "name": name,
            "image": image(section, version),
            "imagePullPolicy": section.get("imagePullPolicy") or "IfNotPresent",
            "command": list(command),
            "env": [*own_fields(), *variables({**settings(operand, spec), **extra}, section)],
            "securityContext": {"privileged": True},
            "volumeMounts": places,
        }

    if operand.section == "validator":
        extra = {"RUNTIME_CLASS": runtime_class, "MIG_STRATEGY": spec["mig"]["strategy"]}  # restarts it, too
        components = ("driver", "toolkit", "plugin")
        before = [
            container(name + "-validation", [operand.command], {**extra, "COMPONENT": name}) for name in components
        ]
        main = container(operand.name, [operand.command], {"COMPONENT": "wait"})
        clean = "rm -f %s/*-ready" % VALIDATIONS
        main["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", clean]}}}
    else:
        wait = "trap exit TERM; until [ -f %s/toolkit-ready ]; do echo waiting for the nvidia container stack; sleep 2; done"
        before = [container("toolkit-validation", ["sh", "-c", wait % VALIDATIONS], {})]
        main = container(operand.name, [operand.command], {})
    containers = [main]
    managed = configurable(operand) and plugin_config(spec)
    if managed:
        before.append(container("config-manager-init", ["config-manager"], config_manager(spec, "")))
        containers.append(container("config-manager", ["config-manager"], config_manager(spec, operand.command)))
    # To reboot, the MIG manager calls the node's systemd.
    host_pid = operand.section == "migManager"
    if section.get("args"):
        main["args"] = section["args"]
    if section.get("resources"):
        main["resources"] = section["resources"]
    labels = {"app": operand.name}
    pod = {
        "nodeSelector": {DEPLOY + operand.deploy: "true"},
        "tolerations": common.get("tolerations") or [],
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        "serviceAccountName": "nvidia-operands",
        "runtimeClassName": runtime_class,
        "hostPID": host_pid,
        "shareProcessNamespace": bool(managed),
        "imagePullSecrets": [{"name": name} for name in section.get("imagePullSecrets") or []],
        "initContainers": before,
        "containers": containers,
        "volumes": volumes,
    }
    update: Object = {"type": common.get("updateStrategy") or "RollingUpdate"}
    if update["type"] == "RollingUpdate":
        most = str((common.get("rollingUpdate") or {}).get("maxUnavailable") or "1")
        update["rollingUpdate"] = {"maxUnavailable": int(most) if most.isdigit() else most}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": operand.name, "namespace": namespace, "labels": labels, "annotations": STAND_IN},
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": update,
            "template": {
                "metadata": {
                    "labels": {**(common.get("labels") or {}), **labels},
                    "annotations": {**(common.get("annotations") or {}), **STAND_IN},
                },
                "spec": pod,
            },
        },
    }
