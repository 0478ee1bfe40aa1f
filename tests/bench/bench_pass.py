"""What one tick on a host with 1,000 containers costs.

Run as root: python tests/bench/bench_pass.py. It makes 1,000 empty cgroups named like containers of pods, in the
memory and cpuset hierarchies (the same folder with cgroup v2), and removes them again. It fails when a tick takes
more than the floor of CPU time.

The floor in the same run opens, reads and closes the containers' files and does nothing else (a tick keeps them
open, so it can be below).
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from goals import at_most, least_ms, pick, run
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies, find_hierarchies
from numaudit.kernel.host import Host

CONTAINERS = pick(1000, short=200)
MOST_OF_FLOOR, SHORT_OF_FLOOR = 1.0, 5.0
"""The floor of a few containers is small beside what a tick does besides."""
REPEATS = pick(15, short=5)


def main() -> None:
    if os.geteuid() != 0:
        raise Unavailable("run as root: only root makes cgroups")
    hierarchies = find_hierarchies(Host())
    with _containers(hierarchies) as paths:
        observer = Observer.of(Host())
        began = time.process_time()
        snapshot = observer.observe()
        first = time.process_time() - began
        read = sum(container.path in paths for container in snapshot.containers if container.id in snapshot.residency)
        print(f"{read} of {CONTAINERS} containers read, {len(snapshot.machine.nodes)} nodes, cgroup {hierarchies.mode}")
        tick = least_ms(observer.observe, REPEATS)
        files = _files(hierarchies, paths)
        floor = least_ms(lambda: _read_all(files), REPEATS)
        steps = {one.source: one.seconds for one in observer.observe().outcomes if one.seconds is not None}
    print(f"one tick        {tick:7.1f} ms of CPU time")
    print(f"  of that       {', '.join(f'{name} {seconds * 1000:.1f}' for name, seconds in steps.items())}")
    print(f"first tick      {first * 1000:7.1f} ms")
    print(f"floor           {floor:7.1f} ms to open, read and close {len(files)} files")
    print(f"                one tick is {tick / floor:.2f} of the floor")
    assert read == CONTAINERS
    at_most("one look, of the floor by files", tick / floor, MOST_OF_FLOOR, short=SHORT_OF_FLOOR)


@contextlib.contextmanager
def _containers(hierarchies: Hierarchies) -> Iterator[set[str]]:
    """Paths inside the hierarchies: 500 pods of two containers."""
    top = f"/numaudit-bench-{os.getpid()}"
    pods = [f"{top}/kubepods/pod{uuid.UUID(int=number)}" for number in range(CONTAINERS // 2)]
    paths = {f"{pod}/{side}{number:063x}" for number, pod in enumerate(pods) for side in "ab"}
    roots = {root for root in (hierarchies.memory, hierarchies.cpuset) if root is not None}
    made: list[str] = []
    try:
        for root in roots:
            for path in (top, f"{top}/kubepods", *pods, *paths):
                os.mkdir(f"{root}{path}")  # noqa: PTH102 (a Path would drop nothing here, but cost as much again)
                made.append(f"{root}{path}")
                if hierarchies.is_v2 and path not in paths:
                    Path(f"{root}{path}/cgroup.subtree_control").write_text("+memory +cpuset")
                elif root == hierarchies.cpuset:
                    for name in ("cpuset.mems", "cpuset.cpus"):
                        Path(f"{root}{path}/{name}").write_text((root / name).read_text())
        yield paths
    finally:
        for folder in reversed(made):
            Path(folder).rmdir()


def _files(hierarchies: Hierarchies, paths: set[str]) -> list[str]:
    """What a tick reads of each container."""
    cpuset = (
        ("cpuset.mems.effective", "cpuset.cpus.effective")
        if hierarchies.is_v2
        else ("cpuset.effective_mems", "cpuset.effective_cpus")
    )
    files = [f"{hierarchies.memory}{path}/memory.numa_stat" for path in paths]
    if hierarchies.cpuset is not None:
        files += [f"{hierarchies.cpuset}{path}/{name}" for path in paths for name in cpuset]
    return files


def _read_all(files: list[str]) -> None:
    for file in files:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        os.read(descriptor, 16384)
        os.close(descriptor)


if __name__ == "__main__":
    run(main)
