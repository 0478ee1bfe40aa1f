"""Two cgroups of our own whose processes do known work: one on near memory, one on the farthest.

Where the machine has one node only, or its cgroups of version 2 cannot be pinned, they differ in the amount alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from msgspec import Struct

from numaudit.doctor.sources import kernel_samples
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies, find_hierarchies
from numaudit.kernel.cgroup_writer import OwnCgroup, available_controllers, own_tree
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.node import read_machine
from numaudit.probes.counters.reference_workload import ReferenceWorkload, reference_workload
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.hint_faults import HINT_FAULTS, HintFaultCounts
from numaudit.probes.kinds import KINDS
from numaudit.probes.session import Session
from numaudit.snapshot.counted import HintFault
from numaudit.topology.machine import Machine

MIB = 1 << 20
BUSY = 0.4
"""Seconds of CPU time to use, by the cgroup's own account."""
LEAST = 1000
"""Samples of each worker."""
_LOADING_WITHIN = 300.0
"""Seconds for the BPF programs to be compiled: unlike a report, a self-test has time to wait for a busy machine."""
_NEAR_BYTES, _FAR_BYTES = 32 * MIB, 16 * MIB
_THREADS = 2
_CPU_SECONDS = 20.0
"""For each worker: NUMA balancing scans a process by the CPU time that it uses."""
_WITHIN = 60.0
"""Seconds on the clock after which a machine that has not given that CPU time is too busy."""
_SETTLED = 0.1
_NANOSECONDS = 1_000_000_000


class Worker(Struct, frozen=True):
    """One of the two cgroups, and the process in it."""

    name: str
    group: OwnCgroup
    work: ReferenceWorkload
    cpu_node: int | None
    """The node of its CPUs and that of its memory; None = not pinned."""
    memory_node: int | None


class Bench(Struct, frozen=True):
    """Both workers, and what observes them."""

    host: Host
    machine: Machine
    hierarchies: Hierarchies
    session: Session
    near: Worker
    far: Worker

    @property
    def workers(self) -> tuple[Worker, Worker]:
        return self.near, self.far

    @property
    def is_pinned(self) -> bool:
        return self.near.memory_node is not None


@contextmanager
def near_and_far(host: Host) -> Iterator[Bench]:
    """Both at work until the end. Raises Unavailable when this host lets us make no cgroups of version 2."""
    machine, hierarchies = read_machine(host), find_hierarchies(host)
    if os.geteuid() != 0:
        raise Unavailable("the self-test makes cgroups and loads BPF programs: run it as root")
    if hierarchies.unified is None:
        raise Unavailable("the self-test needs cgroup version 2: boot with systemd.unified_cgroup_hierarchy=1")
    nodes = _places(machine)
    can_pin = nodes is not None and "cpuset" in available_controllers(hierarchies.unified)
    controllers = (*(("cpuset",) if can_pin else ()), *(("memory",) if hierarchies.is_v2 else ()))
    with ExitStack() as stack:
        session = stack.enter_context(
            Session.open(host, KINDS, cgroups=1024, nodes=len(machine.nodes), deadline=_LOADING_WITHIN)
        )
        name = f"numaudit-selftest-{os.getpid()}"
        tree = stack.enter_context(own_tree(hierarchies.unified, name, controllers))
        workers = []
        for label, size, place in (("near", _NEAR_BYTES, 0), ("far", _FAR_BYTES, 1)):
            cpu_node, memory_node, places = None, None, {}
            if can_pin and nodes is not None:
                cpu_node, memory_node = nodes[0], nodes[place]
                places = {"cpuset_mems": str(memory_node), "cpuset_cpus": str(machine.by_id[cpu_node].cpus)}
            group = tree.add(label, **places)
            work = stack.enter_context(reference_workload(size, _THREADS, group.path))
            workers.append(Worker(label, group, work, cpu_node, memory_node))
        yield Bench(host, machine, hierarchies, session, workers[0], workers[1])


def _places(machine: Machine) -> tuple[int, int] | None:
    """A node with CPUs and memory, and the node with memory that is farthest from it; None = there is no other."""
    near = next((node for node in machine.nodes if node.cpus and node.memory), None)
    if near is None:
        return None
    others = [node.id for node in machine.nodes if node.memory and node.id != near.id]
    far = max(others, key=lambda node: near.distances.get(node, 0), default=None)
    return None if far is None else (near.id, far)


class Busy(Struct, frozen=True):
    """CPU time while one of them worked."""

    seconds: Mapping[str, Mapping[int, float]]
    """As the probe counted it: name of the worker -> node -> seconds."""
    own_account: float
    """Of the busy one, by its cpu.stat."""
    uncounted: int
    """Events that the probe missed, or had no place for."""

    @property
    def is_enough(self) -> bool:
        return self.own_account >= BUSY


def use_cpu(bench: Bench, busy: Worker) -> Busy:
    """Have one worker use its CPU for a while. Raises OSError, Unavailable."""
    before, own_before = bench.session.read(CPU_TIME), cpu_seconds(busy)
    busy.work.order("touch")
    deadline = time.monotonic() + _WITHIN
    while cpu_seconds(busy) - own_before < BUSY and time.monotonic() < deadline:
        time.sleep(0.02)
    busy.work.order("rest")
    own_account = settle(busy) - own_before
    added = bench.session.read(CPU_TIME).since(before)
    rows = {worker.name: added.by_node.get(worker.group.id, {}) for worker in bench.workers}
    seconds = {name: {node: ns / _NANOSECONDS for node, ns in row.items()} for name, row in rows.items()}
    return Busy(seconds, own_account, added.all_lost)


def settle(worker: Worker) -> float:
    """Its account once it grows no more: a thread finishes its round before it goes idle."""
    last = -1.0
    while (now := cpu_seconds(worker)) != last:
        last = now
        time.sleep(_SETTLED)
    return now


def cpu_seconds(worker: Worker) -> float:
    """Seconds of CPU time of the cgroup by the kernel's scheduler. Raises OSError, Unavailable."""
    words = read_text(worker.group.path / "cpu.stat").split()
    if "usage_usec" not in words:
        raise Unavailable(
            f"{worker.group.path}/cpu.stat does not show the CPU time, so there is nothing to compare with"
        )
    return int(words[words.index("usage_usec") + 1]) / 1_000_000


class Samples(Struct, frozen=True):
    """Counts until each worker had enough, or the time was up."""

    faults: Mapping[str, Mapping[HintFault, int]]
    """By the worker's name."""
    has_skipped: bool
    """The kernel left out scans because cpuset.mems is one node."""
    of_kernel: int
    """Hint faults of the whole machine by the kernel's own count."""
    of_probe: int
    """Hint faults of the whole machine by the probe, those included that it knows it did not count."""

    @property
    def is_enough(self) -> bool:
        return all(self.count(worker) >= LEAST for worker in self.faults)

    def count(self, worker: str) -> int:
        return sum(self.faults[worker].values())

    def remote_share(self, worker: str) -> float | None:
        """Of the samples that were remote; None = there are none."""
        remote = sum(count for fault, count in self.faults[worker].items() if fault.is_remote)
        return remote / self.count(worker) if self.count(worker) else None

    @property
    def went_unseen(self) -> bool:
        """True when the kernel counted many samples that never reached the probe."""
        return self.of_kernel > 2 * self.of_probe + LEAST


def sample(bench: Bench) -> Samples:
    """Have both workers' successors use their memory. Raises OSError, NumauditError.

    The kernel samples a new process soon, and an old one whenever it likes (Linux 6.12 leaves out what it finds not
    worth it). So the memory that is sampled here is that of new processes.
    """
    with ExitStack() as stack:
        works = [
            stack.enter_context(reference_workload(worker.work.size, _THREADS, worker.group.path))
            for worker in bench.workers
        ]
        # From here on: a Python that starts uses pages of libraries, which are anywhere.
        before, kernel_before = bench.session.read(HINT_FAULTS), kernel_samples(bench.host)
        used_before = [cpu_seconds(worker) for worker in bench.workers]
        for work in works:
            work.order("touch")
        deadline = time.monotonic() + _WITHIN
        while True:
            kernel_count = kernel_samples(bench.host)  # first, so that the probe has seen what is in it
            found = _samples(bench, bench.session.read(HINT_FAULTS).since(before), kernel_count - kernel_before)
            used = min(cpu_seconds(one) - was for one, was in zip(bench.workers, used_before, strict=True))
            is_known = found.is_enough or found.has_skipped or found.went_unseen
            if is_known or used > _CPU_SECONDS or time.monotonic() > deadline:
                return found
            time.sleep(0.2)


def _samples(bench: Bench, added: HintFaultCounts, of_kernel: int) -> Samples:
    return Samples(
        {worker.name: added.faults.get(worker.group.id, {}) for worker in bench.workers},
        any(added.skipped.get(worker.group.id) for worker in bench.workers),
        of_kernel,
        added.events + added.lost.get("busy", 0),
    )
