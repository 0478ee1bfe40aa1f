"""What one look at the memory and cpusets of 1,000 cgroups costs by one walk, decoded, beside reading their files.

Run as root, with cgroup v2: python tests/bench/bench_residency.py. It makes 1,000 cgroups and removes them again. The
floor opens, reads and closes three files of each and does nothing else. It fails when a look takes more than a tenth
of the floor where nothing has changed, or more than 0.4 of it where every row has to be decoded again. Also printed:
how long a walk holds the kernel's cgroup mutex.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from goals import at_most
from numaudit.engine.cgroup_walks import _Decoders
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import find_hierarchies
from numaudit.kernel.host import Host
from short import pick, repetitions, run

CGROUPS = pick(1000, short=40)
GOAL, GOAL_CHANGED = 0.1, 0.4
REPEATS = repetitions(15)
FILES = ("memory.numa_stat", "cpuset.mems.effective", "cpuset.cpus.effective")


def main() -> None:
    if os.geteuid() != 0:
        raise Unavailable("run as root: only root makes cgroups")
    hierarchies = find_hierarchies(Host())
    if not hierarchies.is_v2:
        raise Unavailable(f"cgroup {hierarchies.mode}: there is a walk for cgroup v2 only")
    observer = Observer.of(Host(), with_walks=True)
    walks = observer.walks
    assert walks is not None
    with _cgroups(hierarchies.memory) as folders:
        machine = observer.machine.read()
        census = observer.inventory.take()
        try:
            walks.load(census, machine)
            ids = [id_ for groups in census.groups.values() for id_ in (group.id for group in groups)]

            def look() -> None:
                walked = walks.take(census, machine)
                walked.residents({})
                for id_ in ids:
                    walked.allowed(id_)

            def changed() -> None:
                walks._decode = _Decoders()
                look()

            unlike, alike = _cpu_seconds(changed), _cpu_seconds(look)
            held = walks.longest_seconds or 0.0
        finally:
            walks.close()
        floor = _cpu_seconds(lambda: _read_all(folders))
    print(f"floor           {floor * 1000:7.1f} ms of CPU time to open, read and close {len(folders) * 3} files")
    print(f"all changed     {unlike * 1000:7.1f} ms of CPU time for a walk and its values")
    print(f"none changed    {alike * 1000:7.1f} ms of CPU time for a walk and its values")
    print(f"cgroup mutex    {held * 1000:7.1f} ms at most during a walk over {len(ids)} cgroups")
    at_most("a walk, no cgroup changed", alike / floor, GOAL, "of the floor")
    at_most("a walk, all cgroups changed", unlike / floor, GOAL_CHANGED, "of the floor")


@contextlib.contextmanager
def _cgroups(root: Path) -> Iterator[list[Path]]:
    top = root / f"numaudit-bench-{os.getpid()}"
    made: list[Path] = []
    try:
        for parent in (root, top):
            if parent == top:
                top.mkdir()
                made.append(top)
            (parent / "cgroup.subtree_control").write_text("+memory +cpuset")
        for number in range(CGROUPS):
            made.append(top / f"c{number}")
            made[-1].mkdir()
        yield made[1:]
    finally:
        for folder in reversed(made):
            folder.rmdir()


def _read_all(folders: list[Path]) -> None:
    for folder in folders:
        for name in FILES:
            descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            os.read(descriptor, 16384)
            os.close(descriptor)


def _cpu_seconds(act: Callable[[], object]) -> float:
    """The least of several runs: other work on the machine only ever adds."""
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        act()
        seconds.append(time.process_time() - began)
    return min(seconds)


if __name__ == "__main__":
    run(main)
