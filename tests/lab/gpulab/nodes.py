# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes: containers with systemd, each with its own address, simulated hardware and simulated kernel."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
import typing as t
from pathlib import Path

from . import images, keys, repositories, rke2, rpm, serve, shared, vm
from .places import (
    GATEWAY,
    LAB,
    LABNS,
    LOOPBACK,
    NETWORK,
    NODES,
    PODMAN,
    PREFIX,
    PROGRAMS,
    SHARED,
    SOCKETS,
    SUBNET,
    URL,
    LabError,
    alone,
    call,
    podman,
    processes,
    say,
    succeeds,
)

FIRST, LAST = 11, 250  # addresses for nodes
STORES = ("containerd", "docker")  # /var/lib/...: overlayfs cannot be stacked
COMPILED = LAB / "compiled"  # bytecode, which is the same on all nodes
FORWARDING = "/proc/sys/net/ipv4/ip_forward"
# Each systemd needs some inotify instances, and all nodes share root's limit: the default of 128 is enough for ten.
INOTIFY = "/proc/sys/fs/inotify/max_user_instances"
INSTANCES = 4096
READY = 180  # seconds until a node has booted; one or two on an idle machine
MACHINE_READY = 900  # the same for a virtual machine; about thirty
GONE = 10  # seconds in which the interfaces of a killed node disappear


class NodeSpec(t.NamedTuple):
    name: str
    image: str = "bookworm"
    boards: t.Sequence[str] = ()  # as `nvsim create --board`
    driver: t.Optional[str] = None  # version of a preinstalled driver
    open_module: bool = False
    nvswitches: t.Sequence[str] = ()  # PCI device ids
    simulator: t.Sequence[str] = ()  # further options of `nvsim create`
    network: bool = True
    kernel: t.Optional[str] = None  # release that `uname -r` prints; default: the host's
    machine: bool = False  # a virtual machine instead of a container
    rke2: bool = False  # the lab offers releases of rke2


class Node(t.NamedTuple):
    name: str
    address: str
    image: str
    running: bool


def checked(name: str) -> str:
    if not name.startswith(PREFIX) or name == NETWORK:
        raise LabError("a node's name must start with %s: %s" % (PREFIX, name))
    return name


def network() -> None:
    save_host_settings()
    instances = Path(INOTIFY)
    if int(instances.read_text()) < INSTANCES:
        instances.write_text(str(INSTANCES))
    if succeeds(LABNS, "podman", "network", "exists", NETWORK):
        (found,) = json.loads(podman("network", "inspect", NETWORK))
        show = ["ip", "-json", "-4", "address", "show", found["network_interface"]]
        addresses = subprocess.run(show, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        if not addresses or GATEWAY.encode() in addresses:
            return
        # The bridge belongs to another checkout, whose network was created when neither existed.
        podman("network", "rm", NETWORK)
    remove_bridge()
    podman("network", "create", "--subnet", SUBNET + ".0/24", "--gateway", GATEWAY, NETWORK)


def remove_bridge() -> None:
    """Remove the bridge of an interrupted run whose files were deleted, if no node uses it."""
    found = json.loads(call("ip", "-json", "address", "show", "to", GATEWAY, "type", "bridge"))
    for name in [each["ifname"] for each in found if each]:
        deadline = time.monotonic() + GONE
        while json.loads(call("ip", "-json", "link", "show", "master", name)):
            if time.monotonic() > deadline:
                raise LabError(
                    "nodes of a checkout that was deleted or moved use the bridge %s, which has the lab's address. List"
                    " their processes with lsns --type net, kill /sbin/init, conmon and aardvark-dns of these nodes, run"
                    " tests/lab/labns --destroy, and then tests/lab/lab down" % name
                )
            time.sleep(0.2)
        call("ip", "link", "delete", name)


def save_host_settings() -> None:
    """Save the settings of this machine that nodes change, to restore them afterwards."""
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
    """All nodes of this checkout, including stopped ones."""
    listed = json.loads(podman("ps", "--all", "--format", "json", "--filter", "label=gpufleet.node") or "[]")
    return [
        *(Node(name, LOOPBACK, "machine", vm.alive(name)) for name in vm.names()),
        *(
            Node(each["Names"][0], each["Labels"]["gpufleet.node"], each["Image"], each["State"] == "running")
            for each in listed
        ),
    ]


def free_address(others: t.Collection[str] = ()) -> str:
    """An address that no node has and that is not among ``others``."""
    taken = {*(node.address for node in running()), *others}
    for last in range(FIRST, LAST + 1):
        address = "%s.%d" % (SUBNET, last)
        if address not in taken:
            return address
    raise LabError("all %d addresses of the lab are in use: run tests/lab/lab down" % (LAST - FIRST + 1))


def mac(address: str) -> str:
    """Derived from the address, because this machine caches which MAC address had it last."""
    return "02:00:" + ":".join("%02x" % int(part) for part in address.split("."))


def up(specs: t.Sequence[NodeSpec]) -> t.List[Node]:
    """Start nodes, replace existing ones of the same names, and wait until systemd reports `running`."""
    containers = [spec for spec in specs if not spec.machine]
    machines = [(spec, vm.build(spec.image)) for spec in specs if spec.machine]
    references = {image: images.build(image) for image in {spec.image for spec in containers}}
    shared.prepare()
    if any(image.startswith("rocky") for image in references):
        rpm.prepare()
    if any(spec.rke2 for spec in specs):
        rke2.prepare(rpms=any(spec.image.startswith("rocky") for spec in specs))
    serve.start(repositories.ROOT)
    remove([checked(spec.name) for spec in specs])
    made = [start_machine(spec, disk) for spec, disk in machines]
    for node in made:
        wait_for(node.name)
    made += start_all({spec.name: (spec, references[spec.image]) for spec in containers})
    for node in made:
        if "ubuntu" in node.image:
            ubuntu_archive(node)
        (NODES / node.name / "address").write_text(node.address)
    return made


def start_all(wanted: t.Mapping[str, t.Tuple[NodeSpec, str]], tried: t.Collection[str] = ()) -> t.List[Node]:
    """Start containers, given with their images, and wait for them.

    Those that fail are made again once, with addresses that were not ``tried``: podman may not have freed the others.
    """
    failed: t.Dict[str, LabError] = {}
    made = {}
    addresses = set(tried)
    with alone("nodes"):
        if wanted:
            network()
        for name, (spec, reference) in wanted.items():
            try:
                address = free_address(addresses)
                addresses.add(address)
                made[name] = start(spec, reference, address)
            except LabError as problem:
                failed[name] = problem
    for name in made:
        try:
            wait_for(name)
        except LabError as problem:
            failed[name] = problem
    if failed and tried:
        raise next(iter(failed.values()))
    if failed:
        for name, problem in failed.items():
            say("%s did not start, and is made again: %s" % (name, problem))
        remove(list(failed))
        again = start_all({name: wanted[name] for name in failed}, addresses)
        made.update({node.name: node for node in again})
    return [made[name] for name in wanted]


def hardware(spec: NodeSpec) -> str:
    """The node's hardware, as read by its simulated kernel."""
    create = [option for board in spec.boards for option in ("--board", board)]
    what = {
        "create": [*create, "--seed", spec.name, *spec.simulator] if spec.boards else None,
        "nvswitches": list(spec.nvswitches),
        "driver": spec.driver,
        "flavour": "open" if spec.open_module else "proprietary",
    }
    return json.dumps(what, indent=2) + "\n"


def start_machine(spec: NodeSpec, disk: Path) -> Node:
    if spec.driver or not spec.network:
        raise LabError("%s: a virtual machine cannot be cut off or have a preinstalled driver" % spec.name)
    vm.start(spec.name, disk, hardware(spec), gpus=bool(spec.boards))
    return Node(spec.name, LOOPBACK, spec.image, True)


def start(spec: NodeSpec, reference: str, address: str) -> Node:
    home = NODES / spec.name
    for store in STORES:
        (home / store).mkdir(parents=True)
    COMPILED.mkdir(exist_ok=True)
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    (home / "nvsim").mkdir()
    (home / "nvsim" / "hardware.json").write_text(hardware(spec))
    volumes = ["%s:/opt/gpufleet-lab:ro" % SHARED, "%s:/var/lib/nvsim" % (home / "nvsim")]
    volumes += ["%s:/var/lib/%s" % (home / store, store) for store in STORES]
    (home / "store").mkdir()
    volumes.append("%s:/var/lib/gpufleet-lab" % (home / "store"))  # for stores in other places
    volumes += ["%s:/var/cache/gpufleet-lab" % COMPILED, "%s:/opt/gpufleet-kubernetes:ro" % PROGRAMS]
    if spec.kernel:
        (home / "nvsim" / "kernel").write_text(spec.kernel + "\n")
        (home / "ld.so.preload").write_text("/opt/gpufleet-lab/lib/uname.so\n")
        volumes.append("%s:/etc/ld.so.preload:ro" % (home / "ld.so.preload"))
    podman(
        *("run", "--detach", "--privileged", "--systemd=always", "--restart=always"),
        *("--name", spec.name, "--hostname", spec.name, "--label", "gpufleet.node=" + address),
        *("--network", NETWORK, "--ip", address, "--mac-address", mac(address)),
        *(part for volume in volumes for part in ("--volume", volume)),
        reference,
    )
    write_on(spec.name, "/etc/apt/apt.conf.d/90gpufleet-lab", 'Acquire::http::Proxy "%s";\n' % URL)
    if not spec.network:
        cut_off(spec.name)
    return Node(spec.name, address, reference, True)


def ubuntu_archive(node: Node) -> None:
    """Add the stand-in for Ubuntu's archive to a node's package sources."""
    keys.prepare()
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
    """Remove all routes except to the lab's gateway, as on an air-gapped site."""
    podman("exec", name, "ip", "route", "replace", "unreachable", "default")
    podman("exec", name, "sh", "-c", "echo >/etc/resolv.conf")


def command_on(name: str, *command: str, options: t.Sequence[str] = ()) -> t.List[str]:
    """The command line that runs a command on a node, with ``options`` for podman."""
    if vm.exists(name):
        return vm.ssh(name, *command)
    return [str(LABNS), "podman", "exec", *options, name, *command]


def wait_for(name: str) -> None:
    state = ""
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
        state = answer.stdout.strip() or answer.stderr.strip()
        if state == "running":
            return
        if state == "degraded":
            failed = call(*command_on(name, "systemctl", "list-units", "--failed", "--plain", "--no-legend"))
            log = call(*command_on(name, "journalctl", "--no-pager", "--lines=30", "--priority=warning"))
            raise LabError("%s has failed units:\n%s%s" % (name, failed, log))
        if vm.exists(name) and not vm.alive(name):
            raise LabError("%s stopped during its boot:\n%s" % (name, vm.last_output(name)))
        time.sleep(0.2)
    raise LabError("%s did not finish its boot in %d seconds: %s" % (name, ready, state))


def remove(names: t.Sequence[str]) -> None:
    if names:
        with alone("nodes"):  # while another process makes nodes, podman fails to list those that are being removed
            podman_rm("--ignore", *names)
    for name in names:
        vm.stop(name)
        address = NODES / checked(name) / "address"
        if address.exists():
            # A later node with this address must not be reached through a shared connection to this one.
            for path in SOCKETS.glob(address.read_text() + "-*"):
                path.unlink(missing_ok=True)  # the connection may end by itself
        shutil.rmtree(NODES / name, ignore_errors=True)


def podman_rm(*which: str) -> None:
    """Remove containers. podman 4 fails if one exits while it is being killed; a retry succeeds."""
    for _attempt in range(3):
        try:
            podman("rm", "--force", "--time", "1", *which)
            return
        except LabError as problem:
            error = problem
    raise error


def everything_down() -> None:
    """Remove all containers, networks, interfaces and rules of the lab, and restore the machine's settings."""
    vm.stop_all()
    problem = None
    try:
        podman_rm("--all")
    except LabError as error:
        problem = error
    if kill_unknown_nodes():
        call(LABNS, "--destroy")  # podman's state in /run, which still has these nodes
        podman_rm("--all")
    elif problem:
        raise problem
    shutil.rmtree(NODES, ignore_errors=True)
    shutil.rmtree(SOCKETS, ignore_errors=True)
    if succeeds(LABNS, "podman", "network", "exists", NETWORK):
        podman("network", "rm", "--force", NETWORK)
    remove_bridge()
    restore_host_settings()


def kill_unknown_nodes() -> bool:
    """Kill containers that podman no longer knows, because its files in .cache/lab were deleted while they ran.

    The command line of conmon, which supervises a container, names these files. It is killed first, because it would
    restart the container. aardvark-dns is killed only in the lab's mount namespace: elsewhere it serves other networks.
    """
    deadline = time.monotonic() + GONE
    supervisors = list(processes("conmon", PODMAN))
    while supervisors and time.monotonic() < deadline:  # those of removed containers end by themselves
        time.sleep(0.2)
        supervisors = list(processes("conmon", PODMAN))
    if not supervisors:
        return False
    say("killing %d nodes whose files were deleted" % len(supervisors))
    namespaces = {mount_namespace(pid) for pid in supervisors} - {mount_namespace(os.getpid()), ""}
    servers = [pid for pid in processes("aardvark-dns") if mount_namespace(pid) in namespaces]
    inits = [child for pid in supervisors for child in children(pid)]
    for pid in [*supervisors, *inits, *servers]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return True


def children(pid: int) -> t.List[int]:
    return [int(child) for child in Path("/proc/%d/task/%d/children" % (pid, pid)).read_text().split()]


def mount_namespace(pid: int) -> str:
    """The identity of a process's mount namespace; empty if the process has ended."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/%d/ns/mnt" % pid)
    return ""


def restore_host_settings() -> None:
    path = LAB / "machine.json"
    if not path.exists():
        return
    before, now = json.loads(path.read_text()), chains()
    # Another container network, of another checkout or of the machine, still needs these settings.
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
