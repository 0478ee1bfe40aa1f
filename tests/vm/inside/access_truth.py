"""Does the interval of the remote share by hint faults hold the truth? The work itself counts how often it uses what.

    access_truth.py ROUNDS

Prints a line for each trial, and at the end how many intervals hold the truth. Exit status 1: fewer than 90 of 100.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from numaudit.evaluation.access import Access, of_hint_faults
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.session import Session
from numaudit.snapshot import Sampled
from samples import balancing, faults_of
from workload import Cgroup, cgroup, eventually

PROGRAM = Path(__file__).with_name("known_accesses.py")
LEAST_COVERED = 0.9
SECONDS = 5.0
"""Of work in a trial, at least."""
SAMPLES = 30_000
"""To wait for: two scans give one of each page each."""


@dataclass(frozen=True, slots=True)
class Thread:
    """Rewrites its parts of the memory over and over, in MiB from the beginning."""

    cpu: int
    """Which is also its node."""
    parts: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one process does."""

    threads: Sequence[Thread]
    far: int = 0
    """MiB at the end that are on node 1; the others are on the first node of `mems`."""
    mems: str = "0"
    longest_pause: float = 0.0
    """Seconds for which a thread sleeps now and then."""
    size: int = 64

    def remote_share(self, rounds: Sequence[int]) -> float:
        """The truth: bytes that were rewritten from another node, of all."""
        border, home = self.size - self.far, int(self.mems[0])
        remote = total = 0
        for count, thread in zip(rounds, self.threads, strict=True):
            for start, end in thread.parts:
                on_node_1 = max(0, end - max(start, border))
                at_home = end - start - on_node_1
                total += count * (end - start)
                remote += count * ((thread.cpu != 1) * on_node_1 + (thread.cpu != home) * at_home)
        return remote / total


def _two(first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]], cpus: tuple[int, int]) -> list[Thread]:
    return [Thread(cpus[0], first), Thread(cpus[1], second)]


ALL = [(0, 64)]
HALVES = ([(0, 16), (32, 48)], [(16, 32), (48, 64)])
OVERLAPPING = ([(0, 24), (32, 56)], [(8, 32), (40, 64)])
PLANS = {
    "one node, private 1:1": Plan(_two(*HALVES, cpus=(0, 0)), far=32, mems="0-1"),
    "one node, private 1:3": Plan(_two([(0, 8), (16, 40)], [(8, 16), (40, 64)], cpus=(0, 0)), far=48, mems="0-1"),
    "one node, private 3:1": Plan(_two([(0, 24), (48, 56)], [(24, 48), (56, 64)], cpus=(0, 0)), far=16, mems="0-1"),
    "one node, shared": Plan(_two(ALL, ALL, cpus=(0, 0)), far=32, mems="0-1"),
    "one node, mixed": Plan(_two(*OVERLAPPING, cpus=(0, 0)), far=32, mems="0-1"),
    "one node, bursty": Plan(_two(*HALVES, cpus=(0, 0)), far=32, mems="0-1", longest_pause=1.0),
    "two nodes, far from both": Plan(_two(ALL, ALL, cpus=(0, 1)), mems="3"),
    "two nodes, private": Plan(_two([(0, 32)], [(32, 64)], cpus=(0, 1))),
    "two nodes, shared 1:1": Plan(_two(ALL, ALL, cpus=(0, 1))),
    "two nodes, shared 1:3": Plan([Thread(0, ALL), *[Thread(1, ALL)] * 3]),
    "two nodes, shared 3:1": Plan([*[Thread(0, ALL)] * 3, Thread(1, ALL)]),
    "two nodes, mixed": Plan(_two([(0, 40)], [(24, 64)], cpus=(0, 1))),
    "two nodes, bursty": Plan(_two(ALL, ALL, cpus=(0, 1)), longest_pause=1.0),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """What was true, and what was said."""

    truth: float
    access: Access
    raw_share: float
    """Remote samples of all samples, whether or not a share is made of them."""

    @property
    def is_covered(self) -> bool | None:
        """None: there is no interval."""
        if self.access.lower is None or self.access.upper is None:
            return None
        return self.access.lower <= self.truth <= self.access.upper


def run(plan: Plan, session: Session) -> Trial:
    """Have a new process work, which the kernel samples soon, until there are samples enough."""
    cpus = ",".join(sorted({str(thread.cpu) for thread in plan.threads}))
    with cgroup("numaudit-lab/truth", cpus=f"0,{cpus}", mems=plan.mems) as group, contextlib.ExitStack() as stack:
        with balancing("0"):  # while it fills its memory it has one thread, whose near pages no scan would mark
            process = stack.enter_context(_started(plan, group))
        before, first = session.read(HINT_FAULTS), _rounds(process)
        begin = time.monotonic()

        def is_enough() -> None:
            assert time.monotonic() - begin >= SECONDS
            assert sum(faults_of(session, group, before).values()) >= SAMPLES

        eventually(is_enough)
        faults = faults_of(session, group, before)
        rounds = [now - then for now, then in zip(_rounds(process), first, strict=True)]
    remote = sum(count for fault, count in faults.items() if fault.is_remote)
    access = of_hint_faults(Sampled(faults, single_threaded=False))
    return Trial(plan.remote_share(rounds), access, remote / sum(faults.values()))


@contextlib.contextmanager
def _started(plan: Plan, group: Cgroup) -> Iterator[subprocess.Popen[str]]:
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group.path / "cgroup.procs")]
    program = [sys.executable, "-S", str(PROGRAM), json.dumps(asdict(plan))]
    with subprocess.Popen([*joining, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def _rounds(process: subprocess.Popen[str]) -> list[int]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    answer: list[int] = json.loads(process.stdout.readline())
    return answer


def main() -> int:
    covered = []
    print(f"{'workload':26} {'truth':>6} {'remote of samples':>20} {'share':>6} {'interval':>13}", flush=True)
    with Session.open(Host(), [HINT_FAULTS], cgroups=100, nodes=16, deadline=600) as session:
        for _ in range(int(sys.argv[1])):
            for name, plan in PLANS.items():
                trial = run(plan, session)
                print(f"{name:26} {_row(trial)}", flush=True)
                covered.append(trial.is_covered)
    given = [one for one in covered if one is not None]
    print(f"{len(covered)} trials: {len(given)} intervals, {sum(given)} hold the truth; no interval in the others")
    return 0 if sum(given) >= LEAST_COVERED * len(given) else 1


def _row(trial: Trial) -> str:
    access = trial.access
    ratio = "none" if access.remote_ratio is None else f"{access.remote_ratio:.3f}"
    interval = "none" if access.lower is None else f"{access.lower:.3f}-{access.upper:.3f}"
    word = {True: "covered", False: "NOT COVERED", None: ""}[trial.is_covered]
    seen = f"{trial.raw_share:.3f} of {access.samples}"
    return f"{trial.truth:6.3f} {seen:>20} {ratio:>6} {interval:>13} {word}"


if __name__ == "__main__":
    sys.exit(main())
