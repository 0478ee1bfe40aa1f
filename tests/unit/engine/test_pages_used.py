"""When processes are asked how much memory they map, beside what scan passes saw of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hosts.node_tree import MIB, NodeTree
from made_up.probes import made_up_session
from numaudit.engine.collectors.probes import pages_used
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import PassUse, ScanPass
from numaudit.probes.session import ProbeReadings
from numaudit.snapshot import ContainerId
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
def node(tmp_path: Path) -> Iterator[Node]:
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
