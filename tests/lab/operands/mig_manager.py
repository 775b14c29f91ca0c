# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stand-in for the operator's MIG manager 0.15: applies what the label nvidia.com/mig.config names.

It keeps two defects of the original: if pods do not terminate in time, the state stays pending and the operands paused;
and after one success, a later failure leaves the operands paused.
"""

from __future__ import annotations

import os
import subprocess
import time
import typing as t
from collections import Counter
from pathlib import Path

from . import gpus, mig_config
from .cluster_api import Client, Object, environment, forever, labels_of, say, selector, start
from .mig_config import State, Target

HOST = "/host"
CONFIG = "nvidia.com/mig.config"
STATE = "nvidia.com/mig.config.state"
DEPLOY = "nvidia.com/gpu.deploy."
PAUSED = "paused-for-mig-change"
OPERANDS = ("device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm")
PODS = ("nvidia-device-plugin-daemonset", "gpu-feature-discovery", "nvidia-dcgm-exporter", "nvidia-dcgm")
VALIDATORS = ("nvidia-cuda-validator", "nvidia-device-plugin-validator")
PATIENCE = 300.0


class Stuck(Exception):
    """Pods did not terminate in time."""


class Failed(Exception):
    """The configuration could not be applied."""


class RebootNeeded(Exception):
    pass


def paused(labels: t.Mapping[str, str]) -> t.Dict[str, str]:
    """Labels that pause the operands. Labels with the value "false" are kept; "client" is only changed if it exists."""
    names = [DEPLOY + name for name in OPERANDS]
    names += [name for name in [DEPLOY + "client"] if name in labels]
    return {name: PAUSED for name in names if labels.get(name) != "false"}


def nvidia_smi(*arguments: str) -> None:
    words = ["chroot", HOST, "nvidia-smi", *arguments]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    if done.returncode:
        raise Failed("nvidia-smi %s: %s" % (" ".join(arguments), done.stdout.strip()))


class Gpus:
    """The node's GPUs."""

    def read(self) -> t.List[Target]:
        return [
            Target(gpu.pci_id, State(gpu.mig_enabled, dict(Counter(mig.profile for mig in gpu.devices))))
            for gpu in gpus.read().gpus
        ]

    def set_modes(self, modes: t.Mapping[int, bool]) -> None:
        """Set the mode of all GPUs before any reset, so that one reboot applies it to all."""
        for index, enabled in modes.items():
            if not enabled:
                self.clear(index)
            nvidia_smi("-i", str(index), "-mig", "1" if enabled else "0")
        for index in self._pending(modes):
            try:
                nvidia_smi("--gpu-reset", "-i", str(index))
            except Failed as problem:
                raise RebootNeeded(str(problem)) from problem
        if self._pending(modes):
            raise RebootNeeded("the MIG mode did not change on GPUs %s" % self._pending(modes))

    def _pending(self, modes: t.Mapping[int, bool]) -> t.List[int]:
        now = self.read()
        return [index for index, enabled in modes.items() if now[index].state.enabled != enabled]

    def clear(self, index: int) -> None:
        for option in ("-dci", "-dgi"):
            try:
                nvidia_smi("mig", "-i", str(index), option)
            except Failed as problem:
                if "Not Found" not in str(problem):
                    raise

    def create(self, index: int, devices: t.Mapping[str, int]) -> None:
        problem = None
        for order in mig_config.orders(devices):
            self.clear(index)
            try:
                if order:
                    nvidia_smi("mig", "-i", str(index), "-cgi", ",".join(order), "-C")
                return
            except Failed as failed:
                problem = failed
        self.clear(index)
        raise Failed("error attempting multiple config orderings: %s" % problem)


class Manager:
    def __init__(self, node: str, client: Client, node_gpus: Gpus, read_config: t.Callable[[], t.Any]) -> None:
        self._node, self._client, self._gpus, self._read_config = node, client, node_gpus, read_config
        self._with_reboot = os.environ.get("WITH_REBOOT", "false").lower() == "true"
        self._namespace = os.environ.get("NAMESPACE", "gpu-operator")
        self._succeeded = False
        self._seen: t.Optional[str] = None

    def step(self) -> None:
        """Apply the configuration if the label changed, or if this is the first time."""
        labels = self._labels()
        name = labels.get(CONFIG)
        if name and name != self._seen:
            self._seen = name
            say("updating to MIG config: " + name)
            self._reconfigure(name, labels)

    def _labels(self) -> t.Dict[str, str]:
        return labels_of(self._client.request("GET", "/api/v1/nodes/" + self._node))

    def _set(self, labels: t.Mapping[str, str]) -> None:
        self._client.label_node(self._node, labels)

    def _state(self, state: str) -> None:
        say("%s=%s" % (STATE, state))
        self._set({STATE: state})

    def _reconfigure(self, name: str, labels: t.Mapping[str, str]) -> None:
        try:
            goal = mig_config.wanted(mig_config.selected(self._read_config(), name), self._gpus.read())
            if self._matches(goal):
                say("MIG configuration is already applied")
                self._state("success")
                self._succeeded = True
                return
            modes = self._wrong_modes(goal)
            if modes and labels.get(STATE) == "rebooting":
                raise Failed("MIG mode change did not take effect after rebooting")
            self._state("pending")
            self._set(paused(labels))
            self._wait_for_pods()
            self._gpus.set_modes(modes)
            self._apply(goal)
            self._resume()
            self._state("success")
            self._succeeded = True
        except Stuck as problem:
            say("error: %s" % problem)
        except RebootNeeded as problem:
            say(str(problem))
            if self._with_reboot:
                self._state("rebooting")
                subprocess.run(["chroot", HOST, "systemctl", "reboot"], check=True)
                time.sleep(600)
            self._fail()
        except (Failed, mig_config.Invalid) as problem:
            say("error: %s" % problem)
            self._fail()

    def _fail(self) -> None:
        if not self._succeeded:
            self._resume()
        self._state("failed")

    def _matches(self, goal: t.Mapping[int, State]) -> bool:
        now = self._gpus.read()
        return len(goal) == len(now) and all(now[index].state == state for index, state in goal.items())

    def _wrong_modes(self, goal: t.Mapping[int, State]) -> t.Dict[int, bool]:
        now = self._gpus.read()
        return {index: state.enabled for index, state in goal.items() if now[index].state.enabled != state.enabled}

    def _apply(self, goal: t.Mapping[int, State]) -> None:
        now = self._gpus.read()
        for index, state in goal.items():
            if now[index].state != state:
                self._gpus.create(index, state.devices)
        if not all(self._gpus.read()[index].state == state for index, state in goal.items()):
            raise Failed("the GPUs differ from the configuration after it was applied")

    def _pods(self, app: str) -> t.List[Object]:
        path = "/api/v1/namespaces/%s/pods" % self._namespace
        pods = self._client.items(path + selector("app=" + app))
        return [pod for pod in pods if pod["spec"].get("nodeName") == self._node]

    def _delete(self, *apps: str) -> None:
        for app in apps:
            for pod in self._pods(app):
                self._client.delete("/api/v1/namespaces/%s/pods/%s" % (self._namespace, pod["metadata"]["name"]))

    def _wait_for_pods(self) -> None:
        for app in PODS:
            deadline = time.monotonic() + PATIENCE
            while self._pods(app):
                if time.monotonic() > deadline:
                    raise Stuck("timed out waiting for pods app=%s to be deleted" % app)
                time.sleep(0.5)
        self._delete(*VALIDATORS)

    def _resume(self) -> None:
        """End all pauses, including those from before a reboot."""
        pauses = [name for name, value in self._labels().items() if value == PAUSED]
        if pauses:
            self._delete("nvidia-operator-validator")
            self._set({name: "true" for name in pauses})


def main() -> None:
    import yaml

    start("NVIDIA's MIG manager")
    custom = os.environ.get("CONFIG_FILE")

    def configurations() -> t.Any:
        return yaml.safe_load(Path(custom).read_text()) if custom else mig_config.DEFAULT

    manager = Manager(environment("NODE_NAME"), Client("nvidia-mig-manager"), Gpus(), configurations)
    forever(manager.step, 1)
