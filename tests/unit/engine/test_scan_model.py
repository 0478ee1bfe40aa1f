"""What hint faults say of a process is true of it, whatever it does: against a model of the kernel's scan."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from made_up.scan_model import PAGE, Process
from numaudit.counted import SeenRemote
from numaudit.engine.collectors.probes.pages_used import limited
from numaudit.engine.collectors.probes.scan_passes import ScanPasses
from numaudit.kernel.tasks import ProcessMemory
from numaudit.snapshot import Resident

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
        self.told = None if found is None else limited(found, resident, [mapped])

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
