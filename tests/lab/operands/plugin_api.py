# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kubelet's device plugin API, v1beta1: its messages, for the protobuf library, and its methods.

https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import typing as t

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSION = "v1beta1"
FOLDER = "/var/lib/kubelet/device-plugins"
KUBELET = FOLDER + "/kubelet.sock"
REGISTER = "/v1beta1.Registration/Register"
SERVICE = "v1beta1.DevicePlugin"
HEALTHY = "Healthy"

# Fields in the order of their numbers. A name in brackets is a repeated field; "{}" is a map of strings.
MESSAGES: t.Mapping[str, t.Mapping[str, str]] = {
    "Empty": {},
    "DevicePluginOptions": {"pre_start_required": "bool", "get_preferred_allocation_available": "bool"},
    "RegisterRequest": {
        "version": "string",
        "endpoint": "string",
        "resource_name": "string",
        "options": "DevicePluginOptions",
    },
    "NUMANode": {"ID": "int64"},
    "TopologyInfo": {"nodes": "[NUMANode]"},
    "Device": {"ID": "string", "health": "string", "topology": "TopologyInfo"},
    "ListAndWatchResponse": {"devices": "[Device]"},
    "PreStartContainerRequest": {"devices_ids": "[string]"},
    "PreStartContainerResponse": {},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": "[string]",
        "must_include_deviceIDs": "[string]",
        "allocation_size": "int32",
    },
    "PreferredAllocationRequest": {"container_requests": "[ContainerPreferredAllocationRequest]"},
    "ContainerPreferredAllocationResponse": {"deviceIDs": "[string]"},
    "PreferredAllocationResponse": {"container_responses": "[ContainerPreferredAllocationResponse]"},
    "ContainerAllocateRequest": {"devices_ids": "[string]"},
    "AllocateRequest": {"container_requests": "[ContainerAllocateRequest]"},
    "Mount": {"container_path": "string", "host_path": "string", "read_only": "bool"},
    "DeviceSpec": {"container_path": "string", "host_path": "string", "permissions": "string"},
    "CDIDevice": {"name": "string"},
    "ContainerAllocateResponse": {
        "envs": "{}",
        "mounts": "[Mount]",
        "devices": "[DeviceSpec]",
        "annotations": "{}",
        "cdi_devices": "[CDIDevice]",
    },
    "AllocateResponse": {"container_responses": "[ContainerAllocateResponse]"},
}
SCALARS = {"bool": 8, "int32": 5, "int64": 3, "string": 9}  # protobuf's type numbers
MESSAGE = 11
OPTIONAL, REPEATED = 1, 3


def describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="device-plugin.proto", package=VERSION, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field_name, kind) in enumerate(fields.items(), 1):
            field = message.field.add(name=field_name, number=number)
            field.label = REPEATED if kind[0] in "[{" else OPTIONAL
            kind = kind.strip("[]")
            if kind == "{}":
                kind = name + "." + entry_of(message, field_name)
            if kind in SCALARS:
                field.type = SCALARS[kind]
            else:
                field.type, field.type_name = MESSAGE, ".%s.%s" % (VERSION, kind)
    return file


def entry_of(message: t.Any, field: str) -> str:
    """Add the message that holds an entry of a map; return its name."""
    entry = message.nested_type.add(name=field.capitalize() + "Entry")
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        entry.field.add(name=name, number=number, label=OPTIONAL, type=SCALARS["string"])
    return str(entry.name)


def classes() -> t.Dict[str, t.Any]:
    """A class for each message."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(describe())
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName("%s.%s" % (VERSION, name))) for name in MESSAGES}
