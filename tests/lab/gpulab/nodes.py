# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes: systemd machines in containers, each with an address, hardware and a kernel of its own."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
import typing as t
from pathlib import Path

from . import images, keys, repositories, rpm, serve, shared, vm
from .places import (
    GATEWAY,
    LAB,
    LABNS,
    LOOPBACK,
    NETWORK,
    NODES,
    PREFIX,
    SHARED,
    SOCKETS,
    SUBNET,
    URL,
    LabError,
    alone,
    call,
    podman,
    succeeds,
)

FIRST, LAST = 11, 250  # addresses for nodes
STORES = ("containerd", "docker")  # /var/lib/...: an overlay cannot lie on an overlay
COMPILED = LAB / "compiled"  # bytecode, which is the same on all nodes
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
# Every node's systemd takes some of these, and all nodes are the machine's root; its 128 do for ten nodes.
INOTIFY = "/proc/sys/fs/inotify/max_user_instances"
INSTANCES = 4096
READY = 180  # seconds; a node needs one or two
MACHINE_READY = 900  # a machine twenty to forty, where its software CPU has a CPU to itself


class Wish(t.NamedTuple):
    name: str
    image: str = "bookworm"
    boards: t.Sequence[str] = ()  # as `nvsim create --board`
    driver: t.Optional[str] = None  # a driver that is there already
    open_module: bool = False
    nvswitches: t.Sequence[str] = ()  # PCI device ids
    simulator: t.Sequence[str] = ()  # further options of `nvsim create`
    network: bool = True
    kernel: t.Optional[str] = None  # what `uname -r` says, where that is not the machine's
    machine: bool = False  # with a kernel of its own, in place of a container


class Node(t.NamedTuple):
    name: str
    address: str
    image: str
    running: bool


def checked(name: str) -> str:
    if not name.startswith(PREFIX) or name == NETWORK:
        raise LabError("a node's name begins with %s: %s" % (PREFIX, name))
    return name


def network() -> None:
    remember_the_machine()
    instances = Path(INOTIFY)
    if int(instances.read_text()) < INSTANCES:
        instances.write_text(str(INSTANCES))
    if succeeds(LABNS, "podman", "network", "exists", NETWORK):
        return
    remove_bridge()
    podman("network", "create", "--subnet", SUBNET + ".0/24", "--gateway", GATEWAY, NETWORK)


def remove_bridge() -> None:
    """The interface of an interrupted run whose checkout was deleted, if no node is at it any more."""
    there = json.loads(call("ip", "-json", "address", "show", "to", GATEWAY, "type", "bridge"))
    for name in [each["ifname"] for each in there if each]:
        if json.loads(call("ip", "-json", "link", "show", "master", name)):
            raise LabError(
                "%s has the lab's address and is in use, perhaps by nodes of a checkout that was deleted" % name
            )
        call("ip", "link", "delete", name)


def remember_the_machine() -> None:
    """The settings that nodes change for the whole machine, to set them back afterwards."""
    path = LAB / "machine.json"
    if not path.exists():
        settings = {name: Path(name).read_text().strip() for name in (FORWARDING, INOTIFY)}
        path.write_text(json.dumps({"settings": settings, "chains": chains()}))


def chains() -> t.Dict[str, t.List[str]]:
    """Names of all iptables chains, by table."""
    found = {}
    for table in ("filter", "nat"):
        listed = call("iptables", "-w", "-t", table, "-S").splitlines() if shutil.which("iptables") else []
        found[table] = [line.split()[1] for line in listed if line.startswith("-N ")]
    return found


def running() -> t.List[Node]:
    """All nodes of this checkout, also the ones that stand still."""
    listed = json.loads(podman("ps", "--all", "--format", "json", "--filter", "label=gpufleet.node") or "[]")
    return [
        *(Node(name, LOOPBACK, "machine", vm.alive(name)) for name in vm.all_there()),
        *(
            Node(each["Names"][0], each["Labels"]["gpufleet.node"], each["Image"], each["State"] == "running")
            for each in listed
        ),
    ]


def free_address() -> str:
    taken = {node.address for node in running()}
    for last in range(FIRST, LAST + 1):
        address = "%s.%d" % (SUBNET, last)
        if address not in taken:
            return address
    raise LabError("all %d addresses of the lab are taken: tests/lab/lab down" % (LAST - FIRST + 1))


def mac(address: str) -> str:
    """Fixed by the address: the machine remembers for a while who had it last."""
    return "02:00:" + ":".join("%02x" % int(part) for part in address.split("."))


def up(wishes: t.Sequence[Wish]) -> t.List[Node]:
    """Start nodes, in place of any that have their names, and wait until systemd says that all is well."""
    containers = [wish for wish in wishes if not wish.machine]
    machines = [(wish, vm.build(wish.image)) for wish in wishes if wish.machine]
    references = {image: images.build(image) for image in {wish.image for wish in containers}}
    shared.prepare()
    if any(image.startswith("rocky") for image in references):
        rpm.prepare()
    serve.start(repositories.ROOT)
    remove([checked(wish.name) for wish in wishes])
    made = [start_machine(wish, disk) for wish, disk in machines]
    with alone("nodes"):
        if containers:
            network()
        for wish in containers:
            made.append(start(wish, references[wish.image], free_address()))
    for node in made:
        wait_for(node.name)
        if "ubuntu" in node.image:
            ubuntu_archive(node)
        (NODES / node.name / "address").write_text(node.address)
    return made


def hardware(wish: Wish) -> str:
    """What the node's kernel reads about the machine that it runs on."""
    create = [option for board in wish.boards for option in ("--board", board)]
    what = {
        "create": [*create, "--seed", wish.name, *wish.simulator] if wish.boards else None,
        "nvswitches": list(wish.nvswitches),
        "driver": wish.driver,
        "flavour": "open" if wish.open_module else "proprietary",
    }
    return json.dumps(what, indent=2) + "\n"


def start_machine(wish: Wish, disk: Path) -> Node:
    if wish.driver or not wish.network:
        raise LabError("%s: a machine comes without a driver, and with the lab's network" % wish.name)
    vm.start(wish.name, disk, hardware(wish), gpus=bool(wish.boards))
    return Node(wish.name, LOOPBACK, wish.image, True)


def start(wish: Wish, reference: str, address: str) -> Node:
    home = NODES / wish.name
    for store in STORES:
        (home / store).mkdir(parents=True)
    COMPILED.mkdir(exist_ok=True)
    (home / "nvsim").mkdir()
    (home / "nvsim" / "hardware.json").write_text(hardware(wish))
    volumes = ["%s:/opt/gpufleet-lab:ro" % SHARED, "%s:/var/lib/nvsim" % (home / "nvsim")]
    volumes += ["%s:/var/lib/%s" % (home / store, store) for store in STORES]
    volumes.append("%s:/var/cache/gpufleet-lab" % COMPILED)
    if wish.kernel:
        (home / "nvsim" / "kernel").write_text(wish.kernel + "\n")
        (home / "ld.so.preload").write_text("/opt/gpufleet-lab/lib/uname.so\n")
        volumes.append("%s:/etc/ld.so.preload:ro" % (home / "ld.so.preload"))
    podman(
        *("run", "--detach", "--privileged", "--systemd=always", "--restart=always"),
        *("--name", wish.name, "--hostname", wish.name, "--label", "gpufleet.node=" + address),
        *("--network", NETWORK, "--ip", address, "--mac-address", mac(address)),
        *(part for volume in volumes for part in ("--volume", volume)),
        reference,
    )
    write_on(wish.name, "/etc/apt/apt.conf.d/90gpufleet-lab", 'Acquire::http::Proxy "%s";\n' % URL)
    if not wish.network:
        cut_off(wish.name)
    return Node(wish.name, address, reference, True)


def ubuntu_archive(node: Node) -> None:
    """The driver as Ubuntu's own archive has it."""
    keys.make()
    release = {"ubuntu2204": "jammy", "ubuntu2404": "noble"}[node.image.rpartition(":")[2]]
    source = "Types: deb\nURIs: %s/ubuntu/%s/\nSuites: /\nSigned-By: %s\n" % (
        URL,
        release,
        "/usr/share/keyrings/lab-archive.asc",
    )
    for path, text in (
        ("/usr/share/keyrings/lab-archive.asc", keys.public("main").read_text()),
        ("/etc/apt/sources.list.d/ubuntu.sources", source),
    ):
        write_on(node.name, path, text)


def write_on(name: str, path: str, text: str) -> None:
    script = 'mkdir -p "${1%/*}"; cat >"$1"'
    podman("exec", "--interactive", name, "sh", "-c", script, "sh", path, stdin=None, input=text)


def cut_off(name: str) -> None:
    """No way out but to the lab's own gateway, as on an air-gapped site."""
    podman("exec", name, "ip", "route", "replace", "unreachable", "default")
    podman("exec", name, "sh", "-c", "echo >/etc/resolv.conf")


def command_on(name: str, *command: str, options: t.Sequence[str] = ()) -> t.List[str]:
    """The command line that runs a command on a node. ``options`` are podman's."""
    if vm.exists(name):
        return vm.ssh(name, *command)
    return [str(LABNS), "podman", "exec", *options, name, *command]


def wait_for(name: str) -> None:
    said = ""
    ready = MACHINE_READY if vm.exists(name) else READY
    deadline = time.monotonic() + ready
    while time.monotonic() < deadline:
        answer = subprocess.run(
            command_on(name, "systemctl", "is-system-running"),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = answer.stdout.strip() or answer.stderr.strip()
        if said == "running":
            return
        if said == "degraded":
            failed = call(*command_on(name, "systemctl", "list-units", "--failed", "--plain", "--no-legend"))
            log = call(*command_on(name, "journalctl", "--no-pager", "--lines=30", "--priority=warning"))
            raise LabError("%s is up, but not well:\n%s%s" % (name, failed, log))
        if vm.exists(name) and not vm.alive(name):
            raise LabError("%s has ended:\n%s" % (name, vm.last_output(name)))
        time.sleep(0.2)
    raise LabError("%s is not up after %d seconds: %s" % (name, ready, said))


def remove(names: t.Sequence[str]) -> None:
    if names:
        podman_rm("--ignore", *names)
    for name in names:
        vm.stop(name)
        address = NODES / checked(name) / "address"
        if address.exists():
            # The next node with this address must not be spoken to through a connection to this one.
            for path in SOCKETS.glob(address.read_text() + "-*"):
                path.unlink()
        shutil.rmtree(NODES / name, ignore_errors=True)


def podman_rm(*which: str) -> None:
    """podman 4 gives up on a container that ends while it is being killed; by then it can be removed."""
    for _attempt in range(3):
        try:
            podman("rm", "--force", "--time", "1", *which)
            return
        except LabError as problem:
            said = problem
    raise said


def everything_down() -> None:
    """No container, network, interface or rule of ours stays, nor what they changed on the machine."""
    vm.stop_all()
    podman_rm("--all")
    shutil.rmtree(NODES, ignore_errors=True)
    shutil.rmtree(SOCKETS, ignore_errors=True)
    if succeeds(LABNS, "podman", "network", "exists", NETWORK):
        podman("network", "rm", "--force", NETWORK)
    remove_bridge()
    put_the_machine_back()


def put_the_machine_back() -> None:
    path = LAB / "machine.json"
    if not path.exists():
        return
    before, now = json.loads(path.read_text()), chains()
    # Another network of containers, be it another checkout's lab or the machine's own, still needs all this.
    if any(re.fullmatch(r"NETAVARK-[0-9A-F]{8,}", chain) for names in now.values() for chain in names):
        return
    for name, value in before["settings"].items():
        Path(name).write_text(value)
    for table, names in now.items():
        made = [name for name in names if name.startswith("NETAVARK") and name not in before["chains"][table]]
        for rule in call("iptables", "-w", "-t", table, "-S").splitlines() if made else []:
            words = shlex.split(rule)
            if words[0] == "-A" and "-j" in words and words[words.index("-j") + 1] in made:
                call("iptables", "-w", "-t", table, "-D", *words[1:])
        for action in ("-F", "-X"):
            for name in made:
                call("iptables", "-w", "-t", table, action, name)
    path.unlink()
