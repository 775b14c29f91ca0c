# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of ``nvsim``."""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import shutil
import sys
import typing as t

from .library import ACTIVATIONS, CACHE, CODES, KINDS, QUIRKS, Node, NodeError, library
from .reset import gpu_reset


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="nvsim", description="Simulated GPU nodes.")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: t.Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument("directory", metavar="DIR", help="the node")
        return made

    create = command("create", run_create, "Create a node.")
    create.add_argument("--board", action="append", metavar="NAME[:COUNT]", help="board or product; repeatable")
    create.add_argument("--gpus", type=int, metavar="COUNT", help="number of GPUs, if --board has no count (1)")
    create.add_argument("--driver", metavar="VERSION")
    create.add_argument("--cuda", metavar="VERSION", help="default: the version that the driver supports")
    create.add_argument(
        "--activation",
        choices=ACTIVATIONS,
        default="auto",
        help="what a mode change on Ampere requires: an idle GPU (auto), a reset, a reboot",
    )
    create.add_argument("--quirk", action="append", choices=QUIRKS, default=[], help="driver quirk; repeatable")
    create.add_argument("--uuid", action="append", default=[], help="for the GPUs in order; repeatable")
    create.add_argument("--bus-id", action="append", default=[], help="for the GPUs in order; repeatable")
    create.add_argument("--from", dest="log", metavar="FILE", help="like a node whose `nvidia-smi -q -x` is in FILE")
    create.add_argument("--recorded", metavar="FILE", help="UUIDs of a real GPU and its MIG devices")
    create.add_argument("--seed", default="0", help="another seed gives the GPUs other UUIDs")

    show = command("show", run_show, "Show a node.")
    show.add_argument("--json", action="store_true")

    run = command("run", run_run, "Run a program on a node: nvsim run DIR -- PROGRAM ...")
    run.add_argument("--user", action="store_true", help="without root privileges on the simulated node")
    run.set_defaults(program=[])

    attach = command("attach", run_attach, "Attach a process to a GPU or MIG device, until it ends.")
    attach.add_argument("--pid", type=int, required=True)
    attach.add_argument("--gpu", type=int, required=True)
    attach.add_argument("--gi", type=int, help="GPU instance id")
    attach.add_argument("--ci", type=int, help="compute instance id (the first)")
    attach.add_argument("--kind", choices=KINDS[:-1], default=KINDS[0])
    attach.add_argument("--client", action="store_true", help="only open the device, like a daemon")
    attach.add_argument("--name", help="default: its executable")
    attach.add_argument("--memory", type=int, default=0, metavar="MIB")

    detach = command("detach", run_detach, "Detach a process.")
    detach.add_argument("--pid", type=int, required=True)
    detach.add_argument("--gpu", type=int, help="only from this GPU")

    reset = command("reset", run_reset, "Reset GPUs.")
    reset.add_argument("--gpu", type=int, action="append", help="only this one; repeatable")

    command("reboot", run_reboot, "Reboot the node: removes processes and instances.")

    fault = command("fault", run_fault, "Make calls fail, or kill the caller. Without a function: list faults.")
    selector(fault)
    fault.add_argument("--nth", type=int, default=1, help="which call of the function (1)")
    fault.add_argument("--code", default="unknown", help="return code: a number, or one of %s" % ", ".join(CODES))
    fault.add_argument("--always", action="store_true", help="that call and every later one")
    fault.add_argument("--after", action="store_true", help="execute the call, then return the code")
    fault.add_argument("--kill", choices=("before", "during", "after"), help="SIGKILL instead of a return code")
    fault.add_argument("--clear", action="store_true", help="remove all faults first")

    latency = command("latency", run_latency, "Delay calls. Without a function: list delays.")
    selector(latency)
    latency.add_argument("--ms", type=float, default=100.0, help="milliseconds; 0 for none (100)")
    latency.add_argument("--clear", action="store_true", help="remove all delays first")

    trace = command("trace", run_trace, "Show, enable, disable or clear the trace of calls.")
    trace.add_argument("--on", action="store_true")
    trace.add_argument("--off", action="store_true")
    trace.add_argument("--clear", action="store_true")
    trace.add_argument("--counts", action="store_true", help="calls and failures by function")
    trace.add_argument("--json", action="store_true")
    return top


def selector(command: argparse.ArgumentParser) -> None:
    command.add_argument("function", nargs="?", help="an NVML function, or gpuReset")
    command.add_argument(
        "--write",
        type=int,
        nargs="?",
        const=1,
        metavar="NTH",
        help="instead of a function: calls that change the node",
    )
    command.add_argument("--call", type=int, nargs="?", const=1, metavar="NTH", help="instead of a function: any call")


def selection(options: argparse.Namespace) -> t.Tuple[t.Optional[str], int]:
    """Return the function or wildcard, and the number of the call."""
    given = [(options.function, getattr(options, "nth", 1)), ("write", options.write), ("*", options.call)]
    chosen = [(name, nth) for name, nth in given if name and nth is not None]
    if len(chosen) > 1:
        raise NodeError("give a function, --write or --call, not several of them")
    if not chosen:
        return None, 1
    name, nth = chosen[0]
    if name not in ("write", "*", "gpuReset") and not (name.startswith("nvml") and hasattr(library(), name)):
        raise NodeError("%s is not an NVML function, so a fault or delay for it would have no effect" % name)
    if nth < 1:
        raise NodeError("calls are counted from 1, not %d" % nth)
    return name, nth


def run_create(options: argparse.Namespace) -> int:
    # Only this command needs PyYAML.
    from .description import RequestedGpu, describe, find, load, load_boards, load_products
    from .recording import mig_uuids, read, restore

    boards, products = load_boards(), load_products()["products"]
    recorded: t.Any = None
    if options.log:
        if options.board or options.gpus is not None or options.uuid or options.bus_id or options.activation != "auto":
            raise NodeError("--from names GPUs and modes: give no --board, --gpus, --uuid, --bus-id and --activation")
        log = read(pathlib.Path(options.log))
        if options.recorded:
            recorded = load(pathlib.Path(options.recorded))
        node = Node(options.directory)
        node.create(
            describe(
                [gpu.requested for gpu in log.gpus],
                options.driver or log.driver,
                options.cuda or log.cuda,
                options.activation,
                options.quirk,
                recorded or mig_uuids(log),
            )
        )
        restore(node, log)
        return 0
    uuids = list(options.uuid)
    if options.recorded:
        recorded = load(pathlib.Path(options.recorded))
        uuids = uuids or list(recorded)
    requested = []
    for text in options.board or ["A100-80GB"]:
        name, _colon, count = (
            text.rpartition(":") if ":" in text else (text, "", str(1 if options.gpus is None else options.gpus))
        )
        if not count.isdigit():
            raise NodeError("--board must be NAME or NAME:COUNT, not %s" % text)
        requested += [RequestedGpu(find(name, boards, products))] * int(count)
    requested = [
        gpu._replace(
            uuid=uuids[index] if index < len(uuids) else None,
            bus_id=options.bus_id[index] if index < len(options.bus_id) else None,
        )
        for index, gpu in enumerate(requested)
    ]
    Node(options.directory).create(
        describe(requested, options.driver, options.cuda, options.activation, options.quirk, recorded, options.seed)
    )
    return 0


def run_show(options: argparse.Namespace) -> int:
    node = Node(options.directory).show()
    if options.json:
        print(json.dumps(node, indent=2))
        return 0
    print(
        "driver %s, CUDA %d.%d, %d GPUs"
        % (node["driver_version"], node["cuda_version"] // 1000, node["cuda_version"] % 1000 // 10, len(node["gpus"]))
    )
    for gpu in node["gpus"]:
        show_gpu(gpu)
    return 0


def show_gpu(gpu: t.Dict[str, t.Any]) -> None:
    mode = "no MIG"
    if gpu["mig_capable"]:
        mode = "MIG %s" % ("on" if gpu["mode_current"] else "off")
        if gpu["mode_pending"] != gpu["mode_current"]:
            mode += ", %s pending" % ("on" if gpu["mode_pending"] else "off")
    print("GPU %d  %s  %s  %s  %s" % (gpu["index"], gpu["uuid"], gpu["pci_bus_id"], gpu["name"], mode))
    derived = [profile["name"] for profile in gpu["profiles"] if profile["derived"]]
    if derived:
        print("  derived, not seen on hardware: figures of %s" % ", ".join(derived))
    for gi in gpu["gpu_instances"]:
        print("  GI %2d  %s at %d:%d" % (gi["id"], gi["profile"], gi["start"], gi["size"]))
        for ci in gi["compute_instances"]:
            print("    CI %d  %s at %d:%d  %s" % (ci["id"], ci["profile"], ci["start"], ci["size"], ci["uuid"]))
    for process in gpu["processes"]:
        where = "" if process["gi"] is None else " GI %d CI %d" % (process["gi"], process["ci"])
        print(
            "  %s %d%s  %d MiB  %s" % (process["kind"], process["pid"], where, process["memory_mib"], process["name"])
        )


def real_nvidia_smi(driver: str) -> t.Optional[str]:
    """Return the downloaded nvidia-smi with the version closest to the driver's, or the one on PATH."""
    fetched = {path.parent.name: path for path in (CACHE / "nvidia-smi").glob("*/nvidia-smi")}
    if fetched:

        def distance(version: str) -> t.Tuple[int, int]:
            return int(version != driver), abs(int(version.split(".")[0]) - int(driver.split(".")[0]))

        return str(fetched[min(fetched, key=distance)])
    return shutil.which("nvidia-smi")


def run_run(options: argparse.Namespace) -> int:
    program = options.program
    if not program:
        raise NodeError("no program given: nvsim run DIR -- PROGRAM ...")
    node = Node(options.directory)
    driver = node.show()["driver_version"]
    environment = node.environment(uid=1000 if options.user else 0)
    environment.setdefault("NVSIM_PYTHON", sys.executable)
    if "NVSIM_SMI" not in environment:
        found = real_nvidia_smi(driver)
        if found:
            environment["NVSIM_SMI"] = found
    try:
        os.execvpe(program[0], program, environment)
    except OSError as problem:
        raise NodeError("%s: %s" % (program[0], problem.strerror)) from None


def run_attach(options: argparse.Namespace) -> int:
    kind = KINDS[-1] if options.client else options.kind
    Node(options.directory).attach(options.pid, options.gpu, options.gi, options.ci, kind, options.memory, options.name)
    return 0


def run_detach(options: argparse.Namespace) -> int:
    Node(options.directory).detach(options.pid, options.gpu)
    return 0


def run_reset(options: argparse.Namespace) -> int:
    node = Node(options.directory)
    for gpu in options.gpu or range(len(node.show()["gpus"])):
        try:
            node.reset(gpu)
        except NodeError as problem:
            raise NodeError("GPU %d: %s" % (gpu, problem), problem.code) from None
    return 0


def run_reboot(options: argparse.Namespace) -> int:
    Node(options.directory).reboot()
    return 0


def return_code(text: str) -> int:
    name = text.lower().replace("nvml_error_", "")
    if name in CODES:
        return CODES[name]
    if text.isdigit():
        return int(text)
    raise NodeError("unknown return code %s: give a number or one of %s" % (text, ", ".join(CODES)))


def run_fault(options: argparse.Namespace) -> int:
    node = Node(options.directory)
    function, nth = selection(options)
    if options.clear:
        node.clear_faults()
    if function:
        action = "return-after" if options.after else "return"
        if options.kill:
            action = "kill-%s" % options.kill
        node.fault(function, nth, return_code(options.code), options.always, action)
    elif not options.clear:
        for fault in node.show()["faults"]:
            print("%(function)s call %(nth)d: %(action)s %(code)d, seen %(seen)d" % fault)
    return 0


def run_latency(options: argparse.Namespace) -> int:
    node = Node(options.directory)
    function, _nth = selection(options)
    if options.clear:
        node.latency("", 0)
    if function:
        if not 0 <= options.ms <= 600_000:
            raise NodeError("a delay is between 0 and 600000 ms, not %g" % options.ms)
        node.latency(function, options.ms)
    elif not options.clear:
        for latency in node.show()["latencies"]:
            print("%s %g ms" % (latency["function"], latency["microseconds"] / 1000))
    return 0


def run_trace(options: argparse.Namespace) -> int:
    node = Node(options.directory)
    if options.clear:
        node.clear_trace()
    if options.on or options.off:
        node.trace(options.on)
    if options.clear or options.on or options.off:
        return 0
    calls = node.calls()
    if options.counts:
        show_counts(calls, options.json)
    elif options.json:
        print(json.dumps(calls))
    else:
        for call in calls:
            print("%(pid)d %(function)s %(arguments)s -> %(result)d" % call)
    return 0


def show_counts(calls: t.Sequence[t.Dict[str, t.Any]], as_json: bool) -> None:
    counts: t.Dict[str, t.Dict[str, t.Any]] = {}
    for call in calls:
        entry = counts.setdefault(call["function"], {"calls": 0, "implemented": True, "results": collections.Counter()})
        entry["calls"] += 1
        entry["implemented"] = call["implemented"]
        entry["results"][str(call["result"])] += 1
    if as_json:
        print(json.dumps(counts))
        return
    for function, entry in sorted(counts.items(), key=lambda item: (-item[1]["calls"], item[0])):
        failed = ", ".join("%s: %d" % item for item in sorted(entry["results"].items()) if item[0] != "0")
        stub = "" if entry["implemented"] else "  not modeled"
        print("%6d  %s%s%s" % (entry["calls"], function, "  (%s)" % failed if failed else "", stub))


def main(arguments: t.Sequence[str]) -> int:
    if arguments[:1] == ["gpu-reset"]:  # called by bin/nvidia-smi
        return gpu_reset(arguments[1:])
    program: t.Sequence[str] = []
    if arguments[:1] == ["run"] and "--" in arguments:  # the rest is the program's command line
        end = arguments.index("--")
        arguments, program = arguments[:end], arguments[end + 1 :]
    options = parser().parse_args(arguments)
    if program:
        options.program = program
    try:
        return t.cast(int, options.run(options))
    except BrokenPipeError:  # the reader has closed the pipe
        sys.stderr.close()  # otherwise Python reports the error again at exit
        return 1
    except (NodeError, OSError) as problem:
        print("nvsim: %s" % problem, file=sys.stderr)
        return 1


def command() -> t.NoReturn:
    sys.exit(main(sys.argv[1:]))
