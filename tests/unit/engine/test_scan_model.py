"""What hint faults say of a process is true of it, whatever it does: against a model of the kernel's scan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from numaudit.engine.collectors.probes.pages_used import OnNodes, limited
from numaudit.engine.collectors.probes.scan_passes import ScanPasses
from numaudit.kernel.tasks import ProcessMemory
from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.snapshot import Resident
from numaudit.snapshot.counted import HintFault, SeenRemote

PAGE = 4096
LOCAL = 8


@dataclass
class Page:
    node: int
    is_marked: bool = False


@dataclass
class Process:
    """One process with memory on two nodes, whose threads run on any of them."""

    random: Random
    pid: int = 100
    image: int = 3
    says_left_out: bool = True
    pages: dict[int, Page] = field(default_factory=dict)
    pass_: int = 0
    position: int = 0
    """How many of its pages the scan has passed; 0 = the pass before is through."""
    faults: dict[ScanPass, Counter[HintFault]] = field(default_factory=dict)
    left_out: Counter[ScanPass] = field(default_factory=Counter)
    used_remotely: dict[ScanPass, set[int]] = field(default_factory=dict)
    """The truth: pages that were used from another node while a pass was the one that faults belong to."""
    _next: int = 0

    @property
    def current(self) -> ScanPass:
        return ScanPass(self.pid, self.image, self.pass_ if self.position else self.pass_ - 1)

    def map(self, count: int, node: int) -> None:
        for _ in range(count):
            self.pages[self._next] = Page(node)
            self._next += 1

    def unmap(self, share: float) -> None:
        for one in [one for one in self.pages if self.random.random() < share]:
            del self.pages[one]

    def move(self, share: float, node: int) -> None:
        """Somebody else moves memory, which takes its marks away."""
        for page in self.pages.values():
            if self.random.random() < share:
                page.node, page.is_marked = node, False

    def scan(self, share: float, skip: bool) -> None:
        """The scan goes on through so much of the memory, or leaves it out."""
        order = sorted(self.pages)
        end = min(len(order), self.position + max(1, round(share * len(order))))
        number = ScanPass(self.pid, self.image, self.pass_)
        for one in order[self.position : end]:
            if skip:
                self.left_out[number] += PAGE
            else:
                self.pages[one].is_marked = True
        self.position = end
        if self.position >= len(order):
            self.pass_, self.position = self.pass_ + 1, 0

    def use(self, cpu_node: int, share: float) -> None:
        for one, page in self.pages.items():
            if self.random.random() >= share:
                continue
            if page.node != cpu_node:
                self.used_remotely.setdefault(self.current, set()).add(one)
            if page.is_marked:
                kind = HintFault(cpu_node, page.node, LOCAL if page.node == cpu_node else 0)
                self.faults.setdefault(self.current, Counter())[kind] += 1
                page.is_marked = False

    def execute(self) -> None:
        self.image += 1
        self.pages.clear()
        self.pass_ = self.position = 0

    def reading(self) -> dict[ScanPass, PassUse]:
        """The two newest passes, as the probe's map has them."""
        passes = sorted({*self.faults, *self.left_out})[-2:]
        return {
            one: PassUse(dict(self.faults.get(one, {})), self.left_out[one] if self.says_left_out else None)
            for one in passes
        }

    def on(self, node: int) -> int:
        return PAGE * sum(page.node == node for page in self.pages.values())


GROUP = 7


class Watcher:
    """The agent beside the process, tick by tick."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.passes = ScanPasses()
        self.now = 0.0
        self.told: SeenRemote | None = None

    def tick(self) -> None:
        self.now += 15.0
        process, mapped = self.process, ProcessMemory(PAGE * len(self.process.pages), 0, 0)
        self.passes.take({GROUP: process.reading()}, PAGE, self.now)
        self.passes.keep_only(GROUP, {process.pid})
        found = self.passes.of({GROUP}, PAGE, self.now)
        resident = Resident(anon={node: process.on(node) for node in (0, 1)}, shmem={}, file={}, hugetlb={})
        self.told = None if found is None else limited(found, resident, [mapped], OnNodes.of(resident, {}))

    def is_true(self) -> bool:
        """So many pages were used from another node in four passes of the newest program that faulted."""
        told, process = 0 if self.told is None else self.told.at_least, self.process
        image = max((one.image for one in {*process.faults, *process.left_out}), default=process.image)
        passes = {one.number: pages for one, pages in process.used_remotely.items() if one.image == image}
        seen = [set().union(*(passes.get(one - back, set()) for back in range(4))) for one in passes]
        return told <= PAGE * max(map(len, seen), default=0)


def _live(process: Process, watcher: Watcher, random: Random, events: bool) -> None:
    """One tick of its life."""
    home, away = random.choice(((0, 1), (1, 0)))
    for _ in range(random.randint(1, 4)):
        for _ in range(random.randint(0, 3)):
            process.scan(random.choice((0.2, 0.5, 1.0)), skip=random.random() < 0.2)
        process.use(random.choice((home, home, away)), random.choice((0.0, 0.1, 0.5, 1.0)))
    if events and random.random() < 0.3:
        match random.randint(0, 3):
            case 0:
                process.map(random.randint(1, 40), random.randint(0, 1))
            case 1:
                process.unmap(random.random())
            case 2:
                process.move(random.random(), random.randint(0, 1))
            case _:
                process.execute()
                process.map(random.randint(1, 40), random.randint(0, 1))
    watcher.tick()


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_any_process_used_as_much_remotely_as_is_told(seed: int, says_left_out: bool, events: bool) -> None:
    random = Random(seed)
    process = Process(random, says_left_out=says_left_out)
    for node in (0, 1):
        process.map(random.randint(0, 60), node)
    watcher = Watcher(process)
    for _ in range(20):
        _live(process, watcher, random, events)
        assert watcher.is_true(), (watcher.told, process.used_remotely)
