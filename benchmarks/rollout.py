# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A new MIG layout on all nodes of a cluster: managed_cluster.yml, compared with kubectl drain in a shell loop.

BENCH_NODES="100 1000" benchmarks/run rollout runs it with other numbers of nodes, and BENCH_OTHERS=900 in a cluster that
has so many nodes more. With BENCH_LOOP=100, the loop changes only so many of the nodes. BENCH_BATCH is the number of
nodes that the playbook drains at a time, BENCH_MIG_SECONDS and BENCH_POD_SECONDS the duration of what is simulated.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import gpu_cluster
import nodes
import processes
import tables
from gpu_cluster import Layout
from gpulab import charts, control_plane

COUNTS = (10, 20)  # a quarter of an hour on two cores
SMALL = 2  # evicted pods start on the other node. The playbook's two runs take most of the time, on any number of nodes
COLLECTIONS = nodes.TOP / ".cache" / "collections"
PLAYBOOK, LOOP = "gpufleet.node", "kubectl in a loop"
USERS = {PLAYBOOK: "rollout", LOOP: "loop"}
OTHERS = int(os.environ.get("BENCH_OTHERS", "0"))  # nodes of the cluster that keep their layout
LOOP_NODES = int(os.environ.get("BENCH_LOOP", sys.maxsize))
READY = 3600  # seconds; 1,000 nodes with their pods take minutes to start
SHOWN = 0.2  # requests per node below which a kind of request is not listed


class Rollout(NamedTuple):
    method: str
    count: int  # of the nodes
    usage: processes.Usage
    requests: Counter[str]


def measure(small: bool) -> str:
    counts = [SMALL] if small else nodes.counts(COUNTS)
    batch = os.environ.get("BENCH_BATCH", "1")
    done = [each for count in counts for each in measured(count, batch)]
    return "\n\n".join([summary(done, batch), by_kind(done[-2:])])


def measured(count: int, batch: str) -> Iterator[Rollout]:
    """Yield the rollout of each method, on the same nodes and between the same two layouts."""
    first, second = (gpu_cluster.named(layout) for layout in (Layout("1g.10gb", 7), Layout("3g.40gb", 2)))
    with tempfile.TemporaryDirectory(prefix="gpufleet-bench-") as folder:
        work = Path(folder)
        stages = gpu_cluster.stages(first, second)
        with control_plane.running(work, stages, list(USERS.values())) as plane:
            print("... %d nodes: the first layout, with the chart" % count, flush=True)
            start(plane, count, first)
            settle(plane, count, first)
            # The first node stands for all: the nodes have the operator's labels, and the simulated MIG manager works.
            play(work, plane, "admin", "kubernetes.io/hostname=" + gpu_cluster.names(1)[0], first, False, "1")
            settle(plane, count, first)
            used = play(work, plane, USERS[PLAYBOOK], gpu_cluster.POOL, second, True, batch)
            yield shown(rollout(PLAYBOOK, plane, count, used))
            settle(plane, count, second)
            some = min(count, LOOP_NODES)
            yield shown(rollout(LOOP, plane, some, loop(work, plane, some, first)))


def start(plane: control_plane.ControlPlane, count: int, layout: Layout) -> None:
    for text in (gpu_cluster.nodes(count, OTHERS, layout), gpu_cluster.workload(count + OTHERS)):
        plane.kubectl("create", "--filename=-", given=text)


def settle(plane: control_plane.ControlPlane, count: int, layout: Layout) -> None:
    """Wait until all nodes are in service with the layout, and all pods run."""
    deadline = time.monotonic() + READY
    while True:
        selector = "--selector=" + gpu_cluster.POOL
        listed = json.loads(plane.kubectl("get", "nodes", selector, "--output=json"))["items"]
        offered = [each["status"]["allocatable"].get(layout.resource) for each in listed]
        cordoned = any(each["spec"].get("unschedulable") for each in listed)
        pods = json.loads(plane.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
        running = Counter(each["metadata"].get("labels", {}).get("app") for each in pods if is_running(each))
        wanted = dict.fromkeys(gpu_cluster.OPERANDS.values(), count + OTHERS)
        wanted["users"] = gpu_cluster.PODS * (count + OTHERS)
        complete = all(running[app] == number for app, number in wanted.items())
        if offered == [str(layout.count)] * count and complete and not cordoned:
            return
        if time.monotonic() > deadline:
            raise RuntimeError("the cluster is not ready: %s, %s" % (Counter(offered), running))
        time.sleep(2)


def is_running(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def play(
    work: Path, plane: control_plane.ControlPlane, user: str, selector: str, layout: Layout, drain: bool, batch: str
) -> processes.Usage:
    """Roll the layout out with the playbook on the nodes that the selector matches."""
    archive = work / "chart.tgz"
    if not archive.exists():
        archive.write_bytes(charts.package(charts.OPERATOR))
    variables = {
        "gpu_cluster_check_pods": False,  # simulated pods print nothing
        "gpu_cluster_drain": drain,
        "gpu_cluster_kubeconfig": str(plane.kubeconfig(user)),
        "gpu_cluster_selector": [selector],
        "gpu_node_batches": batch,
        "gpu_operator_chart_file": str(archive),
        "gpu_operator_timeout": READY,
        "gpu_operator_version": charts.OPERATOR.version,
        "nvidia_mig_layout": layout.variable,
    }
    (work / "variables.json").write_text(json.dumps(variables))
    (work / "ansible.cfg").touch()  # Ansible's defaults, independent of the user's configuration
    environment = {
        **plane.environment(user),
        "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS),
        "ANSIBLE_CONFIG": str(work / "ansible.cfg"),
        "ANSIBLE_HOME": str(work / "ansible"),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_PIPELINING": "1",
        **({"ANSIBLE_FORKS": batch} if batch.isdecimal() and int(batch) > 5 else {}),
    }
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "gpufleet.node.managed_cluster"]
    command += ["-e", "@%s" % (work / "variables.json")]
    return processes.measured(work / "playbook.log", environment, command)


def loop(work: Path, plane: control_plane.ControlPlane, count: int, layout: Layout) -> processes.Usage:
    """Roll the layout out with kubectl."""
    script = str(nodes.TOP / "benchmarks" / "drain_loop")
    command = [script, layout.config, layout.resource, str(layout.count), *gpu_cluster.names(count)]
    return processes.measured(work / "loop.log", plane.environment(USERS[LOOP]), command)


def rollout(method: str, plane: control_plane.ControlPlane, count: int, usage: processes.Usage) -> Rollout:
    return Rollout(method, count, usage, plane.requests(USERS[method]))


def shown(each: Rollout) -> Rollout:
    print("... %d nodes: %s" % (each.count, " ".join(cells(each))), flush=True)
    return each


def cells(each: Rollout) -> list[str]:
    numbers = (each.usage.seconds / each.count, each.usage.cpu_seconds / each.count, per_node(each))
    return [each.method, *map("{:.1f}".format, numbers), "%.0f" % each.usage.peak_mib]


def per_node(each: Rollout) -> float:
    return sum(each.requests.values()) / each.count


def summary(done: list[Rollout], batch: str) -> str:
    pairs = zip(done[::2], done[1::2])
    rows = [
        [each.count, *cells(each), "%.2fx" % (per_node(each) / per_node(the_loop))]
        for playbook, the_loop in pairs
        for each in (playbook, the_loop)
    ]
    return tables.table(
        "A new MIG layout on all nodes of a cluster",
        [
            "nodes",
            "method",
            "seconds per node",
            "CPU s per node",
            "requests per node",
            "peak MiB",
            "requests, relative",
        ],
        rows,
        "The nodes and pods are simulated by kwok; the API server is real. The playbook is managed_cluster.yml with "
        "gpu_cluster_drain and gpu_node_batches=%s, and includes its preflight, helm and the verification of all nodes. "
        "The MIG manager takes %d s on a node, and pods take %d s to end. All programs share %d cores. Memory: "
        "proportional set size of ansible-playbook or the loop with all their children. The cluster has %d nodes more."
        % (batch, gpu_cluster.MIG_SECONDS, gpu_cluster.POD_SECONDS, os.cpu_count() or 0, OTHERS),
    )


def by_kind(done: list[Rollout]) -> str:
    kinds = sorted({kind for each in done for kind in each.requests}, key=lambda kind: kind.split()[::-1])
    rows = [[kind, *(each.requests[kind] / each.count for each in done)] for kind in kinds]
    listed = [[kind, *("%.1f" % number for number in numbers)] for kind, *numbers in rows if max(numbers) >= SHOWN]
    return tables.table(
        "Requests per node, with %d nodes" % done[0].count, ["request", *(each.method for each in done)], listed
    )
