# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node in memory behind the driver protocol, as strict as hardware.

Refuses what hardware refuses, with the same return codes, assigns IDs and numbers like the
driver, fails any call on request, before or after it takes effect, and counts
every call.
"""

from __future__ import annotations

import collections
import threading

from ansible_collections.gpufleet.node.plugins.module_utils._backend.boards import mark_reduced
from ansible_collections.gpufleet.node.plugins.module_utils._mig import codes
from ansible_collections.gpufleet.node.plugins.module_utils._mig.backend import BackendError, CiProfile, Versions
from ansible_collections.gpufleet.node.plugins.module_utils._mig.model import (
    Board,
    ComputeInstance,
    Gpu,
    GpuInstance,
    Placement,
    Process,
    Profile,
)


def _profile(name, id, constant, slices, memory, sms, most, starts, size):
    return Profile(name, id, constant, slices, memory, sms, most, tuple(Placement(s, size) for s in starts))


def _seven(big, sms):
    """The profiles that all boards with seven slices share."""
    one, two, half, all_ = (int(big * part) for part in (1 / 8, 1 / 4, 1 / 2, 1))
    return (
        _profile("1g.%dgb" % one, 19, 0, 1, one * 1000, sms, 7, range(7), 1),
        _profile("2g.%dgb" % two, 14, 1, 2, two * 1000, 2 * sms, 3, (0, 2, 4), 2),
        _profile("3g.%dgb" % half, 9, 2, 3, half * 1000, 3 * sms + 12, 2, (0, 4), 4),
        _profile("4g.%dgb" % half, 5, 3, 4, half * 1000, 4 * sms, 1, (0,), 4),
        _profile("7g.%dgb" % all_, 0, 4, 7, all_ * 1000, 7 * sms + 20, 1, (0,), 8),
        _profile("1g.%dgb+me" % one, 20, 7, 1, one * 1000, sms, 1, range(7), 1),
        _profile("1g.%dgb" % two, 15, 9, 1, two * 1000, sms + 10, 4, (0, 2, 4, 6), 2),
    )


A100 = Board("NVIDIA A100-SXM4-40GB", _seven(40, 14), 7, 8, 7)
H100 = Board("NVIDIA H100 80GB HBM3", _seven(80, 16), 7, 8, 7)

# Possible starts of compute instances, by size, as listed by real GPU instances.
_CI_STARTS = {
    1: {1: (0,)},
    2: {1: (0, 1), 2: (0,)},
    3: {1: (0, 1, 2), 2: (0,), 3: (0,)},
    4: {1: (0, 1, 2, 3), 2: (0, 2), 4: (0,)},
    7: {1: (0, 1, 2, 3, 4, 5, 6), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)},
}
_CI_IDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_REV1 = 7  # one slice with more multiprocessors, once per GPU instance


def profile(board, name, slices=None):
    """The profile of that name; of two with one name, the first."""
    return next(p for p in board.profiles if p.name == name and slices in (None, p.slices))


class FakeGpu:
    """One GPU. ``activation`` is the result of a mode change that needs a reset: 0 if it is applied at once."""

    def __init__(self, index=0, board=A100, mode=True, resetless=None, activation=0, lists_profiles=True):
        self.index = index
        self.uuid = "GPU-00000000-0000-0000-0000-%012d" % index
        self.board = board
        self.current = self.pending = mode
        self.resetless = board is H100 if resetless is None else resetless
        self.activation = activation
        self.lists_profiles = lists_profiles  # also while the mode is off
        self.lists_ci_places = True
        self.reset_error = None
        self.instances = {}  # id -> [profile, placement, {ci id: (profile id, slices, multiprocessors, placement)}]
        self.processes = []
        self.hidden_client = False  # uses the GPU but is not listed

    def add(self, name, start, cis=None, slices=None, reduced=False):
        """Create a GPU instance with compute instances of these sizes (default: one that fills it)."""
        what = profile(self.board, name, slices)
        place = next(p for p in what.placements if p.start == start)
        gi_id = self.create(what.id, place)
        for size in (what.slices,) if cis is None else cis:
            offered = [p for p in self.ci_profiles(gi_id) if p.slices == size and p.reduced == reduced]
            self.create_ci(gi_id, offered[0].id, None)
        return gi_id

    def use(self, gi_id=None, ci_id=None, pid=4711, name="python"):
        self.processes.append(Process(pid, name, gi_id, ci_id))

    def create(self, profile_id, place):
        what = self._profile(profile_id)
        if place not in what.placements:
            raise Refused(codes.INVALID_ARGUMENT)
        present = list(self.instances.values())
        if any(place.overlaps(other) for _p, other, _c in present):
            raise Refused(codes.INSUFFICIENT_RESOURCES)
        if sum(p.slices for p, _o, _c in present) + what.slices > self.board.compute_slices:
            raise Refused(codes.INSUFFICIENT_RESOURCES)
        if what.name.endswith("+me") and any(p.name.endswith("+me") for p, _o, _c in present):
            raise Refused(codes.INSUFFICIENT_RESOURCES)
        # An ID depends on the placement, as on hardware: a recreated instance has its old ID.
        gi_id = {8: 0, 4: 1, 2: 3, 1: 7}[place.size] + place.start // place.size
        self.instances[gi_id] = [what, place, {}]
        return gi_id

    def destroy(self, gi_id):
        _what, _place, cis = self._instance(gi_id)
        if cis or any(p.gi_id == gi_id for p in self.processes):
            raise Refused(codes.IN_USE)
        del self.instances[gi_id]

    def ci_profiles(self, gi_id):
        what = self._instance(gi_id)[0]
        found = [
            CiProfile(
                _CI_IDS[size],
                size,
                what.multiprocessors if size == what.slices > 1 else self._plain() * size,
                what.slices // size,
                self._places(starts, size),
            )
            for size, starts in _CI_STARTS[what.slices].items()
        ]
        if what.multiprocessors >= self._plain() + 10:
            found.append(CiProfile(_REV1, 1, self._plain() + 10, 1, self._places((0,), 1)))
        return mark_reduced(found)

    def create_ci(self, gi_id, profile_id, start):
        what, _place, cis = self._instance(gi_id)
        offered = {p.id: p for p in self.ci_profiles(gi_id)}
        if profile_id not in offered:
            raise Refused(codes.NOT_SUPPORTED)
        kind = offered[profile_id]
        starts = _CI_STARTS[what.slices][kind.slices]
        places = [Placement(s, kind.slices) for s in starts if start in (None, s)]
        free = [p for p in places if not any(p.overlaps(other[3]) for other in cis.values())]
        if start is not None and start not in starts:
            raise Refused(codes.INVALID_ARGUMENT)
        used = sum(other[2] for other in cis.values())
        if not free or used + kind.multiprocessors > what.multiprocessors:
            raise Refused(codes.INSUFFICIENT_RESOURCES)
        ci_id = next(number for number in range(8) if number not in cis)
        cis[ci_id] = (kind.id, kind.slices, kind.multiprocessors, free[0])
        return ci_id

    def destroy_ci(self, gi_id, ci_id):
        cis = self._instance(gi_id)[2]
        if ci_id not in cis:
            raise Refused(codes.NOT_FOUND)
        if any(p.gi_id == gi_id and p.ci_id in (None, ci_id) for p in self.processes):
            raise Refused(codes.IN_USE)
        del cis[ci_id]

    def set_mode(self, enabled):
        if self.instances and not enabled:
            raise Refused(codes.IN_USE)
        in_use = self.hidden_client or any(p.gi_id is None for p in self.processes)
        if enabled == self.current:
            self.pending = enabled
            return codes.SUCCESS
        if self.resetless:
            if in_use:
                raise Refused(codes.IN_USE)
            self.current = self.pending = enabled
            return codes.SUCCESS
        self.pending = enabled
        status = codes.IN_USE if in_use else self.activation
        if status == codes.SUCCESS:
            self.current = enabled
        return status

    def reset(self):
        if self.reset_error is not None:
            raise Refused(self.reset_error)
        if self.processes or self.hidden_client:
            raise Refused(codes.IN_USE)
        self.instances.clear()
        self.current = self.pending

    def snapshot(self):
        known = self.current or self.lists_profiles
        return Gpu(
            index=self.index,
            uuid=self.uuid,
            pci_bus_id="00000000:%02X:00.0" % (7 + self.index),
            name=self.board.model,
            pci_device_id=0x20B010DE,
            pci_subsystem_id=0x134F10DE,
            mig_capable=True,
            mode_current=self.current,
            mode_pending=self.pending,
            resetless=self.resetless,
            board=self.board if known else Board(self.board.model, (), 0, 0, 0),
            profiles_known=known,
            instances=tuple(
                GpuInstance(
                    gi_id,
                    what.id,
                    place,
                    tuple(
                        ComputeInstance(
                            ci,
                            kind,
                            size,
                            where,
                            "MIG-%d-%d-%d" % (self.index, gi_id, ci),
                            sms,
                            kind in {offered.id for offered in self.ci_profiles(gi_id) if offered.reduced},
                        )
                        for ci, (kind, size, sms, where) in sorted(cis.items())
                    ),
                )
                for gi_id, (what, place, cis) in sorted(self.instances.items())
            ),
            processes=tuple(self.processes),
        )

    def identity(self):
        return self.snapshot()._replace(instances=(), processes=())

    def _profile(self, profile_id):
        if not self.current:
            raise Refused(codes.NOT_SUPPORTED)
        for candidate in self.board.profiles:
            if candidate.id == profile_id:
                return candidate
        raise Refused(codes.INVALID_ARGUMENT)

    def _instance(self, gi_id):
        if gi_id not in self.instances:
            raise Refused(codes.NOT_FOUND)
        return self.instances[gi_id]

    def _places(self, starts, size):
        return tuple((start, size) for start in starts) if self.lists_ci_places else ()

    def _plain(self):
        return self.board.profiles[0].multiprocessors


class Refused(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


class FakeBackend:
    """``fail`` maps (call, how often it was called before) to a code; ``late`` makes those fail after they took effect."""

    name = "fake"

    def __init__(self, *gpus):
        self.gpus = gpus
        self.fail = {}
        self.late = False
        self.always = {}  # call, or call and GPU -> code
        self.before = None  # called with every call's name before it is made
        self.calls = []
        self._counts = collections.Counter()
        self._lock = threading.Lock()

    def open(self):
        pass

    def close(self):
        pass

    def count(self):
        return self._call("count", None, lambda: len(self.gpus))

    def versions(self):
        return self._call("versions", None, lambda: Versions("550.163.01", "12.4", "12.550.163.01"))

    def prefetch(self):
        self.calls.append(("prefetch", None))

    def read(self, index):
        return self._call("read", index, self.gpus[index].snapshot)

    def identify(self, index):
        return self._call("identify", index, self.gpus[index].identity)

    def set_mode(self, index, enabled):
        return self._call("set_mode", index, lambda: self.gpus[index].set_mode(enabled))

    def create_gpu_instance(self, index, profile_id, placement):
        return self._call("create_gpu_instance", index, lambda: self.gpus[index].create(profile_id, placement))

    def destroy_gpu_instance(self, index, gi_id):
        return self._call("destroy_gpu_instance", index, lambda: self.gpus[index].destroy(gi_id))

    def compute_profiles(self, index, gi_id):
        return self._call("compute_profiles", index, lambda: self.gpus[index].ci_profiles(gi_id))

    def create_compute_instance(self, index, gi_id, profile_id, start):
        return self._call(
            "create_compute_instance", index, lambda: self.gpus[index].create_ci(gi_id, profile_id, start)
        )

    def destroy_compute_instance(self, index, gi_id, ci_id):
        return self._call("destroy_compute_instance", index, lambda: self.gpus[index].destroy_ci(gi_id, ci_id))

    def reset(self, index):
        return self._call("reset", index, self.gpus[index].reset)

    @property
    def writes(self):
        reading = ("prefetch", "count", "identify", "read", "compute_profiles")
        return [call for call, _index in self.calls if call not in reading]

    def _call(self, name, index, effect):
        if self.before is not None:
            self.before(name)
        with self._lock:
            always = self.always.get(name, self.always.get((name, index)))
            code = self.fail.get((name, self._counts[name])) if always is None else always
            self._counts[name] += 1
            self.calls.append((name, index))
            if code is not None and not self.late:
                raise BackendError(code, name, "injected failure")
            try:
                answer = effect()
            except Refused as refused:
                raise BackendError(refused.code, name) from None
            if code is not None:
                raise BackendError(code, name, "injected failure after its effect")
            return answer
