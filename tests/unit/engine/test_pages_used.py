"""When processes are asked how much memory they map, and swap of the host and of containers, tick after tick."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from hosts.node_tree import MIB, NodeTree
from made_up.probes import made_up_session
from numaudit.engine.collectors import of_host
from numaudit.engine.collectors.probes import pages_used
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.probes.session import ProbeReadings
from numaudit.snapshot import ContainerId, Swap
from numaudit.snapshot.counted import HintFault, SeenRemote

PID = 500_000
SEEN = {HintFault(0, 1, 0): 100, HintFault(0, 0, 8): 300}


class Node:
    """One container with one process, which the kernel scans."""

    def __init__(self, root: Path) -> None:
        self.tree = NodeTree(root)
        self.path = self.tree.container(self.tree.pod("prod", "web"), "app", anon=(8 * MIB, 8 * MIB))
        (root / "proc/sys/kernel/numa_balancing").write_text("1\n")
        (root / f"sys/fs/cgroup{self.path}/cgroup.procs").write_text(f"{PID}\n")
        (root / f"proc/{PID}").mkdir()
        self.maps(4 * MIB)
        self.id = ContainerId((root / f"sys/fs/cgroup{self.path}").stat().st_ino)
        self._probes, self._session = made_up_session()
        self._observer = Observer.of(Host.under(root))
        self.scan(1)

    def maps(self, size: int) -> None:
        text = f"RssAnon:\t{size >> 10} kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\n"
        (self.tree.root / f"proc/{PID}/status").write_text(text)

    def scan(self, number: int, seen: dict[HintFault, int] = SEEN, process: int = PID) -> None:
        """Pass `number` goes on; the one before it is through."""
        passes = {ScanPass(process, 1, one): PassUse(seen, 0) for one in (number - 1, number)}
        self._probes["hint_faults"].passes[self.id] = passes

    def goes_on(self, number: int, seen: dict[HintFault, int]) -> None:
        """Pass `number` has seen so much by now."""
        self._probes["hint_faults"].passes[self.id] = {ScanPass(PID, 1, number): PassUse(seen, 0)}

    def end(self) -> None:
        (self.tree.root / f"proc/{PID}/status").unlink()
        (self.tree.root / f"sys/fs/cgroup{self.path}/cgroup.procs").write_text("")

    def used(self) -> SeenRemote | None:
        """What is known after another tick; None = no pass is."""
        found = self._observer.observe(readings=ProbeReadings(self._session)).hint_faults
        assert found is not None
        return found[self.id].used if self.id in found else None

    def used_remotely(self) -> int:
        """Bytes, at least."""
        used = self.used()
        assert used is not None
        return used.at_least

    def tick(self) -> int | None:
        """What its processes map as of this tick; None = no pass is known."""
        used = self.used()
        return None if used is None else used.mapped

    def close(self) -> None:
        self._observer.files.close()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    seconds = count(1_700_000_000.0)  # a test's ticks follow each other within the same millisecond
    monkeypatch.setattr(pages_used, "time", SimpleNamespace(time=lambda: next(seconds)))
    node = Node(tmp_path)
    yield node
    node.close()


def test_processes_are_not_asked_while_no_pass_ends_and_their_memory_stays(node: Node) -> None:
    assert node.tick() == 4 * MIB
    node.maps(5 * MIB)
    assert node.tick() == 4 * MIB


def test_processes_are_not_asked_when_a_pass_has_ended(node: Node) -> None:
    node.tick()
    node.maps(5 * MIB)
    node.scan(2)
    assert node.tick() == 4 * MIB


def test_processes_are_asked_when_a_pass_of_a_new_one_has_begun(node: Node) -> None:
    node.tick()
    node.maps(5 * MIB)
    node.scan(0, process=PID + 1)
    assert node.tick() == 5 * MIB


def test_processes_are_asked_when_much_of_their_containers_memory_has_come(node: Node) -> None:
    node.tick()
    node.maps(6 * MIB)
    node.tree.hold(node.path, (9 * MIB, 8 * MIB))
    assert node.tick() == 6 * MIB


def test_processes_are_asked_when_much_of_their_memory_has_come_in_small_steps(node: Node) -> None:
    node.tick()
    node.maps(6 * MIB)
    found = []
    for step in range(1, 9):
        node.tree.hold(node.path, (8 * MIB + step * MIB // 16, 8 * MIB))
        found.append(node.tick())
    assert found == [4 * MIB] * 4 + [6 * MIB] * 4


def test_processes_are_asked_after_two_minutes_in_any_case(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.tick()
    node.maps(5 * MIB)
    monkeypatch.setattr(pages_used, "_ASK_AGAIN", 0.0)
    assert node.tick() == 5 * MIB


def test_passes_of_a_process_that_ended_are_forgotten_once_its_memory_is_gone(node: Node) -> None:
    node.tick()
    node.end()
    node._probes["hint_faults"].passes.clear()
    node.tree.hold(node.path, (0, 0))
    assert node.tick() is None


MUCH = {HintFault(0, 1, 0): 8 * MIB // 4096}  # 4 MiB at least, for a page may fault twice


def test_what_left_its_node_between_two_ticks_may_be_what_was_seen_there_in_between(node: Node) -> None:
    node.goes_on(1, {})
    assert node.used_remotely() == 0
    node.goes_on(2, MUCH)
    node.tree.hold(node.path, (13 * MIB, 3 * MIB))
    assert node.used_remotely() == 0, "5 MiB have moved, which may be the 4 that were used"


def test_what_left_its_node_while_its_pass_went_on_may_be_what_the_pass_saw_there(node: Node) -> None:
    node.goes_on(1, {})
    node.used_remotely()
    node.goes_on(2, MUCH)
    assert node.used_remotely() == 4 * MIB
    node.tree.hold(node.path, (12 * MIB, 4 * MIB))
    node.goes_on(2, {HintFault(0, 1, 0): 8 * MIB // 4096 + 2})
    assert node.used_remotely() == 4096, "all but one page may have moved"


def test_what_a_later_pass_sees_is_not_taken_for_what_moved_before_it(node: Node) -> None:
    node.goes_on(1, {})
    node.used_remotely()
    node.tree.hold(node.path, (12 * MIB, 4 * MIB))
    node.goes_on(2, {})
    assert node.used_remotely() == 0
    node.goes_on(3, {})
    node.used_remotely()
    node.goes_on(3, MUCH)
    assert node.used_remotely() == 4 * MIB


KIB = 1024
_SWAP = "SwapTotal: 8192 kB\nSwapFree: 4096 kB\n"


@pytest.fixture
def tree(tmp_path: Path) -> NodeTree:
    made = NodeTree(tmp_path)
    pod = made.pod("prod", "db")
    for name in ("a", "b"):
        made.container(pod, name)
    _set_limits(made, "max", "max", "0", "max")
    _set_meminfo(made, _SWAP)
    return made


def _set_meminfo(tree: NodeTree, text: str) -> None:
    (tree.root / "proc/meminfo").write_text(text)


def _set_limits(tree: NodeTree, pods: str, pod: str, *containers: str) -> None:
    groups = tree.root / "sys/fs/cgroup/kubepods.slice"
    (groups / "memory.swap.max").write_text(f"{pods}\n")
    paths = [Path(f"{tree.root}/sys/fs/cgroup{path}") for path in tree.containers()]
    (paths[0].parent / "memory.swap.max").write_text(f"{pod}\n")
    for path, limit in zip(paths, containers, strict=True):
        (path / "memory.swap.max").write_text(f"{limit}\n")


def _swap(observer: Observer) -> tuple[Swap, dict[str | None, int | None]]:
    taken = observer.observe()
    assert taken.swap is not None
    names = {one.id: one.name for one in taken.containers if one.kind == "container"}
    return taken.swap, {names[id_]: limit for id_, limit in taken.swap.limits.items() if id_ in names}


def test_each_container_has_its_limit(tree: NodeTree) -> None:
    found, limits = _swap(Observer.of(Host.under(tree.root)))
    assert (found.total, found.free) == (8192 * KIB, 4096 * KIB)
    assert limits == {"a": 0, "b": None}


def test_a_limit_of_the_pod_holds_for_its_containers(tree: NodeTree) -> None:
    _set_limits(tree, "max", "4096", "0", "max")
    assert _swap(Observer.of(Host.under(tree.root)))[1] == {"a": 0, "b": 4096}


def test_without_swap_no_cgroup_is_asked(tree: NodeTree) -> None:
    _set_meminfo(tree, "SwapTotal: 0 kB\nSwapFree: 0 kB\n")
    assert _swap(Observer.of(Host.under(tree.root)))[0] == Swap(0, 0, {})


def test_a_host_that_does_not_say_has_unknown_swap(tree: NodeTree) -> None:
    (tree.root / "proc/meminfo").unlink()
    assert Observer.of(Host.under(tree.root)).observe().swap is None


def test_limits_are_read_again_some_in_each_tick(tree: NodeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_host, "AGAIN_IN_A_TICK", 1)
    observer = Observer.of(Host.under(tree.root))
    _swap(observer)
    _set_limits(tree, "max", "max", "4096", "8192")
    seen = [_swap(observer)[1] for _ in range(6)]
    assert seen[0] != {"a": 4096, "b": 8192}
    assert seen[-1] == {"a": 4096, "b": 8192}


def test_a_limit_that_cannot_be_read_is_not_known(tree: NodeTree) -> None:
    _set_limits(tree, "max", "max", "lots", "max")
    observer = Observer.of(Host.under(tree.root))
    assert _swap(observer)[1] == {"b": None}
    (outcome,) = [one for one in observer.observe().outcomes if one.source == "swap"]
    assert outcome.state == "partial"
