"""Ranks that are where they were bound, and others, each way of it: the truth is their own pages and clocks."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from numaudit.engine.observer import Observer
from numaudit.evaluation.ranks.judge import ranks_of, summary
from numaudit.evaluation.ranks.rank import Rank
from numaudit.kernel.host import Host
from numaudit.snapshot import ContainerId
from workload import MIB, PAGE, Cgroup, cgroup

pytestmark = pytest.mark.one_kernel
RANKS = range(4)
"""One for each node and CPU."""
INTERPRETER = 24 * MIB
"""Python's own memory before the first step, at most."""
_RANK = (sys.executable, "-I", "-S", "-c", "import sys; sys.path.insert(0, sys.argv.pop(1)); import rank; rank.main()")
_VLLM = "_VLLM_INTERNAL_NUMACTL_ARGS"
Steps = list[list[Any]]
"""Of rank.py."""


class Started:
    """One rank and its own account of itself."""

    def __init__(
        self, group: Cgroup, command: Sequence[str], environment: dict[str, str], steps: list[list[Any]]
    ) -> None:
        joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group.path / "cgroup.procs")]
        rank = (*_RANK, str(Path(__file__).parent), json.dumps(steps))
        self.process = subprocess.Popen(
            [*joining, *command, *rank],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **environment},
        )

    def ask(self) -> None:
        """Makes it give another account."""
        assert self.process.stdin is not None
        self.process.stdin.write("again\n")
        self.process.stdin.flush()

    def account(self) -> dict[str, Any]:
        """Returns once it has done its steps."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"a rank ended with {self.process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        return answer


def seen(group: Cgroup) -> tuple[Rank, ...]:
    """The ranks of a cgroup."""
    id_ = ContainerId(group.id)
    return ranks_of(id_, Observer.of(Host()).observe(20.0, mappings_of=frozenset({id_}), with_processes=True))


class Job:
    """Four ranks in one cgroup that declare alike, and what is said of them."""

    def __init__(self, group: Cgroup, ranks: list[Started]) -> None:
        self.accounts = [one.account() for one in ranks]
        self.found = seen(group)
        by_pid = {one.pid: one for one in self.found}
        self.ranks: list[Rank] = [by_pid[one["pid"]] for one in self.accounts]

    @property
    def verdicts(self) -> list[tuple[str, str | None]]:
        return [(one.verdict, one.problems[0].cause if one.problems else None) for one in self.ranks]

    def pages(self, rank: int, part: int = 0) -> dict[int, int]:
        """Bytes by node, by the rank's own move_pages(2)."""
        return {int(node): count * PAGE for node, count in self.accounts[rank]["pages"][part].items()}


@contextlib.contextmanager
def job(
    steps: list[Steps],
    wrappers: Sequence[Sequence[str]] = ((),) * 4,
    declared: str | None = "--cpunodebind={0} --membind={0}",
) -> Iterator[Job]:
    """Steps and a wrapper for each rank; `declared`: what vLLM's variable says, with {0} for the rank's node."""
    with cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group:
        ranks = []
        for number in RANKS:
            environment = {"LOCAL_RANK": str(number), "SECRET": "hunter2"}
            if declared is not None:
                environment[_VLLM] = declared.format(number)
            ranks.append(Started(group, wrappers[number], environment, steps[number]))
        yield Job(group, ranks)


def numactl(*options: str) -> list[list[str]]:
    """A wrapper for each rank, with its node for {0}."""
    return [["numactl", *(one.format(node) for one in options)] for node in RANKS]


BOUND = ("--cpunodebind={0}", "--membind={0}")


class Row(NamedTuple):
    """One remedy of docs/verdicts.md, carried out on a rank that belongs on node 1."""

    of: str
    """The finding that must go."""
    remedy: str
    """Words of it."""
    harm: Steps
    bound: bool
    """Does numactl start it?"""
    cure: Sequence[str] | None
    """A command, with {pid} for the rank; None = it is started again with numactl, and without the harm."""


ROWS = (
    Row(
        "declared-not-in-force",
        "use a seccomp profile that allows set_mempolicy",
        [["cpus", [1]], ["seccomp"], ["policy", "bind", [1]]],
        False,
        None,
    ),
    Row(
        "declared-not-in-force",
        "Else start it with numactl as the last command before it, on nodes and CPUs that its cpuset has",
        [],
        False,
        None,
    ),
    Row(
        "first-touch-before-bind",
        "Start it with numactl, which binds before any memory is used",
        [["cpus", [0]], ["touch", 32], ["policy", "bind", [1]], ["cpus", [1]]],
        False,
        None,
    ),
    Row(
        "first-touch-before-bind",
        "Move what is misplaced with `migratepages PID FROM TO`",
        [["cpus", [0]], ["touch", 32], ["policy", "bind", [1]], ["cpus", [1]]],
        False,
        ("migratepages", "{pid}", "0,2,3", "1"),
    ),
    Row(
        "thread-astray",
        "Bind its threads (`taskset -a -p -c CPUS PID`)",
        [["thread", [0, 1]]],
        True,
        ("taskset", "-a", "-p", "-c", "1", "{pid}"),
    ),
    Row("thread-astray", "bind the process before it starts any", [["thread", [0, 1]]], True, None),
)
RIGHT: list[tuple[str, str | None]] = [("in-force", None)] * 4


def test_ranks_that_numactl_bound_as_declared_are_where_they_were_bound() -> None:
    with job([[["touch", 16]]] * 4, numactl(*BOUND)) as found:
        assert found.verdicts == RIGHT
        assert [found.pages(rank) for rank in RANKS] == [{rank: 16 * MIB} for rank in RANKS]
        assert [one.judged_bytes for one in found.ranks if one.judged_bytes is not None] != []
        assert summary(found.found) == "4 of 4 ranks are where they were bound."
        assert "hunter2" not in repr(found.found)


def test_memory_touched_before_the_bind_is_told_in_bytes() -> None:
    steps: list[Steps] = [
        [["cpus", [0]], ["touch", 32], ["policy", "bind", [node]], ["cpus", [node]], ["touch", 16]] for node in RANKS
    ]
    with job(steps, numactl("--physcpubind=0")) as found:
        assert found.verdicts == [("in-force", None), *[("first-touch-before-bind", "touched-before")] * 3]
        for rank in RANKS[1:]:
            assert (found.pages(rank, 0), found.pages(rank, 1)) == ({0: 32 * MIB}, {rank: 16 * MIB})
            (problem,) = found.ranks[rank].problems
            assert str(problem.numa_nodes) == "0"
            assert problem.bytes is not None
            assert 32 * MIB <= problem.bytes <= 32 * MIB + INTERPRETER
        said = summary(found.found)
        assert said is not None
        assert said.startswith("1 of 4 ranks is where they were bound; rank 1: ")


def test_a_policy_that_a_seccomp_filter_refused_is_not_in_force() -> None:
    steps: list[Steps] = [[["seccomp"], ["policy", "bind", [node]], ["cpus", [node]], ["touch", 8]] for node in RANKS]
    with job(steps) as found:
        assert [one["refused"] for one in found.accounts] == [[errno.EPERM]] * 4
        assert found.verdicts == [("declared-not-in-force", "refused-by-seccomp")] * 4


def test_one_thread_that_left_the_cpus_is_astray() -> None:
    steps: list[Steps] = [[["touch", 8], ["thread", [node]]] for node in RANKS]
    steps[2].append(["thread", [0, 1, 2, 3]])
    with job(steps, numactl(*BOUND)) as found:
        ran = {int(cpu): time for cpu, time in found.accounts[2]["threads"][1].items()}
        assert set(ran) == {0, 1, 2, 3}
        assert min(ran.values()) > 0
        assert found.verdicts == [*RIGHT[:2], ("thread-astray", "threads-outside"), RIGHT[3]]


def test_a_policy_that_a_wrapper_passed_on_is_in_force_and_one_that_was_reset_is_lost() -> None:
    wrappers = [["timeout", "600", *one] for one in numactl("--membind={0}")]
    steps: list[Steps] = [[["touch", 8]]] * 4
    with job([*steps[:3], [["policy", "default", []], ["touch", 8]]], wrappers, declared=None) as found:
        assert found.verdicts == [*RIGHT[:3], ("declared-not-in-force", "not-set")]
        assert {one.declarations[0].launcher for one in found.ranks} == {"numactl"}
        assert len(found.found) == len(RANKS), "timeout itself was told nothing"


def test_a_policy_of_numactl_that_nothing_declares_any_more_declares_itself() -> None:
    with job([[["touch", 8]]] * 4, numactl(*BOUND), declared=None) as found:
        assert found.verdicts == RIGHT
        assert [str(one.declarations[0].memory_nodes) for one in found.ranks] == ["0", "1", "2", "3"]
        assert {one.declarations[0].launcher for one in found.ranks} == {"itself"}


def test_interleaved_ranks_are_in_force_on_all_their_nodes() -> None:
    with job([[["touch", 16]]] * 4, numactl("--interleave=all"), declared="--interleave=all") as found:
        assert found.verdicts == RIGHT
        assert [found.pages(rank) for rank in RANKS] == [dict.fromkeys(RANKS, 4 * MIB)] * 4


def test_memory_that_two_ranks_share_is_where_the_first_one_used_it() -> None:
    file = Path("/dev/shm/numaudit-ranks")
    with contextlib.ExitStack() as stack:
        stack.callback(file.unlink, missing_ok=True)
        with cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group:
            ranks = []
            for number in (0, 1):
                environment = {"LOCAL_RANK": str(number), _VLLM: f"--cpunodebind={number} --membind={number}"}
                one = Started(group, numactl(*BOUND)[number], environment, [["share", str(file), 16], ["touch", 8]])
                ranks.append(one)
                if number == 0:
                    first = one.account()
                    one.ask()
            found = Job(group, ranks)
            assert first["pages"] == found.accounts[0]["pages"]
            assert (found.pages(0), found.pages(1)) == ({0: 16 * MIB}, {0: 16 * MIB})
            assert found.verdicts == RIGHT[:2]
            assert [one.shared_elsewhere_bytes for one in found.ranks] == [0, 16 * MIB]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.remedy.partition(",")[0][:40])
def test_a_rank_is_where_it_was_bound_after_its_remedy(row: Row) -> None:
    environment = {"LOCAL_RANK": "0", _VLLM: "--cpunodebind=1 --membind=1"}
    with cgroup("numaudit-ranks/job", cpus="0-3", mems="0-3") as group:
        rank = Started(group, numactl(*BOUND)[1] if row.bound else (), environment, row.harm)
        pid = rank.account()["pid"]
        assert [one.verdict for one in seen(group)] == [row.of]
        if row.cure is not None:
            subprocess.run([word.format(pid=pid) for word in row.cure], check=True, stdout=subprocess.DEVNULL)
        else:
            rank.process.kill()
            rank.process.wait()
            Started(group, numactl(*BOUND)[1], environment, [["touch", 8], ["thread", [1]]]).account()
        assert [one.verdict for one in seen(group)] == ["in-force"]
