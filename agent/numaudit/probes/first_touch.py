"""first_touch: on which node did a page come into being, and on which node was the CPU that first used it?

Samples of the software event page-faults-min, with the page's physical address and the cgroup. No BPF program and
no PMU is needed. It shows the first use of a page only: where memory was put, not how it is used later; a huge
page is one fault, and pages that were there before are none at all.
Source: include/uapi/linux/perf_event.h (PERF_SAMPLE_PHYS_ADDR, PERF_SAMPLE_CGROUP), kernel/events/core.c.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import Struct

from numaudit.errors import ParseError, Unavailable
from numaudit.kernel import files
from numaudit.kernel.host import Host, read_text
from numaudit.kernel.memory import physical
from numaudit.kernel.memory.physical import MemoryBlocks
from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event
from numaudit.kernel.tracing.perf_ring import Ring
from numaudit.probes import reasons
from numaudit.probes.loading.loader import LoadedProbe, ProbeRequest
from numaudit.probes.probe import Loss, NodePair, ProbeKind, Reading
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.topology.nodeset import CpuSet

_NAME = "first_touch"
PERIOD = 16
"""Faults per sample: measuring must not slow down a storm of faults."""
_RING = 256 << 10
"""Bytes of each CPU's ring, a power of two: some 10,000 samples fit."""
_PAGE_FAULTS_MIN = 5  # PERF_COUNT_SW_PAGE_FAULTS_MIN
_SAMPLE_PHYS_ADDR, _SAMPLE_CGROUP = 1 << 19, 1 << 21
_BODY = struct.Struct("=QQ")  # physical address and cgroup, in the order of kernel/events/core.c (perf_output_sample)
_NODE = re.compile(r"node(\d{1,4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class FirstTouches(Reading):
    """Samples of the tasks in each cgroup since the probe was opened.

    `ring-full` in `lost`: the kernel reports such samples with the next one that fits. `no-address`: the kernel did
    not know the sample's page any more.
    """

    samples: Mapping[int, Mapping[NodePair, int]] = field(default_factory=dict)
    throttled: int = 0
    """Number of times that the kernel stopped an event for a while because it came too often."""

    @property
    def events(self) -> int:
        """Number of samples that the kernel took, including the lost ones."""
        return sum(sum(row.values()) for row in self.samples.values()) + self.all_lost


def request(_host: Host, _cgroups: int, _nodes: int) -> ProbeRequest:
    """It needs no BPF program."""
    return ProbeRequest(_NAME, programs=(), maps=())


class _Watched(Struct):
    """One CPU's event and its ring."""

    event: int
    ring: Ring
    node: int

    def close(self) -> None:
        self.ring.close()
        os.close(self.event)


class FirstTouchProbe:
    """The running probe."""

    def __init__(self, host: Host, _: LoadedProbe | None = None, period: int = PERIOD) -> None:
        """Open an event on each CPU that is online. Raises ProbeRefusal."""
        self._host, self._period = host, period
        self._blocks = _read_blocks(host)
        self._watched: dict[int, _Watched] = {}
        self._samples: dict[int, Counter[NodePair]] = {}
        self._without_address = self._lost = self._throttled = self._returned = 0
        self.is_paused = True
        self.resume()

    @property
    def how(self) -> None:
        return None

    def read(self) -> FirstTouches:
        """All samples since the probe was opened."""
        for watched in self._watched.values():
            self._take(watched)
        self._follow_online_cpus()
        samples = {cgroup: dict(row) for cgroup, row in self._samples.items()}
        lost: dict[Loss, int] = {
            "ring-full": self._lost,
            "no-address": self._without_address,
            "cpu-away": self._returned,
        }
        return FirstTouches(samples, self._throttled, lost=lost)

    def cgroups(self) -> set[int]:
        """Those with samples that were read; what is in the rings is not known yet."""
        return {*self._samples}

    def forget(self, cgroups: Collection[int]) -> int:
        """Forget the samples of these cgroups; how many pairs of nodes went."""
        return sum(len(self._samples.pop(cgroup)) for cgroup in self._samples.keys() & set(cgroups))

    def watch(self, cgroups: frozenset[int] | None) -> None:
        """A sample shows its cgroup only when it is read, so all are taken."""

    def run_time(self) -> None:
        """It has no program."""

    def measure_cost(self) -> None:
        """Nothing measures the kernel's sampling alone."""

    def pause(self) -> None:
        """Close the events; what was sampled and not yet read is lost."""
        self.close()
        self.is_paused = True

    def resume(self) -> None:
        """Open an event on each CPU that is online. Raises ProbeRefusal."""
        try:
            for cpu in self._online():
                self._watch(cpu)
        except OSError as error:
            self.close()
            raise reasons.of_perf_event("cannot sample page faults", error) from error
        self.is_paused = False

    def close(self) -> None:
        for watched in self._watched.values():
            watched.close()
        self._watched.clear()

    def _take(self, watched: _Watched) -> None:
        records = watched.ring.read()
        self._lost += records.lost
        self._throttled += records.throttled
        size = self._blocks.block_size
        found = Counter((cgroup, address // size if address else None) for address, cgroup in decode(records.samples))
        for (cgroup, block), count in found.items():
            if block is None:
                self._without_address += count
                continue
            pair = (watched.node, node_of_block(block, self._blocks))
            self._samples.setdefault(cgroup, Counter())[pair] += count

    def _follow_online_cpus(self) -> None:
        """Have one event that samples on each CPU that is online: once its CPU was away, it never does again.

        It is read and closed. What a CPU did between its return and this reading is lost.
        """
        online = self._online()
        gone = [
            cpu
            for cpu, watched in self._watched.items()
            if cpu not in online or not perf_event.is_counting(watched.event)
        ]
        for cpu in gone:
            watched = self._watched.pop(cpu)
            try:
                self._take(watched)
            finally:
                watched.close()
        for cpu in online:
            if cpu not in self._watched:
                self._watch(cpu)
                self._returned += cpu in self._watched

    def _online(self) -> CpuSet:
        return CpuSet.parse(read_text(self._host.cpus / "online"))

    def _watch(self, cpu: int) -> None:
        node = _node_of_cpu(self._host, cpu)
        try:
            event = perf_event.open_event(_event(self._period), cpu=cpu)
        except OSError as error:
            if error.errno == errno.ENODEV:  # gone offline this moment
                return
            raise
        try:
            ring = Ring(event, _RING // mmap.PAGESIZE)
        except OSError:
            os.close(event)
            raise
        self._watched[cpu] = _Watched(event, ring, node)
        perf_event.enable(event)


FIRST_TOUCH = ProbeKind(_NAME, request, FirstTouchProbe, ns_per_event=3000.0, by_default=False, pause_order=3)


def decode(bodies: Iterable[bytes]) -> list[tuple[int, int]]:
    """Physical address (0 = not known) and cgroup id of each sample. Raises ParseError."""
    try:
        return [_BODY.unpack(body) for body in bodies]
    except struct.error:
        raise ParseError(f"a sample does not have the {_BODY.size} bytes that were requested") from None


def node_of_block(block: int, blocks: MemoryBlocks) -> int | None:
    """The node of a memory block; None = it lies on two nodes, or on none."""
    nodes = blocks.nodes_of_block.get(block)
    return next(iter(nodes)) if nodes is not None and len(nodes) == 1 else None


def _node_of_cpu(host: Host, cpu: int) -> int:
    """By the link `nodeN` in the CPU's folder. Raises OSError, Unavailable."""
    folder = host.cpus / f"cpu{cpu}"
    found = [int(match[1]) for name in files.names(folder) if (match := _NODE.fullmatch(name))]
    if len(found) != 1:
        raise Unavailable(f"{folder} does not name the node of CPU {cpu}, so its page faults cannot be attributed")
    return found[0]


def _event(period: int) -> Event:
    return Event(
        perf_event.TYPE_SOFTWARE,
        config=_PAGE_FAULTS_MIN,
        sample_period=period,
        sample_type=_SAMPLE_PHYS_ADDR | _SAMPLE_CGROUP,
        read_format=perf_event.TIME_ENABLED,
    )


def _read_blocks(host: Host) -> MemoryBlocks:
    try:
        return physical.read(host)
    except Unavailable as error:
        raise ProbeRefusal(Reason.NO_MEMORY_BLOCKS, str(error)) from error
