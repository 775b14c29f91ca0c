# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Plan all GPUs of a node that the layout selects, or raise one error with all problems."""

from __future__ import annotations

import typing as t

from .._common.text import listed
from . import codes, parallel, retry
from .backend import BackendError
from .errors import BusyError, InfeasibleError, LayoutError, MigError
from .model import Gpu, LostGpu
from .operations import Kept, Plan

if t.TYPE_CHECKING:
    from .backend import Backend
    from .layout import Layout, Request
    from .model import DesiredInstance, GpuInstance, Target


class NodePlan(t.NamedTuple):
    """The plans of a node, in order of GPU index."""

    plans: t.Tuple[Plan, ...]
    requests: t.Mapping[int, Request]
    disturb: bool
    reset: bool
    busy: t.Tuple[BusyError, ...] = ()  # of the GPUs that cannot be planned only because processes use them
    lost: t.Tuple[LostGpu, ...] = ()  # cannot be read, but the layout does not cover them
    unselected: t.Tuple[Gpu, ...] = ()  # which the layout does not name

    def replan(self, gpu: Gpu) -> Plan:
        """The plan of a GPU after its MIG mode has changed."""
        return plan_request(gpu, self.requests[gpu.index], self.disturb, self.reset)


def plan_node(backend: Backend, layout: Layout, disturb: bool, reset: bool) -> NodePlan:
    """Reads all GPUs and plans those that the layout selects.

    Raises MigError with the problems of all GPUs, unless processes are the only problem.
    A GPU that cannot be read is an error only if the layout covers it, or may cover it.
    """
    backend.prefetch()
    found = parallel.over(retry.read(backend.count), lambda index: read_gpu(backend, index))
    gpus = [gpu for gpu in found if isinstance(gpu, Gpu)]
    lost = [gpu for gpu in found if isinstance(gpu, LostGpu)]
    if lost and not gpus:
        raise lost[0].error
    covered = [text for text in (_covered(layout, one, gpus) for one in lost) if text]
    if covered:
        raise LayoutError(listed(covered, "\n"))
    requests = layout.resolve(gpus, lost)
    plans = []
    refused: t.List[t.Tuple[Gpu, MigError]] = []
    for gpu in gpus:
        if gpu.index in requests:
            try:
                plans.append(plan_request(gpu, requests[gpu.index], disturb, reset))
            except MigError as error:
                refused.append((gpu, error))
    busy = tuple(error for _gpu, error in refused if isinstance(error, BusyError))
    if len(busy) < len(refused):
        raise MigError(message(refused))
    unselected = tuple(gpu for gpu in gpus if gpu.index not in requests)
    return NodePlan(tuple(plans), requests, disturb, reset, busy, tuple(lost), unselected)


def message(refused: t.Iterable[t.Tuple[Gpu, MigError]]) -> str:
    """The errors of GPUs, each once."""
    from .messages import merged  # only needed for errors

    return listed(merged((gpu, str(error)) for gpu, error in refused), "\n")


def read_gpu(backend: Backend, index: int) -> t.Union[Gpu, LostGpu]:
    """The GPU, or why it cannot be read, with its identity if available."""
    try:
        return retry.read(lambda: backend.read(index))
    except BackendError as error:
        if error.code == codes.TIMEOUT:  # the next call would time out too
            return LostGpu(index, error)
        try:
            return LostGpu(index, error, backend.identify(index))
        except BackendError:
            return LostGpu(index, error)


def plan_request(gpu: Gpu, request: Request, disturb: bool, reset: bool) -> Plan:
    """The plan of one GPU. Raises MigError if there is none."""
    if request.enabled and request.items and not gpu.profiles_known and not gpu.mode_current:
        from .plan import mode_first_plan

        return mode_first_plan(gpu, reset)
    target = request.target(gpu.board)
    found = unchanged(gpu, target)
    if found is not None:
        return found
    from .plan import plan_gpu  # large, and only needed for changes

    try:
        return plan_gpu(gpu, target, disturb, reset)
    except InfeasibleError as error:
        raise InfeasibleError("%s, %s" % (request.where, error)) from None


def unchanged(gpu: Gpu, target: Target) -> t.Optional[Plan]:
    """The plan that keeps everything, equal to that of ``plan_gpu``; None if anything differs from the target.

    A run without changes needs no more than this, and does not load the planner.
    """
    if bool(gpu.mode_current) != target.enabled or gpu.mode_current != gpu.mode_pending:
        return None
    missing = sorted(target.instances, key=lambda desired: desired.start is None)  # pinned before unpinned
    kept: t.List[Kept] = []
    for instance in sorted(gpu.instances, key=lambda gi: gi.placement):
        match = next((desired for desired in missing if _matches(instance, desired)), None)
        if match is None:
            return None
        missing.remove(match)
        kept.append(Kept(instance, match, tuple(sorted(ci.id for ci in instance.compute_instances)), (), ()))
    return None if missing else Plan(gpu, target, kept=tuple(kept))


def _matches(instance: GpuInstance, desired: DesiredInstance) -> bool:
    return (
        instance.profile_id == desired.profile.id
        and desired.start in (None, instance.placement.start)
        and sorted(ci.slices for ci in instance.compute_instances) == sorted(desired.slices)
        and all(ci.reduced == desired.reduced for ci in instance.compute_instances)
    )


def _covered(layout: Layout, lost: LostGpu, gpus: t.Sequence[Gpu]) -> str:
    """The error if the layout covers this GPU or may cover it; empty otherwise."""
    covering = [
        "%s %s it" % (entry.where, "covers" if sure else "may cover") for entry, sure in layout.covering(lost, gpus)
    ]
    if not covering:
        return ""
    unknown = "" if lost.gpu else " Its UUID, PCI bus id and product name cannot be read either."
    return (
        "%s cannot be read: %s.%s %s, so no GPU of this node was changed. To leave it out of the layout, name only "
        "other GPUs there (devices: [%s]), or remove the entry"
        % (
            lost.label,
            str(lost.error).rstrip("."),
            unknown,
            listed(covering, ", "),
            ", ".join(str(gpu.index) for gpu in gpus),
        )
    )
