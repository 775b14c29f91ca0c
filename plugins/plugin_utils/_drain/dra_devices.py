# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""NVIDIA's DRA driver: the devices that it publishes for a node, and the pods that use them.

The driver reads the MIG devices once, when its kubelet plugin starts, so that a change needs a restart. The kubelet
keeps what a stopped plugin has published for half a minute. A node is therefore ready when exactly its own devices are
published. Sources: kubernetes-sigs/dra-driver-nvidia-gpu 0.4.1, NVIDIA/gpu-operator 26.7.
"""

from __future__ import annotations

import typing as t

from ...module_utils._common.data import Data
from ...module_utils._mig import profile as profiles
from ...module_utils._mig.errors import MigError
from .._cluster import readiness
from .._cluster.nodes import Host, labels_of, name_of

ALLOCATOR = "dra"  # value of gpu_cluster_allocator
DRIVER = "gpu.nvidia.com"
_API = "resource.k8s.io/v1"
UNKNOWN = ""  # instead of the UUID of a device that is not published
# Labels of the kubelet plugin's pods: of the driver's chart, its former chart, and the GPU operator.
_PLUGIN_LABELS = (
    ("dra-driver-nvidia-gpu-component", "kubelet-plugin"),
    ("nvidia-dra-driver-gpu-component", "kubelet-plugin"),
    ("app", "nvidia-dra-driver-kubelet-plugin"),
)
COMPONENT = "dra-driver"  # of the GPU operator, which deploys the kubelet plugin
_NAMED = 5  # devices in a message

CLAIMS: Data = {"kind": "ResourceClaim", "api_version": _API}


def slices(node: str = "") -> Data:
    """The request for the ResourceSlices of a node, or of all nodes."""
    return {
        "kind": "ResourceSlice",
        "api_version": _API,
        "field_selectors": ["spec.driver=" + DRIVER, *(["spec.nodeName=" + node] if node else [])],
    }


class DraDevice(t.NamedTuple):
    """A GPU, or a MIG device with its profile. An instance at the same place, of any profile, has the same UUID."""

    uuid: str
    profile: str = ""
    taints: t.Tuple[str, ...] = ()

    def __str__(self) -> str:
        return "%s (%s)" % (self.uuid, self.profile) if self.profile else self.uuid

    def is_like(self, other: DraDevice) -> bool:
        try:
            named = self.profile and other.profile
            one, two = ((profiles.parse(each.profile).gpu_instance if named else None) for each in (self, other))
            return self.uuid == other.uuid and (one is None or two is None or profiles.is_near(one, two))
        except MigError:
            return self[:2] == other[:2]


def published(found: t.Iterable[Data], node: str) -> dict[str, DraDevice] | None:
    """The node's GPUs and MIG devices by name; None if the DRA driver has not published all of them yet."""
    own = [each["spec"] for each in found if each["spec"].get("nodeName") == node]
    newest = max((spec["pool"]["generation"] for spec in own), default=0)
    current = [spec for spec in own if spec["pool"]["generation"] == newest]
    if not current or len(current) != current[0]["pool"]["resourceSliceCount"]:
        return None
    devices = [device for spec in current for device in spec.get("devices") or ()]
    return {
        device["name"]: DraDevice(
            _text(device, "uuid"),
            _text(device, "profile"),
            # Those with the effect None only inform.
            tuple(str(taint["key"]) for taint in device.get("taints") or () if taint.get("effect") != "None"),
        )
        for device in devices
        if _text(device, "type") in ("gpu", "mig")
    }


def _text(device: Data, attribute: str) -> str:
    return str(((device.get("attributes") or {}).get(attribute) or {}).get("string", UNKNOWN))


def claimed(claims: t.Iterable[Data], devices: t.Mapping[str, DraDevice], node: str) -> dict[str, set[str]]:
    """The UUIDs of the GPUs and MIG devices of a node that are reserved for pods, by UID of the pod."""
    out: dict[str, set[str]] = {}
    for claim in claims:
        status = claim.get("status") or {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        names = [each["device"] for each in results if (each["driver"], each["pool"]) == (DRIVER, node)]
        for user in (status.get("reservedFor") or ()) if names else ():
            if user.get("resource") == "pods":
                out.setdefault(user["uid"], set()).update(devices.get(name, DraDevice(UNKNOWN)).uuid for name in names)
    return out


def allocated(host: Host, node: str, claims: t.Iterable[Data], found: t.Sequence[Data]) -> dict[str, set[str]]:
    """The same with UNKNOWN for all devices if those in the ResourceSlices differ from the facts.

    Names of devices recur, so that an outdated one may be that of another device.
    """
    devices = {} if differences(host, node, found) else published(found, node) or {}
    return claimed(claims, devices, node)


def present(host: Host) -> list[DraDevice] | None:
    """The devices that the DRA driver should publish, from the facts; None if they are unknown.

    A GPU in MIG mode is not published itself, only its MIG devices.
    """
    try:
        return None if host.gpus is None else _present(host.gpus)
    except (KeyError, TypeError):  # the node returned something else
        return None


def _present(gpus: t.Sequence[Data]) -> list[DraDevice] | None:
    out: list[DraDevice] = []
    for gpu in gpus:
        if gpu.get("index") is None:
            continue
        mig = gpu["mig"]
        if mig["capable"] is None or (mig["capable"] and mig["current"] is None):
            return None
        if not mig["current"]:
            out.append(DraDevice(gpu["uuid"]))
        elif mig["devices"] is None:
            return None
        else:
            out.extend(DraDevice(device["uuid"], device["profile"]) for device in mig["devices"])
    return out


def differences(host: Host, node: str, found: t.Iterable[Data]) -> list[str]:
    """Where the published devices of a node differ from those in its facts."""
    desired, devices = present(host), published(found, node)
    if desired is None:
        return ["%s: its GPUs or MIG devices cannot be read, nor compared with the published ones" % node]
    if devices is None:
        text = "%s: the DRA driver has not published its devices. Check its pod on the node, and resources.gpus of its chart"
        return [text % node] if desired else []
    current = list(devices.values())
    missing = [each for each in desired if not any(map(each.is_like, current))]
    gone = [each for each in current if not any(map(each.is_like, desired))]
    texts = ["%d of %d devices are not published: %s" % (len(missing), len(desired), _few(missing))] if missing else []
    texts += ["%d published devices do not exist: %s" % (len(gone), _few(gone))] if gone else []
    return (
        ["%s: %s. Restart the kubelet plugin of the DRA driver, or run mig.yml" % (node, "; ".join(texts))]
        if texts
        else []
    )


def tainted(node: str, found: t.Iterable[Data]) -> list[str]:
    """Devices that are published, but that pods may not get, for example because they are faulty."""
    return [
        "%s: the DRA driver has tainted the device %s: %s" % (node, device, ", ".join(device.taints))
        for device in (published(found, node) or {}).values()
        if device.taints
    ]


def _few(devices: t.Sequence[DraDevice]) -> str:
    return ", ".join(map(str, devices[:_NAMED])) + (" and others" if len(devices) > _NAMED else "")


def unready(
    host: Host,
    node: Data,
    pods: t.Sequence[Data],
    found: t.Iterable[Data],
    former: t.Sequence[Data],
    components: t.Collection[str],
) -> list[str]:
    """Why a node cannot return to service yet. ``former`` are pods that were deleted, ``components`` the operator's."""
    out = readiness.node_problems(node)
    found_plugins = kubelet_plugins([*pods, *former])
    found = [each for each in found if each["spec"].get("nodeName") == name_of(node)]
    if not (found_plugins or found) and COMPONENT not in components:  # not installed yet, or not here
        return out
    old = {pod["metadata"].get("uid") for pod in former}
    running = [pod for pod in found_plugins if pod["metadata"].get("uid") not in old]
    expected = found_plugins or COMPONENT in components
    if expected and not any(map(readiness.is_ready, running)):
        out.append("%s: the kubelet plugin of the DRA driver is not ready" % name_of(node))
    return [*out, *differences(host, name_of(node), found)]


def kubelet_plugins(pods: t.Iterable[Data]) -> list[Data]:
    """The pods of the driver's kubelet plugin."""
    return [pod for pod in pods if any(labels_of(pod).get(name) == value for name, value in _PLUGIN_LABELS)]


def dynamic_mig(items: t.Iterable[Data]) -> list[str]:
    """Pods or DaemonSets of a DRA driver that creates and destroys MIG instances itself."""
    templates = [(item, (item.get("spec") or {}).get("template") or item) for item in items]
    return [
        "the DRA driver %s/%s has the feature gate DynamicMIG, and destroys MIG instances that it did not create: disable "
        "the gate" % (item["metadata"].get("namespace"), name_of(item))
        for item, pod in templates
        if _has_dynamic_mig(pod)
    ]


def _has_dynamic_mig(pod: Data) -> bool:
    gates = [
        gate.strip().lower().partition("=")
        for container in pod["spec"].get("containers") or ()
        for variable in container.get("env") or ()
        if variable.get("name") == "FEATURE_GATES"
        for gate in str(variable.get("value")).split(",")
    ]
    values = {name: value in ("true", "t", "1") for name, _equals, value in gates}
    # Other programs have the gate AllAlpha too.
    return values.get("dynamicmig", bool(kubelet_plugins([pod])) and values.get("allalpha", False))


def is_installed(daemonsets: t.Iterable[Data], slices_: t.Collection[Data]) -> bool:
    """Whether the DRA driver is in the cluster, or has published devices."""
    return bool(slices_) or any(kubelet_plugins([item["spec"]["template"]]) for item in daemonsets)
