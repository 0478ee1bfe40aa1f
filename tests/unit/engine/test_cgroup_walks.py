"""A walk is used once it is proven, and files are read before, beyond its rows, and for ever after it was wrong."""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from made_btf import btf_of, described
from made_rows import made_row
from numaudit.containers.inventory import Census
from numaudit.engine import cgroup_walks
from numaudit.engine.cgroup_walks import CgroupWalks, WalkedNow
from numaudit.errors import Absent, Unavailable
from numaudit.kernel.cgroup import Cgroup, Hierarchies, Reader
from numaudit.kernel.host import Host
from numaudit.kernel.memory.cgroup_layout import cgroup_layout
from numaudit.kernel.memory.cgroup_rows import CgroupRows, RowLayout
from numaudit.kernel.memory.numa_stat import MOVE_ROWS
from numaudit.kernel.tracing.btf import Btf
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.residency import MoreCgroups, ResidencyWalk
from numaudit.snapshot import Allowed, ContainerId
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.tiers import MemoryTier, MemoryTiers

TOP = Path("/sys/fs/cgroup")
LAYOUT = RowLayout.of(cgroup_layout(Btf(btf_of(described("6.12"))), 4096), nodes=2, cpus=4)
ROWS = tuple(LAYOUT.kernel.rows)
MACHINE = Machine((Node(0, CpuSet.of(0), memory=1 << 30), Node(1, CpuSet.of(1), memory=1 << 30)))
PATHS = {1: "", 20: "/a", 30: "/b"}
CENSUS = Census(
    (), {ContainerId(id_): (Cgroup(id_, path),) for id_, path in PATHS.items() if path}, {"/": ("/a", "/b")}
)


@dataclass
class Kernel:
    """Counters by cgroup id and row, the same on both nodes; what walks and files say of them."""

    counters: dict[int, dict[str, int]]
    walked: Callable[[int, str, int], int] = lambda id_, row, value: value
    """Cgroup, row and counter -> what a walk finds."""
    nodes: str = "0-1"
    seconds: float = 0.001
    failing: list[Exception] = field(default_factory=list)
    """What the next walks raise."""
    walks: int = 0

    def read(self, path: str) -> bytes:
        folder, _, name = path.removeprefix(str(TOP)).rpartition("/")
        if name == "cpuset.mems.effective":
            return f"{self.nodes}\n".encode()
        if name == "cpuset.cpus.effective":
            return b"0-3\n"
        (id_,) = [id_ for id_, of in PATHS.items() if of == folder]
        if id_ not in self.counters:
            raise OSError(errno.ENODEV, "gone")
        lines = (
            f"{row} N0={size * value.unit} N1={size * value.unit}\n"
            for row, value in LAYOUT.kernel.rows.items()
            for size in [self.counters[id_].get(row, 0)]
        )
        return "".join(lines).encode()


class Walk(ResidencyWalk):
    """A walk over made-up counters."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.layout, self.closed = kernel, LAYOUT, False

    def walk(self, unused: Collection[str] = ()) -> CgroupRows:
        self.kernel.walks += 1
        self.seconds = self.kernel.seconds
        if self.kernel.failing:
            raise self.kernel.failing.pop()
        words = array("q")
        for id_, counters in self.kernel.counters.items():
            found = {name: self.kernel.walked(id_, name, value) for name, value in counters.items()}
            nodes = {name: [size, size] for name, size in found.items()}
            words.extend(made_row(LAYOUT, id_, nodes, masks=(0b11, 0b1111), unused=unused))
        return CgroupRows(words.tobytes(), LAYOUT)

    def close(self) -> None:
        self.closed = True


def _full() -> dict[int, dict[str, int]]:
    return {id_: {row: 10_000 * (place + 1) * id_ for place, row in enumerate(ROWS)} for id_ in PATHS}


@pytest.fixture
def kernel() -> Kernel:
    return Kernel(_full())


@pytest.fixture
def loaded(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For how many cgroups walks were loaded."""
    rooms: list[int] = []

    def load(host: Host, types: Btf, layout: RowLayout, cgroups: int, folder: Path) -> Walk:
        rooms.append(cgroups)
        assert (layout, folder) == (LAYOUT, TOP)
        return Walk(kernel)

    monkeypatch.setattr("numaudit.probes.residency.load", load)
    return rooms


@pytest.fixture
def walks(kernel: Kernel, loaded: list[int], monkeypatch: pytest.MonkeyPatch) -> CgroupWalks:
    monkeypatch.setattr("numaudit.kernel.tracing.btf.read", lambda host: Btf(btf_of(described("6.12"))))
    monkeypatch.setattr(cgroup_walks, "count_possible_cpus", lambda host: 4)
    return CgroupWalks(Host(), Reader(Hierarchies("v2", TOP, TOP, TOP, TOP), read=kernel.read))


def _loaded(walks: CgroupWalks, census: Census = CENSUS) -> None:
    with pytest.raises(Absent, match="is being loaded"):
        walks.take(census, MACHINE)
    assert walks._loading is not None
    walks._loading.join()


def _take(walks: CgroupWalks) -> WalkedNow:
    return walks.take(CENSUS, MACHINE)


def test_a_proven_walk_says_what_the_files_say(walks: CgroupWalks, kernel: Kernel) -> None:
    _loaded(walks)
    found = _take(walks)
    assert found.ids == {1, 20, 30}
    assert found.root == 1
    assert found.residents({}) == {id_: walks.reader.resident(path) for id_, path in PATHS.items()}
    assert found.allowed[20] == Allowed(NodeSet.of(0, 1), CpuSet.of(0, 1, 2, 3))
    assert (walks.newest_seconds, walks.longest_seconds) == (0.001, 0.001)


@pytest.mark.parametrize("row", ROWS)
def test_each_column_that_is_wrong_is_found_out_and_files_are_read_for_ever(
    walks: CgroupWalks, kernel: Kernel, row: str
) -> None:
    kernel.walked = lambda id_, name, value: 0 if name == row else value
    _loaded(walks)
    with pytest.raises(Unavailable, match=rf"row {row} of node 0 of .*files are read instead") as first:
        _take(walks)
    assert not isinstance(first.value, Absent)
    before = kernel.walks
    with pytest.raises(Unavailable, match=row):
        _take(walks)
    assert kernel.walks == before


def test_a_column_that_turns_wrong_in_one_cgroup_is_found_out_within_a_minute(
    walks: CgroupWalks, kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    _loaded(walks)
    _take(walks)
    kernel.walked = lambda id_, name, value: 0 if (id_, name) == (30, "anon") else value
    _take(walks)
    monkeypatch.setattr(cgroup_walks, "_COMPARE_EVERY", 0.0)
    with pytest.raises(Unavailable, match="row anon of node 0 of /b"):
        _take(walks)


def test_a_column_without_bytes_anywhere_is_0_until_it_is_proven(walks: CgroupWalks, kernel: Kernel) -> None:
    for counters in kernel.counters.values():
        counters["shmem"] = 0
    kernel.walked = lambda id_, name, value: 77 if name == "shmem" and id_ != 1 and not value else value
    _loaded(walks)
    residents = _take(walks).residents({})
    assert residents[30].shmem == {0: 0, 1: 0}
    kernel.counters[1]["shmem"] = kernel.counters[30]["shmem"] = 500_000
    assert _take(walks).residents({})[30].shmem == {0: 500_000 * 4096, 1: 500_000 * 4096}


def test_a_column_too_small_to_be_proven_keeps_the_walk_waiting(walks: CgroupWalks, kernel: Kernel) -> None:
    kernel.counters[1]["shmem"] = kernel.counters[20]["shmem"] = kernel.counters[30]["shmem"] = 3
    kernel.walked = lambda id_, name, value: 2 if name == "shmem" else value
    _loaded(walks)
    with pytest.raises(Absent, match="not yet are the rows shmem"):
        _take(walks)
    kernel.walked = lambda id_, name, value: value
    assert _take(walks).ids == {1, 20, 30}


def test_a_cpuset_that_is_not_that_of_the_files_is_found_out(walks: CgroupWalks, kernel: Kernel) -> None:
    kernel.nodes = "1"
    _loaded(walks)
    with pytest.raises(Unavailable, match="and the files have"):
        _take(walks)


def test_one_difference_that_is_gone_at_the_next_attempt_is_none(walks: CgroupWalks, kernel: Kernel) -> None:
    _loaded(walks)
    _take(walks)
    wrong_once = [0]
    kernel.walked = lambda id_, name, value: wrong_once.pop() if name == "anon" and wrong_once else value
    assert _take(walks).residents({})[20] == walks.reader.resident("/a")


def test_a_cgroup_that_ends_while_it_is_compared_is_left_out(walks: CgroupWalks, kernel: Kernel) -> None:
    _loaded(walks)
    del kernel.counters[30]
    assert _take(walks).ids == {1, 20}


def test_without_groups_the_root_alone_is_compared(walks: CgroupWalks, kernel: Kernel) -> None:
    _loaded(walks, Census((), {}, {"/": ()}))
    assert walks.take(Census((), {}, {"/": ()}), MACHINE).root == 1


def test_more_cgroups_than_rows_are_read_by_files_until_there_is_room(
    walks: CgroupWalks, kernel: Kernel, loaded: list[int]
) -> None:
    _loaded(walks)
    _take(walks)
    kernel.failing.append(MoreCgroups(3000))
    with pytest.raises(Absent, match="3000 cgroups"):
        _take(walks)
    assert walks._loading is not None
    walks._loading.join()
    assert _take(walks).ids == {1, 20, 30}
    assert loaded == [1024, 6000]


def test_a_million_rows_are_never_asked_for(
    walks: CgroupWalks, kernel: Kernel, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _loaded(walks)
    _take(walks)
    kernel.failing.append(MoreCgroups(20_000))
    with pytest.raises(Absent, match="20000 cgroups"):
        _take(walks)
    assert walks._loading is not None
    walks._loading.join()
    _take(walks)
    kernel.failing.append(MoreCgroups(1_000_000))
    for _ in range(2):
        with pytest.raises(Unavailable, match="1000000 cgroups, and a walk visits 32768 at most"):
            _take(walks)
    assert loaded == [1024, 32768]
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    with pytest.raises(Absent, match="is being loaded"):
        _take(walks)


def test_memory_on_another_node_loads_the_walk_again(walks: CgroupWalks, loaded: list[int]) -> None:
    _loaded(walks)
    _take(walks)
    grown = Machine((*MACHINE.nodes, Node(2, CpuSet(), memory=1 << 30)))
    with pytest.raises(Absent, match="another node"):
        walks.take(CENSUS, grown)


def test_memory_tiers_that_come_load_the_walk_again_with_the_counters_of_moves(
    walks: CgroupWalks, kernel: Kernel, loaded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _loaded(walks)
    _take(walks)
    layouts: list[RowLayout] = []

    def load(host: Host, types: Btf, layout: RowLayout, cgroups: int, folder: Path) -> Walk:
        layouts.append(layout)
        return Walk(kernel)

    monkeypatch.setattr("numaudit.probes.residency.load", load)
    slow = MemoryTiers((MemoryTier(4, NodeSet.of(0)), MemoryTier(135, NodeSet.of(1))))
    tiered = replace(MACHINE, tiers=slow)
    with pytest.raises(Absent, match="memory tiers have come or gone"):
        walks.take(CENSUS, tiered)
    with pytest.raises(Absent, match="is being loaded"):
        walks.take(CENSUS, tiered)
    assert walks._loading is not None
    walks._loading.join()
    (layout,) = layouts
    assert layout.kernel.rows.keys() - set(ROWS) == {*MOVE_ROWS} - {"pgdemote_proactive"}


def test_walks_that_hold_the_mutex_for_too_long_end(walks: CgroupWalks, kernel: Kernel) -> None:
    _loaded(walks)
    kernel.seconds = 0.3
    _take(walks)
    kernel.seconds = 0.1
    _take(walks)
    kernel.seconds = 0.3
    _take(walks)
    _take(walks)
    with pytest.raises(Unavailable, match="3 walks in a row held the kernel's mutex"):
        _take(walks)
    assert walks.longest_seconds == 0.3


@pytest.mark.parametrize(
    ("error", "words", "again"),
    [
        (ProbeRefusal(Reason.NO_PERMISSION, "the kernel refuses it"), "capabilities BPF and PERFMON", False),
        (Unavailable("this kernel's BTF has no cgroup.kn"), "no cgroup.kn", False),
        (ProbeRefusal(Reason.LOADER_TIMEOUT, "it took too long"), "it took too long", True),
    ],
)
def test_what_cannot_be_loaded_is_a_reason_and_tried_again_where_it_may_pass(
    walks: CgroupWalks, loaded: list[int], monkeypatch: pytest.MonkeyPatch, error: Exception, words: str, again: bool
) -> None:
    def refuse(*_: object) -> Walk:
        loaded.append(0)
        raise error

    monkeypatch.setattr("numaudit.probes.residency.load", refuse)
    _loaded(walks)
    for _ in range(3):
        with pytest.raises(Absent, match=words):
            _take(walks)
    assert len(loaded) == 1
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    with pytest.raises(Absent, match="is being loaded" if again else words):
        _take(walks)


def test_a_refusal_that_is_raised_tick_after_tick_does_not_grow(walks: CgroupWalks, kernel: Kernel) -> None:
    kernel.walked = lambda id_, name, value: 0
    _loaded(walks)
    depths = set()
    for _ in range(5):
        with pytest.raises(Unavailable) as raised:
            _take(walks)
        depths.add(len(raised.traceback))
    assert len(depths) <= 2
