"""The agent's watch over ranks: which processes a tick reads, and that it reads no more than its budget."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from numaudit.engine.collectors.containers.rank_watch import RankWatchCollector, WatchLimits
from numaudit.engine.engine import Engine, Ticked
from numaudit.engine.observer import Observer
from numaudit.kernel import files, started_with
from numaudit.kernel.host import Host
from numaudit.report.values import ContainerReport

RANKS, SLURM = (4101, 4102, 4103, 4104), (5101, 5102)
MIB = 1 << 20
PER_READ = 0.001
"""Seconds that each open file costs here: figures below are numbers of reads."""


@dataclass
class Watched:
    """Ticks of an agent over a made-up host, with clocks that only reads move on."""

    engine: Engine
    collector: RankWatchCollector
    opened: list[tuple[int, str]] = field(default_factory=list)
    """Process and file, of the tick."""
    seconds: float = 0.0
    wall: float = 0.0

    def tick(self) -> Ticked:
        self.opened.clear()
        self.wall += 15
        return self.engine.tick()

    def limit(self, processes: int = 1000, reads: int = 10_000, interval: float = 60.0) -> None:
        self.collector.limits = WatchLimits(processes, reads * PER_READ, interval)

    @property
    def asked(self) -> set[int]:
        return {pid for pid, _ in self.opened}

    def of(self, name: str) -> list[int]:
        """Processes of which files of this name were opened."""
        return [pid for pid, file in self.opened if file == name]


def declare(root: Path, pid: int, environ: str, line: str = "rank") -> None:
    (root / f"proc/{pid}/cmdline").write_bytes(line.replace(" ", "\0").encode() + b"\0")
    (root / f"proc/{pid}/environ").write_bytes(environ.replace(" ", "\0").encode() + b"\0")


def weigh(root: Path, pid: int, size: int) -> None:
    file = root / f"proc/{pid}/status"
    text, _, _ = file.read_text().partition("RssAnon")
    file.write_text(f"{text}RssAnon:\t{size >> 10} kB\nRssFile:\t0 kB\nRssShmem:\t0 kB\n")


@pytest.fixture
def root(fixtures: Path, tmp_path: Path) -> Path:
    """Four ranks of one pod, each with its node in its environment, and two processes of a job without words."""
    tree = tmp_path / "host"
    shutil.copytree(fixtures / "ranks", tree)
    for position, pid in enumerate(RANKS):
        node = position // 2
        declare(tree, pid, f"RANK={position} _VLLM_INTERNAL_NUMACTL_ARGS=--membind={node} SECRET=hunter2")
    for pid in SLURM:
        declare(tree, pid, "HOME=/root")
    for pid in (*RANKS, *SLURM):
        weigh(tree, pid, 64 * MIB)
    return tree


@pytest.fixture
def watched(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    engine = Engine(Observer.of(Host.under(root)))
    collector = engine.observer.collectors.ranks
    found, real = Watched(engine, collector), files.open_file
    collector.cpu_clock, collector.clock = lambda: found.seconds, lambda: found.wall
    pattern = re.compile(re.escape(f"{root}/proc/") + r"(\d+)/(?!comm)(.*)")

    def opened(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
        if match := pattern.fullmatch(os.fspath(path)):
            found.opened.append((int(match[1]), match[2]))
            found.seconds += PER_READ
        return real(path, flags)

    monkeypatch.setattr(files, "open_file", opened)
    yield found


def container(ticked: Ticked, pod: str = "vllm-0") -> ContainerReport:
    (found,) = (one for one in ticked.report.containers if one.pod == pod and one.kind == "container")
    return found


def verdicts(ticked: Ticked) -> dict[str, int]:
    ranks = container(ticked).ranks
    return {} if ranks is None else {name: count for name, count in ranks.verdicts.items() if count}


def test_an_agent_that_was_not_told_to_reads_no_process(watched: Watched) -> None:
    ticked = watched.tick()
    assert not watched.of("environ") + watched.of("numa_maps") + watched.of("stat")
    assert (container(ticked).ranks, ticked.report.rank_round) == (None, None)


def test_a_tick_finds_the_ranks_that_report_processes_finds(watched: Watched, root: Path) -> None:
    watched.limit()
    ticked = watched.tick()
    observer = Observer.of(Host.under(root))
    id_ = next(one.id for one in observer.observe().containers if one.pod == "vllm-0" and one.kind == "container")
    asked = Engine(observer).tick(60, frozenset((id_,)), with_processes=True)
    found, processes = container(ticked).ranks, container(asked).processes
    assert found is not None
    assert processes is not None
    assert found.items == processes.ranks
    assert found.ranks_summary == processes.ranks_summary
    assert verdicts(ticked) == {"in-force": 2, "thread-astray": 1, "first-touch-before-bind": 1}
    assert {"first-touch-before-bind", "thread-astray"} <= set(container(ticked).findings)


def test_only_containers_that_declare_something_have_their_memory_read(watched: Watched) -> None:
    watched.limit()
    watched.tick()
    assert set(watched.of("environ")) == {*RANKS, *SLURM}
    assert sorted(watched.of("numa_maps")) == [*RANKS]
    assert watched.of("task/5101/status") == []


def test_a_numbered_rank_is_watched_although_only_its_own_policy_says_where_it_is(watched: Watched, root: Path) -> None:
    declare(root, 4101, "RANK=0")
    for pid in RANKS[1:]:
        declare(root, pid, "")
    watched.limit()
    watched.tick()
    assert sorted(watched.of("numa_maps")) == [*RANKS]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_tick_looks_at_no_more_processes_than_its_budget_and_a_round_at_all(watched: Watched, most: int) -> None:
    watched.limit(processes=most)
    seen, ticks = list[int](), 0
    while not seen or not (set(RANKS) <= set(seen) and ticks > 40):
        ticked = watched.tick()
        assert len(watched.asked) <= most
        seen.extend(watched.of("numa_maps"))
        ticks += 1
        assert ticks < 100
    assert verdicts(ticked) == {"in-force": 2, "thread-astray": 1, "first-touch-before-bind": 1}
    assert ticked.report.rank_round is not None
    assert ticked.report.rank_round.seconds


def test_a_tick_ends_when_its_cpu_time_is_used_up_and_the_next_goes_on(watched: Watched) -> None:
    weighed = 30  # reads of one process, with its threads, memory and words
    watched.limit(reads=weighed)
    read = list[int]()
    for _ in range(12):
        before = watched.seconds
        ticked = watched.tick()
        assert watched.seconds - before <= 2 * weighed * PER_READ
        read += [pid for pid, file in watched.opened if file == "task/4103/status"]
    assert read
    assert verdicts(ticked) == {"in-force": 2, "thread-astray": 1, "first-touch-before-bind": 1}


def test_memory_that_would_take_longer_than_a_tick_may_is_not_read_and_its_rank_is_unknown(
    watched: Watched, root: Path
) -> None:
    weigh(root, 4101, 300 << 30)
    watched.limit(reads=1000)
    ticked = watched.tick()
    assert 4101 not in watched.of("numa_maps")
    found = container(ticked).ranks
    assert found is not None
    rank = next(one for one in found.items if one.pid == 4101)
    assert rank.verdict == "unknown"
    assert "would take about 11 s of CPU time, more than ranks.max_cpu_time (1 s)" in rank.detail
    (source,) = (one for one in ticked.report.sources if one.source == "ranks")
    assert (source.state, source.skipped) == ("partial", 1)
    assert "11 s of CPU time" in (source.reason or "")


def test_memory_that_does_not_fit_into_the_rest_of_a_tick_begins_the_next(watched: Watched, root: Path) -> None:
    for pid in RANKS:
        weigh(root, pid, 10600 * MIB)
    watched.limit(reads=400)  # 0.4 s, of which 0.383 s are expected for each
    ticked = watched.tick()
    assert watched.of("numa_maps") == []
    ticked = watched.tick()
    assert sorted(watched.of("numa_maps")) == [*RANKS]  # the first took a millisecond, so the next ones may, too
    assert verdicts(ticked) == {"in-force": 2, "thread-astray": 1, "first-touch-before-bind": 1}


def test_a_round_does_not_begin_before_its_time(watched: Watched) -> None:
    watched.limit(interval=40)
    asked = []
    for _ in range(6):
        watched.tick()
        asked.append(len(watched.of("environ")))
    assert asked == [6, 0, 0, 6, 0, 0]


def test_what_a_round_has_found_stays_until_the_next(watched: Watched) -> None:
    watched.limit(interval=600)
    first = watched.tick()
    second = watched.tick()
    assert container(second).ranks == container(first).ranks is not None


def test_an_environment_that_may_not_be_read_is_said(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(host: Host, pid: int) -> bytes:
        raise PermissionError(13, "Permission denied", f"/proc/{pid}/environ")

    monkeypatch.setattr(started_with, "environment", refuse)
    watched.limit()
    for _ in range(3):  # in every tick, not only in that of the reading
        (source,) = (one for one in watched.tick().report.sources if one.source == "ranks")
        assert (source.state, source.skipped) == ("partial", 6)
        assert (source.reason or "").startswith("cannot read /proc/5101/environ: Permission denied")


def test_processes_of_another_pid_namespace_are_said(watched: Watched, root: Path) -> None:
    for file in root.glob("sys/fs/cgroup/**/cgroup.procs"):
        if "4101" in file.read_text():
            file.write_text("0\n0\n")
    watched.limit()
    ticked = watched.tick()
    (source,) = (one for one in ticked.report.sources if one.source == "ranks")
    assert (source.state, source.skipped, container(ticked).ranks) == ("partial", 2, None)
    assert "hostPID" in (source.reason or "")


@pytest.mark.parametrize(("count", "left_out"), [(4096, 0), (4097, 1)])
def test_of_a_container_with_very_many_processes_the_first_are_read_and_the_others_are_said(
    watched: Watched, root: Path, count: int, left_out: int
) -> None:
    (file,) = (one for one in root.glob("sys/fs/cgroup/**/cgroup.procs") if "4101" in one.read_text())
    others = range(100_000, 100_000 + count - len(RANKS))  # they ended: nothing of them is in /proc
    file.write_text("".join(f"{pid}\n" for pid in (*RANKS, *others)))
    watched.limit(processes=100_000, reads=1_000_000)
    ticked = watched.tick()
    assert len({*RANKS, *others} & watched.asked) == count - left_out
    (source,) = (one for one in ticked.report.sources if one.source == "ranks")
    assert source.skipped == left_out
    assert (source.reason == "only 4096 processes of a container are read") == bool(left_out)


def test_a_process_that_came_by_the_same_id_meanwhile_is_not_the_one_that_declared(
    watched: Watched, root: Path
) -> None:
    watched.limit(processes=1, interval=6000)
    while set(watched.of("environ")) != {4104}:
        watched.tick()
    for pid in RANKS:
        stat = root / f"proc/{pid}/stat"
        stat.write_text(stat.read_text().replace(f" {pid}00 ", " 999999 "))
    watched.limit(interval=6000)
    ticked = watched.tick()
    assert container(ticked).ranks is None
    assert sorted(watched.of("numa_maps")) == [*RANKS]


def test_a_container_that_has_ended_is_forgotten_and_so_is_all_when_nobody_watches(
    watched: Watched, root: Path
) -> None:
    watched.limit(interval=600)
    assert watched.tick().snapshot.watched
    watched.collector.limits = None
    assert not watched.tick().snapshot.watched
    watched.limit(interval=600)
    assert watched.tick().snapshot.watched
    for group in root.glob("sys/fs/cgroup/kubepods/pod77777777-*/7a*"):
        shutil.rmtree(group)
    assert not watched.tick().snapshot.watched


def test_no_other_variable_is_kept_of_an_environment(watched: Watched) -> None:
    watched.limit()
    ticked = watched.tick()
    assert "hunter2" not in repr(ticked.snapshot)
    assert "hunter2" not in repr(watched.collector)
