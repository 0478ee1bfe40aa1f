"""What places each process and its threads, where they ran, and what could not be read of them."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest

from numaudit.engine.collectors.containers.mapped import Mapped, ProcessWalk
from numaudit.engine.collectors.containers.processes import ProcessReader
from numaudit.engine.observer import Observer
from numaudit.errors import printable
from numaudit.kernel import files, tasks
from numaudit.kernel import host as host_files
from numaudit.kernel.host import Host
from numaudit.kernel.memory import numa_maps
from numaudit.snapshot import Mappings
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet, NodeSet

MIB = 1 << 20
MACHINE = Machine((Node(0, CpuSet.parse("0-3")), Node(1, CpuSet.parse("4-7"))))
TEXT = "55a0 {} file=/usr/bin/rank mapped=2 N0=2 kernelpagesize_kB=4\n"


@dataclass
class Thread:
    cpus: str
    last_cpu: int
    ticks: int = 100
    policy: str = "default"
    name: str = "rank"


@dataclass
class Process:
    threads: Mapping[int, Thread]
    memory: str = ""
    status: str = ""
    state: str = "S"
    ids: str = ""
    lists_threads: bool = True


@dataclass
class Tree:
    """Processes of one container in a made-up /proc."""

    root: Path
    processes: dict[int, Process] = field(default_factory=dict)

    def write(self, pid: int, process: Process) -> None:
        self.processes[pid] = process
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/stat").write_text("cpu 1\nbtime 1700000000\n")
        for number, thread in process.threads.items():
            folders = [f"proc/{pid}/task/{number}"] if process.lists_threads else []
            for folder in [*folders, f"proc/{pid}"] if number == pid else folders:
                self._write_task(self.root / folder, number, thread, process)

    def _write_task(self, folder: Path, number: int, thread: Thread, process: Process) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        fields = f"{process.state} 1 " + "0 " * 9 + f"{thread.ticks} 0 0 0 20 0 1 0 5000 " + "0 " * 16
        (folder / "stat").write_text(f"{number} ({thread.name}) {fields}{thread.last_cpu} 0 0\n")
        (folder / "status").write_text(
            f"NSpid:\t{process.ids or number}\nThreads:\t{len(process.threads)}\nSeccomp:\t2\n"
            f"CapEff:\t0000000000800000\nCpus_allowed_list:\t{thread.cpus}\nMems_allowed_list:\t0-1\n{process.status}"
        )
        (folder / "numa_maps").write_text(TEXT.format(thread.policy) + process.memory)

    def read(self, before: Mapping[tuple[int, int], int] | None = None, seconds: float = 60.0) -> ContainerProcesses:
        host = Host(self.root)
        mapped = Mapped(ProcessWalk(host, 4096, {}, keeps_processes=True))
        for pid in self.processes:
            mapped.add(pid, numa_maps.read(host, pid))
        reader = ProcessReader(host, MACHINE, monotonic() + seconds, before)
        return reader.container(list(self.processes), mapped.mappings(1, 1), seconds)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def only(found: ContainerProcesses) -> ProcessPlacement:
    (process,) = found.processes
    return process


def test_threads_with_the_same_nodes_and_policy_are_one_group(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("4", 4), 8: Thread("5", 5), 9: Thread("6-7", 7)}))
    process = only(tree.read())
    assert process.main is not None
    assert (process.main.threads, process.main.cpus, process.main.cpu_nodes) == (
        3, CpuSet.parse("4-7"), NodeSet.of(1),
    )  # fmt: skip
    assert (process.differing, process.strays, process.threads) == ((), 0, 3)


def test_a_thread_without_affinity_is_a_group_of_its_own(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("4-7", 4), 8: Thread("4-7", 5), 9: Thread("0-7", 2, name="nccl")}))
    process = only(tree.read())
    (stray,) = process.differing
    assert (stray.threads, stray.first_thread, stray.names, stray.cpu_nodes) == (1, 9, ("nccl",), NodeSet.of(0, 1))
    assert (stray.last_on, process.strays) == ({0: 1}, 1)


def test_a_thread_with_another_policy_is_a_group_of_its_own(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("4-7", 4, policy="bind:1"), 8: Thread("4-7", 4, policy="prefer (many):0-1")}))
    process = only(tree.read())
    assert [one.policy for one in process.thread_groups] == ["bind:1", "prefer (many):0-1"]
    assert process.policy == "bind:1"


def test_cpu_time_of_threads_on_one_node_is_no_estimate(tree: Tree) -> None:
    """Wherever they ran last by the kernel's count: that may be of the time before they were bound."""
    tree.write(7, Process({7: Thread("4-7", 0, ticks=300), 8: Thread("0-3", 1, ticks=100)}))
    process = only(tree.read())
    assert (process.ran, process.cpu_time_source) == ({0: 1.0, 1: 3.0}, "affinity")


def test_cpu_time_of_threads_on_several_nodes_is_an_estimate_by_their_last_cpu(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-7", 6, ticks=300), 8: Thread("0-3", 1, ticks=100)}))
    process = only(tree.read())
    assert (process.ran, process.cpu_time_source) == ({0: 1.0, 1: 3.0}, "last-cpu")


def test_cpu_time_of_a_measurement_is_its_increase(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0, ticks=300), 8: Thread("0-3", 1, ticks=100)}))
    found = tree.read(before={(7, 5000): 250, (8, 4000): 90})
    assert found.cpu_time_since == "measurement"
    assert only(found).ran == {0: 1.5}  # thread 8 is a new one with an old one's id


def test_policies_of_mappings_are_by_their_kind(tree: Tree) -> None:
    memory = (
        "7f00 interleave:0-1 anon=4 N0=2 N1=2 kernelpagesize_kB=4\n"
        "7f10 default heap anon=1 N1=1 kernelpagesize_kB=4\n"
        "7f20 bind:1 file=/anon_hugepage\\040(deleted) huge dirty=1 N1=1 kernelpagesize_kB=2048\n"
    )
    tree.write(7, Process({7: Thread("0-3", 0)}, memory))
    process = only(tree.read())
    assert process.mappings is not None
    assert [(one.kind, one.policy, dict(one.bytes_by_node)) for one in process.mappings] == [
        ("hugetlb", "bind:1", {1: 2 * MIB}),
        ("anon", "interleave:0-1", {0: 8192, 1: 8192}),
        ("file", "default", {0: 8192}),
        ("heap", "default", {1: 4096}),
    ]
    assert process.judged == {0: 8192, 1: 2 * MIB + 8192 + 4096}


def test_a_process_in_another_pid_namespace_has_both_ids(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0)}, ids="7 3 1"))
    process = only(tree.read())
    assert (process.pid, process.pid_in_namespace) == (7, 1)


def test_facts_that_decide_about_policies_are_there(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0)}))
    process = only(tree.read())
    assert (process.seccomp, process.sys_nice, process.parent) == ("filter", True, 1)


def test_a_hostile_name_is_one_line(tree: Tree) -> None:
    name = "a) R 9\n\x1b[31m"
    tree.write(7, Process({7: Thread("0-3", 0, name=name)}))
    process = only(tree.read())
    assert (process.process, process.parent) == (printable(name), 1)
    assert process.main is not None
    assert process.main.names == (printable(name),)


def test_a_process_that_ends_meanwhile_is_none_and_no_error(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0)}))
    tree.write(8, Process({8: Thread("0-3", 0)}, state="Z"))
    host = Host(tree.root)
    found = ProcessReader(host, MACHINE, monotonic() + 60, None).container([7, 8, 9], Mappings({}, {}, {}, 1, 1), 60)
    assert ([one.pid for one in found.processes], found.alive, found.unread) == ([7], 1, None)


def test_threads_that_a_capture_lacks_are_unknown_with_the_reason(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0), 8: Thread("0-7", 5)}, lists_threads=False))
    process = only(tree.read())
    assert [one.what for one in process.unread] == ["threads"]
    assert [one.threads for one in process.thread_groups] == [1]


def test_memory_that_could_not_be_read_is_unknown_with_the_reason(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0)}))
    mapped = Mappings({}, {}, {}, 0, 1, unread={7: "cannot read numa_maps: Permission denied; run as root"})
    found = ProcessReader(Host(tree.root), MACHINE, monotonic() + 60, None).container([7], mapped, 60)
    process = only(found)
    assert (process.mappings, process.judged) == (None, None)
    assert [(one.what, one.reason) for one in process.unread] == [("mappings", mapped.unread[7])]


def test_processes_without_a_memory_controller_have_their_mappings_read(fixtures: Path, tmp_path: Path) -> None:
    shutil.copytree(fixtures / "ranks", tmp_path / "host")
    for file in (tmp_path / "host/sys/fs/cgroup").rglob("memory.*"):
        file.unlink()
    observer = Observer.of(Host.under(tmp_path / "host"))
    id_ = next(one.id for one in observer.observe().containers if one.pod == "vllm-0" and one.kind == "container")
    snapshot = observer.observe(60.0, mappings_of=frozenset({id_}), with_processes=True)
    assert snapshot.residency.get(id_) is None
    assert {one.policy for one in snapshot.processes[id_].processes} == {"bind:0", "bind:1"}
    assert all(one.judged for one in snapshot.processes[id_].processes)


def test_mappings_that_were_not_asked_for_were_not_read_for_no_other_reason(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0)}))
    (unread,) = only(ProcessReader(Host(tree.root), MACHINE, monotonic() + 60, None).container([7], None, 60)).unread
    assert "memory controller" in unread.reason


def test_what_time_did_not_suffice_for_is_counted(tree: Tree) -> None:
    for pid in (7, 8, 9):
        tree.write(pid, Process({pid: Thread("0-3", 0)}))
    found = tree.read(seconds=-1.0)
    assert (found.processes, found.alive, found.unread) == ((), 3, "the time budget of -1 s ran out")


def test_stat_and_status_of_each_thread_are_read_once(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def read_bytes(path: Path | str) -> bytes:
        opened.append(str(path))
        return host_files.read_bytes(path)

    monkeypatch.setattr(tasks, "read_bytes", read_bytes)
    tree.write(7, Process({7: Thread("0-3", 0), 8: Thread("0-3", 0)}))
    assert only(tree.read()).threads == 2
    task = tree.root / "proc/7/task"
    of_threads = sorted(one for one in opened if "/task/" in one)
    assert of_threads == [f"{task}/{thread}/{name}" for thread in (7, 8) for name in ("stat", "status")]


def test_the_live_process_reads_itself() -> None:
    host = Host()
    assert numa_maps.read_policy(host, os.getpid(), os.getpid()) == "default"
    assert tasks.read_main(host, os.getpid()).placing.cpus == CpuSet.from_ids(os.sched_getaffinity(0))


def test_a_process_of_which_a_capture_has_only_its_mappings_is_there(tree: Tree) -> None:
    tree.write(7, Process({7: Thread("0-3", 0)}, "7f00 bind:1 anon=1 N1=1 kernelpagesize_kB=4\n"))
    for name in ("stat", "status"):
        (tree.root / "proc/7" / name).unlink()
    shutil.rmtree(tree.root / "proc/7/task")
    process = only(tree.read())
    assert (process.process, process.thread_groups, process.judged) == (None, (), {1: 4096})
    assert [one.what for one in process.unread] == ["status"]


WIDE_MACHINE = Machine((Node(0, CpuSet.parse("0-63")), Node(1, CpuSet.parse("64-127"))))
MANY = 200


def task(folder: Path, number: int, cpus: str, threads: int) -> None:
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{number} (rank) S 1 {'0 ' * 9}5 0 0 0 20 0 1 0 99 {'0 ' * 16}3 0 0\n")
    (folder / "status").write_text(f"Threads:\t{threads}\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0-1\n")
    (folder / "numa_maps").write_text("55a0 bind:0 file=/usr/bin/rank N0=2 kernelpagesize_kB=4\n")


def test_each_file_of_two_hundred_processes_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in range(1, MANY + 1):
        task(tmp_path / f"proc/{pid}", pid, "0-63", 1)
        task(tmp_path / f"proc/{pid}/task/{pid}", pid, "0-63", 1)
    opened: Counter[str] = Counter()
    real = files.open_file

    def counted(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        opened[os.fspath(path)] += 1
        return real(path, flags)

    monkeypatch.setattr(files, "open_file", counted)
    reader = ProcessReader(Host(tmp_path), WIDE_MACHINE, monotonic() + 600, None)
    found = reader.container(range(1, MANY + 1), Mappings({}, {}, {}, 0, MANY), 600)
    assert len(found.processes) == MANY
    assert max(opened.values()) == 1
    assert sum(opened.values()) <= 5 * MANY + 1


def test_two_hundred_threads_of_one_kind_are_one_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a busy machine reads fewer policies within the usual time, and threads without one are another group
    monkeypatch.setattr("numaudit.engine.collectors.containers.processes._POLICY_SECONDS", 600.0)
    task(tmp_path / "proc/1", 1, "0", MANY)
    for thread in range(1, MANY + 1):
        task(tmp_path / f"proc/1/task/{thread}", thread, str(thread % 64), MANY)
    (process,) = (
        ProcessReader(Host(tmp_path), WIDE_MACHINE, monotonic() + 600, None)
        .container([1], Mappings({}, {}, {}, 0, 1), 600)
        .processes
    )
    (group,) = process.thread_groups
    assert (group.threads, len(group.names), str(group.cpus), dict(group.last_on)) == (MANY, 1, "0-63", {0: MANY})
