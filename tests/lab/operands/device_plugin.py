# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for NVIDIA's device plugin 0.20, with the original's environment variables.

It reads the GPUs and its configuration once, when it starts, and again only after a restart of the kubelet and on
SIGHUP.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import typing as t
import uuid
from concurrent import futures
from pathlib import Path

import grpc

from . import gpus, plugin_api, plugin_config, resources
from .cluster_api import reload_on_hangup, restart, say, start
from .resources import Settings

HOST = "/host"  # the node's root directory
MINORS = Path("/proc/driver/nvidia-caps/mig-minors")
SPEC = "/var/run/cdi/%s-gpu.json" % resources.CDI_VENDOR
TYPES = plugin_api.classes()
CAP_NET_ADMIN = 12


class Plugin:
    """One resource. The kubelet calls the methods named as in its API."""

    def __init__(self, name: str, devices: t.Sequence[resources.Device], settings: Settings) -> None:
        self._name, self._settings = name, settings
        self._devices = {device.id: device for device in devices}
        self.socket = "nvidia-%s.sock" % name.partition("/")[2]

    def GetDevicePluginOptions(self, _request: t.Any, _context: t.Any) -> t.Any:
        return options()

    def ListAndWatch(self, _request: t.Any, context: t.Any) -> t.Iterator[t.Any]:
        devices = [TYPES["Device"](ID=each, health=plugin_api.HEALTHY) for each in self._devices]
        yield TYPES["ListAndWatchResponse"](devices=devices)
        while context.is_active():  # the list never changes
            time.sleep(1)

    def GetPreferredAllocation(self, request: t.Any, _context: t.Any) -> t.Any:
        chosen = [
            resources.preferred(each.available_deviceIDs, each.must_include_deviceIDs, each.allocation_size)
            for each in request.container_requests
        ]
        make = TYPES["ContainerPreferredAllocationResponse"]
        return TYPES["PreferredAllocationResponse"](container_responses=[make(deviceIDs=ids) for ids in chosen])

    def Allocate(self, request: t.Any, context: t.Any) -> t.Any:
        made = []
        for each in request.container_requests:
            unknown = sorted(set(each.devices_ids) - set(self._devices))
            if unknown:
                context.abort(
                    grpc.StatusCode.UNKNOWN,
                    'invalid allocation request for "%s": invalid request: unknown device: %s'
                    % (self._name, unknown[0]),
                )
            devices = [self._devices[name] for name in each.devices_ids]
            say("allocated %s: %s" % (self._name, ", ".join(each.devices_ids)))
            allocation = resources.allocate(
                devices,
                self._settings.lists,
                self._settings.pass_nodes,
                str(uuid.uuid4()),
                self._settings.prefix,
            )
            made.append(response(allocation))
        return TYPES["AllocateResponse"](container_responses=made)

    def PreStartContainer(self, _request: t.Any, _context: t.Any) -> t.Any:
        return TYPES["PreStartContainerResponse"]()

    def serve(self) -> grpc.Server:
        server = grpc.server(futures.ThreadPoolExecutor(max_workers=8))
        requests = {
            "GetDevicePluginOptions": "Empty",
            "ListAndWatch": "Empty",
            "GetPreferredAllocation": "PreferredAllocationRequest",
            "Allocate": "AllocateRequest",
            "PreStartContainer": "PreStartContainerRequest",
        }
        handlers = {}
        for name, message in requests.items():
            make = (
                grpc.unary_stream_rpc_method_handler if name == "ListAndWatch" else grpc.unary_unary_rpc_method_handler
            )
            handlers[name] = make(getattr(self, name), TYPES[message].FromString, lambda made: made.SerializeToString())
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(plugin_api.SERVICE, handlers)])
        server.add_insecure_port("unix://%s" % Path(plugin_api.FOLDER, self.socket))
        server.start()
        return server

    def register(self) -> None:
        request = TYPES["RegisterRequest"](
            version=plugin_api.VERSION, endpoint=self.socket, resource_name=self._name, options=options()
        )
        with grpc.insecure_channel("unix://" + plugin_api.KUBELET) as channel:
            call = channel.unary_unary(
                plugin_api.REGISTER, lambda made: made.SerializeToString(), TYPES["Empty"].FromString
            )
            call(request, timeout=10, wait_for_ready=True)
        say("registered %s with the kubelet: %s" % (self._name, ", ".join(self._devices)))


def options() -> t.Any:
    return TYPES["DevicePluginOptions"](get_preferred_allocation_available=True)


def response(made: resources.Allocation) -> t.Any:
    node = TYPES["DeviceSpec"]
    return TYPES["ContainerAllocateResponse"](
        envs=made.envs,
        devices=[
            node(container_path=path, host_path=path, permissions="rw") for path in made.nodes if os.path.exists(path)
        ],
        annotations=made.annotations,
        cdi_devices=[TYPES["CDIDevice"](name=name) for name in made.cdi_devices],
    )


def write_cdi_specification() -> None:
    """The original generates it with the toolkit's library; this stand-in calls the node's toolkit."""
    done = subprocess.run(
        [
            *("chroot", HOST, "nvidia-ctk", "cdi", "generate", "--format=json", "--output=" + SPEC),
            *("--vendor=" + resources.CDI_VENDOR, "--class=gpu", "--device-name-strategy=uuid"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        check=False,
    )
    if done.returncode and "empty device edits" in done.stdout:
        say("ignoring an empty CDI specification: all GPUs are in MIG mode, without instances")
    elif done.returncode:
        raise resources.Invalid("cannot write the CDI specification %s: %s" % (SPEC, done.stdout))


def privileged() -> bool:
    """Whether the container is privileged: a capability that no other container here has."""
    status = Path("/proc/self/status").read_text()
    capabilities = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(capabilities, 16) >> CAP_NET_ADMIN & 1)


def run() -> None:
    replicas = plugin_config.load(os.environ)
    chosen = resources.settings(os.environ)
    say("MIG strategy %s, device list strategy %s" % (chosen.strategy, ",".join(chosen.lists)))
    minors = resources.read_minors(MINORS.read_text()) if MINORS.exists() else {}
    found = gpus.read().gpus
    # The original reads GPU instances. SYS_ADMIN does not open them with the toolkit's device specification.
    if chosen.strategy == "mixed" and any(gpu.devices for gpu in found) and not privileged():
        raise resources.Invalid("error getting GPU Instance: Insufficient Permissions")
    offered = plugin_config.shared(resources.resources(found, chosen.strategy, minors), replicas)
    if any(each.startswith("cdi-") for each in chosen.lists):
        write_cdi_specification()
    for path in Path(plugin_api.FOLDER).glob("nvidia-*.sock"):
        path.unlink()
    if not offered:
        say("no devices found: waiting indefinitely")
    kubelet = os.stat(plugin_api.KUBELET)
    plugins = [Plugin(name, devices, chosen) for name, devices in offered.items()]
    servers = [plugin.serve() for plugin in plugins]
    for plugin in plugins:
        plugin.register()
    while servers is not None:
        time.sleep(1)
        try:
            now = os.stat(plugin_api.KUBELET)
        except FileNotFoundError:
            continue
        if (now.st_ino, now.st_ctime) != (kubelet.st_ino, kubelet.st_ctime):
            restart("the kubelet was restarted")


def main() -> None:
    start("NVIDIA's device plugin")
    reload_on_hangup()
    try:
        run()
    except resources.Invalid as problem:
        sys.exit("error starting plugins: %s" % problem)
