"""What one look at the memory and cpusets of all cgroups costs by one walk, decoded, beside reading their files.

python tests/bench/bench_residency.py [--cgroups=NUMBER] [REPETITIONS]. It decodes made-up rows. As root, with
cgroup v2, it also makes that many cgroups (1,000) and removes them again. The floor opens, reads and closes three files
of each and does nothing else. `all changed`: a page of each cgroup was added since the look before. Also printed: how
long a walk holds the kernel's cgroup mutex. It fails when a goal is missed. In guests: tests/vm/bench_cgroup_walk.py.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most, at_most_ms, least_ms
from made_btf import btf_of, described
from made_rows import made_row
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.kernel.cgroup import Hierarchies, find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.memory.cgroup_layout import cgroup_layout
from numaudit.kernel.memory.cgroup_rows import AllowedSets, CgroupRows, Residents, RowDecoding, RowLayout
from numaudit.kernel.tracing.btf import Btf
from short import pick, repetitions, run

MADE_UP = pick((1000, 5000), short=(1000,))
NODES = 4
NONE_MS, ALL_MS = 0.2, 1.5
"""Of decoding 1,000 cgroups; 5,000 may take six times as long, for caches hold less of them."""
NONE_SHORT, ALL_SHORT = 0.1, 0.8
GOAL = 0.1
REPEATS = repetitions(15)
FILES = ("memory.numa_stat", "cpuset.mems.effective", "cpuset.cpus.effective")
PAGE = 4096


def main() -> None:
    for cgroups in MADE_UP:
        _decode(cgroups)
    try:
        _beside_files(_cgroups_wanted())
    except Unavailable as reason:
        print(f"no walk here: {reason}")


def _cgroups_wanted() -> int:
    given = [word.partition("=")[2] for word in sys.argv[1:] if word.startswith("--cgroups=")]
    return int(given[0]) if given else pick(1000, short=40)


def _decode(cgroups: int) -> None:
    """The part of a look that Python does."""
    layout = RowLayout.of(cgroup_layout(Btf(btf_of(described("6.12"))), PAGE), nodes=NODES, cpus=64)
    how = RowDecoding(tuple(layout.kernel.rows), tuple(range(NODES)), frozenset(), {})
    residents, allowed = Residents(), AllowedSets()
    texts = [_rows(layout, cgroups, pages) for pages in (0, 1)]

    def look(text: bytes) -> None:
        walked = CgroupRows(text, layout)
        residents.decode(walked, how)
        allowed.decode(walked)

    def look_at_the_other() -> None:
        texts.reverse()
        look(texts[0])

    look(texts[0])
    times = cgroups / 1000 if cgroups == 1000 else 1.2 * cgroups / 1000
    for what, act, goal, short in (
        ("none changed", lambda: look(texts[0]), NONE_MS, NONE_SHORT),
        ("all changed", look_at_the_other, ALL_MS, ALL_SHORT),
    ):
        at_most_ms(f"decoding of {cgroups} cgroups, {what}", least_ms(act, 15), goal * times, short=short)


def _rows(layout: RowLayout, cgroups: int, pages: int) -> bytes:
    """Each cgroup has so many pages more, and all have different sizes."""
    words = array("q")
    masks = [(1 << NODES) - 1, *[-1] * (layout.columns_at - 3)]
    for id_ in range(1, cgroups + 1):
        counters = {
            row: [id_ * (17 + place) + 31 * node + pages for node in range(NODES)]
            for place, row in enumerate(layout.kernel.rows)
        }
        words.extend(made_row(layout, id_, counters, masks=masks))
    return words.tobytes()


def _beside_files(cgroups: int) -> None:
    """Raises Unavailable where there is no walk."""
    if os.geteuid() != 0:
        raise Unavailable("run as root: only root makes cgroups")
    hierarchies = find_hierarchies(Host())
    if not hierarchies.is_v2:
        raise Unavailable(f"cgroup {hierarchies.mode}: there is a walk for cgroup v2 only")
    observer = Observer.of(Host(), with_walks=True)
    walks = observer.walks
    assert walks is not None
    with _cgroups(hierarchies.memory, cgroups) as folders:
        machine, census = observer.machine.read(), observer.inventory.take()
        ids = [group.id for groups in census.groups.values() for group in groups]

        def look() -> None:
            walked = walks.take(census, machine)
            walked.residents({})
            for id_ in ids:
                walked.allowed.get(id_)

        try:
            walks.load(census, machine)
            look()
            alike = least_ms(look, REPEATS)
            with _growing(hierarchies, folders) as grow:
                unlike = least_ms(look, REPEATS, grow)
            held = walks.longest_seconds or 0.0
        finally:
            walks.close()
        floor = least_ms(lambda: _read_all(folders), REPEATS)
    print(f"floor           {floor:7.1f} ms of CPU time to open, read and close {len(folders) * 3} files")
    print(f"all changed     {unlike:7.1f} ms of CPU time for a walk and its values")
    print(f"none changed    {alike:7.1f} ms of CPU time for a walk and its values")
    print(f"cgroup mutex    {held * 1000:7.1f} ms at most during a walk over {len(ids)} cgroups")
    at_most("a walk, no cgroup changed", alike / floor, GOAL, "of the floor")
    at_most("a walk, all cgroups changed", unlike / floor, GOAL, "of the floor")


@contextlib.contextmanager
def _cgroups(root: Path, cgroups: int) -> Iterator[list[Path]]:
    top = root / f"numaudit-bench-{os.getpid()}"
    made: list[Path] = []
    try:
        for parent in (root, top):
            if parent == top:
                top.mkdir()
                made.append(top)
            (parent / "cgroup.subtree_control").write_text("+memory +cpuset")
        for number in range(cgroups):
            made.append(top / f"c{number}")
            made[-1].mkdir()
        yield made[1:]
    finally:
        for folder in reversed(made):
            folder.rmdir()


@contextlib.contextmanager
def _growing(hierarchies: Hierarchies, folders: Sequence[Path]) -> Iterator[Callable[[], None]]:
    """What adds a page of shared memory to each cgroup, by going there. It takes long."""
    page = bytes(PAGE)

    def grow() -> None:
        for folder in folders:
            (folder / "cgroup.procs").write_text("0")
            file.write(page)
        (hierarchies.memory / "cgroup.procs").write_text("0")

    with tempfile.TemporaryFile(dir="/dev/shm", buffering=0) as file:
        yield grow


def _read_all(folders: Sequence[Path]) -> None:
    for folder in folders:
        for name in FILES:
            descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CLOEXEC)
            os.read(descriptor, 16384)
            os.close(descriptor)


if __name__ == "__main__":
    run(main)
