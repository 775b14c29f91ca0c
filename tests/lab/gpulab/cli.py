# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of ``tests/lab/lab``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import typing as t

from . import cluster, controller, images, nodes, repositories, rke2, rpm, serve
from .places import CACHE, LAB, LABNS, PREFIX, SOCKETS, TOP, URL, LabError, alone, call, say

DEBIAN_PACKAGES = {
    "podman": "podman",
    "crun": "crun",
    "mmdebstrap": "mmdebstrap",
    "apt-ftparchive": "apt-utils",
    "dpkg-deb": "dpkg",
    "gpg": "gnupg",
    "ssh": "openssh-client",
    "make": "make",
    "cc": "gcc",
    "iptables": "iptables",
    "nsenter": "util-linux",
    "zstd": "zstd",
}
HELPERS = {  # not on PATH
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


MACHINE_PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "debugfs": "e2fsprogs", "setpriv": "util-linux"}


def missing(machines: bool) -> t.List[str]:
    """Debian packages that this machine lacks for nodes, or also for virtual machines."""
    wanted = {**DEBIAN_PACKAGES, **(MACHINE_PACKAGES if machines else {})}
    return [
        *(package for program, package in wanted.items() if not shutil.which(program)),
        *(package for path, package in HELPERS.items() if not os.path.exists(path)),
    ]


def prepare(_options: argparse.Namespace, machines: bool = False) -> None:
    """Install the Debian packages that are missing."""
    if not missing(machines):
        return
    with alone("prepare"):  # two scenarios may start at the same time
        packages = missing(machines)
        if not packages:
            return
        if os.geteuid() or not shutil.which("apt-get"):
            raise LabError(
                "this machine lacks: %s (Debian's names). Install them, for example with\n"
                "  sudo apt-get install --no-install-recommends %s" % (", ".join(packages), " ".join(packages))
            )
        say("installing Debian packages: " + ", ".join(packages))
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        waiting = ("-o", "DPkg::Lock::Timeout=300")
        call("apt-get", "-qq", "update", env=environment)
        call("apt-get", "-qq", *waiting, "install", "-y", "--no-install-recommends", *packages, env=environment)


def up(options: argparse.Namespace) -> None:
    specs = from_file(options.file) if options.file else from_options(options)
    prepare(options, machines=any(node.machine for node in specs))
    for node in nodes.up(specs):
        print("%-28s %-15s %s" % (node.name, node.address, node.image))


def from_file(name: str) -> t.List[nodes.NodeSpec]:
    """Read specifications of nodes from a JSON list."""
    with sys.stdin if name == "-" else open(name, encoding="utf-8") as stream:
        wanted = json.load(stream)
    unknown = {key for each in wanted for key in each} - set(nodes.NodeSpec._fields)
    if unknown:
        raise LabError(
            "unknown options of a node: %s. Known options: %s" % (", ".join(unknown), ", ".join(nodes.NodeSpec._fields))
        )
    return [nodes.NodeSpec(**each) for each in wanted]


def from_options(options: argparse.Namespace) -> t.List[nodes.NodeSpec]:
    if not options.name:
        raise LabError("no node given: name one, or use --file")
    return [
        nodes.NodeSpec(
            name=name,
            image=options.image,
            boards=options.boards,
            driver=options.driver,
            open_module=options.open,
            nvswitches=options.nvswitches,
            simulator=options.simulator,
            network=not options.cut_off,
            kernel=options.kernel,
            machine=options.machine,
            rke2=options.rke2,
        )
        for name in options.name
    ]


def repo(options: argparse.Namespace) -> None:
    """Build and serve the package repositories."""
    prepare(options)
    repositories.prepare()
    if getattr(options, "rpm", False):
        rpm.prepare()
    if getattr(options, "rke2", False):
        rke2.prepare(rpms=getattr(options, "rpm", False))
    serve.start(repositories.ROOT)
    print(URL)


def remove(options: argparse.Namespace) -> None:
    nodes.remove(options.name)


def molecule(options: argparse.Namespace) -> None:
    """Prepare what the scenarios need, and replace this process with Molecule, in the namespace where podman works."""
    prepare(options)
    scenarios = chosen(options.arguments)
    home = LAB / "molecule" / ("+".join(scenarios) if len(scenarios) < 4 else "several")
    repo(options)
    if "test" in options.arguments:
        shutil.rmtree(home, ignore_errors=True)  # Molecule would continue an interrupted test
    home.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **controller.environment(CACHE / "collections"),
        "ANSIBLE_COLLECTIONS_PATH": str(CACHE / "collections"),
        "ANSIBLE_HOME": str(CACHE / "ansible"),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(home),
        "MOLECULE_PROJECT_DIRECTORY": str(TOP),
        "GPUFLEET_SCENARIOS": " ".join(scenarios),
        "GPUFLEET_CLUSTER": home.name,
        "GPUFLEET_LAB_URL": URL,
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(SOCKETS),
        "NO_COLOR": "1",
        "ANSIBLE_NOCOLOR": "1",
    }
    SOCKETS.mkdir(mode=0o700, exist_ok=True)
    os.chdir(TOP)
    os.execve(LABNS, [str(LABNS), "molecule", *options.arguments], environment)


def chosen(arguments: t.Sequence[str]) -> t.List[str]:
    """The scenarios that Molecule's arguments name, or else `default`."""
    known = sorted(path.parent.name for path in (TOP / "extensions" / "molecule").glob("*/molecule.yml"))
    if "--all" in arguments:
        return known
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("-s", "--scenario-name", action="append", default=[])
    named = options.parse_known_args(arguments)[0].scenario_name or ["default"]
    unknown = sorted(set(named) - set(known))
    if unknown:
        raise LabError("unknown scenario: %s. Known scenarios: %s" % (", ".join(unknown), ", ".join(known)))
    return t.cast(t.List[str], named)


def kubernetes(options: argparse.Namespace) -> int:
    """Run the command for the cluster."""
    if options.action in cluster.CLIENTS:
        words, environment = cluster.command(options.action, *options.others)
        return subprocess.run(words, env=environment, check=False).returncode
    if options.action == "up":
        prepare(options)
        cluster.up(options.others)
        print(cluster.KUBECONFIG)
    elif options.others:
        raise LabError("lab cluster %s takes no arguments" % options.action)
    else:
        cluster.down()
    return 0


def down(_options: argparse.Namespace) -> None:
    serve.stop()
    nodes.everything_down()
    cluster.forget_all()
    call(LABNS, "--destroy")


def show(_options: argparse.Namespace) -> None:
    for node in nodes.running():
        print("%-28s %-15s %-8s %s" % (node.name, node.address, "up" if node.running else "down", node.image))


def build(options: argparse.Namespace) -> None:
    prepare(options)
    for name in options.name or images.IMAGES:
        print(images.build(name))


def execute(options: argparse.Namespace) -> int:
    terminal = ["--tty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
    command = options.program or ["bash"]
    flags = ["--interactive", *terminal]
    return subprocess.run(nodes.command_on(options.name, *command, options=flags), check=False).returncode


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="lab", description="The test lab: nodes with simulated GPUs, and package repositories."
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: t.Callable[[argparse.Namespace], t.Optional[int]], text: str
    ) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        return made

    command("prepare", prepare, "Install the Debian packages that the lab needs.")

    image = command("image", build, "Build node images (default: all) that are missing or out of date.")
    image.add_argument("name", nargs="*", help="one of: %s" % ", ".join(images.IMAGES))

    start = command("up", up, "Start nodes, and replace existing ones.")
    start.add_argument("name", nargs="*", help="begins with " + PREFIX)
    start.add_argument("--file", metavar="FILE", help="instead of names and options: a JSON list of nodes; - is stdin")
    start.add_argument("--image", default="bookworm", help="one of: %s" % ", ".join(images.IMAGES))
    start.add_argument(
        "--board", dest="boards", action="append", default=[], metavar="NAME[:COUNT]", help="GPUs, as for nvsim"
    )
    start.add_argument("--driver", metavar="VERSION", help="a preinstalled driver; default: none")
    start.add_argument("--open", action="store_true", help="with open kernel modules")
    start.add_argument(
        "--nvswitch", dest="nvswitches", action="append", default=[], metavar="DEVICE", help="such as 22a3"
    )
    start.add_argument("--machine", action="store_true", help="virtual machines, with their own kernel")
    start.add_argument("--cut-off", action="store_true", help="no network except the lab's own")
    start.add_argument("--rke2", action="store_true", help="offer releases of rke2 to the nodes")
    start.add_argument("--kernel", metavar="RELEASE", help="kernel release for uname, such as 5.14.0-503.el9.x86_64")
    start.add_argument(
        "--simulator", action="append", default=[], metavar="OPTION", help="more options for nvsim create"
    )

    end = command("remove", remove, "Remove these nodes.")
    end.add_argument("name", nargs="+")

    served = command("serve", repo, "Build the package repositories and serve them until `down`.")
    served.add_argument("--rpm", action="store_true", help="include those for dnf")
    served.add_argument("--rke2", action="store_true", help="include releases of rke2")

    command("down", down, "Remove nodes, network, rules and server; files in .cache stay.")

    command("molecule", molecule, "Run Molecule: lab molecule test -s SCENARIO")

    clustered = command(
        "cluster",
        kubernetes,
        "A Kubernetes cluster: cluster up NAME..., kubectl ..., helm ..., down.",
    )
    clustered.add_argument("action", choices=("up", *cluster.CLIENTS, "down"))
    clustered.add_argument("others", nargs=argparse.REMAINDER)

    command("show", show, "List the nodes.")

    inside = command("exec", execute, "Run a command on a node (default: a shell).")
    inside.add_argument("name")
    inside.add_argument("program", nargs=argparse.REMAINDER)
    return top


def main(arguments: t.Sequence[str]) -> int:
    # All further arguments are for Molecule, even if they look like options of this program.
    own, others = (arguments[:1], arguments[1:]) if arguments[:1] == ["molecule"] else (arguments, [])
    options = parser().parse_args(own, argparse.Namespace(arguments=others))
    try:
        return options.run(options) or 0
    except LabError as problem:
        print("error: %s" % problem, file=sys.stderr)
        return 1
