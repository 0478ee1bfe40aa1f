"""Is what hint faults say of pages true? The work itself knows which page is where and who uses it.

    page_truth.py ROUNDS [NAME...]

Each trial is one workload in a cgroup, observed and judged every second as the agent does. At each tick the claims are
compared with the truth: bytes used from other nodes, of which no more may be told than there are. Prints a line for
each trial, its record for docs/truth.md, and how many had an answer. Exit status 1: a claim was false.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from numaudit.engine.observer import Observer
from numaudit.evaluation.access import Access
from numaudit.evaluation.alignment import Judgements, judge
from numaudit.kernel.host import Host
from numaudit.probes.kinds import KINDS
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import ContainerId
from truth_records import Comparison, write
from workload import MIB, PAGE, Cgroup, cgroup

PROGRAM = Path(__file__).with_name("known_pages.py")
TICK = 1.0
PATIENCE = 60.0
"""Seconds for the kernel to scan a new process; on an idle machine a few are enough."""
SLACK = 1.5 * MIB
"""Pages of Python and of its libraries may be anywhere."""
SHARED_FILE = Path("/dev/shm/numaudit-truth")
CACHED_FILE = Path("/tmp/numaudit-truth")


@dataclass(frozen=True, slots=True)
class Part:
    """Memory on known nodes."""

    mib: int
    nodes: Sequence[int] = (0,)
    kind: str = "anon"
    policy: str = "bind-sampled"
    """`none`: the kernel may move it; `bind`: bound, and never sampled; `bind-sampled`: bound to stay, and sampled."""
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Thread:
    """Uses parts of the memory over and over."""

    cpus: Sequence[int]
    """Which are also nodes; with several it goes from one to the next."""
    uses: Sequence[tuple[int, int]]
    """Numbers of parts, and how often in a round."""
    nap: float = 0.0
    stay: float = 5.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process."""

    parts: Sequence[Part]
    threads: Sequence[Thread]
    leads: bool = True
    """False: the process has one thread, which works."""
    children: int = 0
    """So many do the work, each with parts of its `own` beside what they inherit."""
    own: Sequence[Part] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """A workload."""

    processes: Sequence[Process]
    file: Part | None = None
    """A file made before, in a cgroup of its own unless `is_own_file`."""
    is_own_file: bool = True
    heals_after: float | None = None
    """Seconds after which the kernel may move all memory home."""
    mems: str = "0-3"
    extra: float = 0.0
    """MiB beside the parts that may be used from other nodes: Python's own, where threads run on several nodes."""


def _alike(*parts: Part, cpus: Sequence[int] = (0, 0), nap: float = 0.0) -> Process:
    """Threads that use all parts alike."""
    uses = [(number, 1) for number in range(len(parts))]
    return Process(parts, [Thread([cpu], uses, nap) for cpu in cpus])


def _own_file(node: int, kind: str) -> Part:
    return Part(12, (node,), kind, file=str(SHARED_FILE if kind == "shared" else CACHED_FILE))


NEAR, FAR = Part(12), Part(12, (1,))
HOT = [(0, 1), (1, 9)]
HOPS = Thread([0, 2], [(0, 1), (1, 1)], stay=3.0)
FREE = Part(16, (3,), policy="none")
PLANS = {
    "half far": Plan([_alike(NEAR, FAR)]),
    "near half in huge pages": Plan([_alike(Part(12, kind="huge"), FAR)]),
    "far half in huge pages": Plan([_alike(NEAR, Part(12, (1,), "huge"))]),
    "all in huge pages": Plan([_alike(Part(12, kind="huge"), Part(12, (1,), "huge"))]),
    "hot far megabyte": Plan([Process([Part(15), Part(1, (1,))], [Thread([0], HOT)] * 2)]),
    "hot near megabyte": Plan([Process([Part(15, (1,)), Part(1)], [Thread([0], HOT)] * 2)]),
    "far half bound": Plan([_alike(NEAR, Part(12, (1,), policy="bind"))]),
    "far half read-only": Plan([_alike(NEAR, _own_file(1, "read-only"))], file=_own_file(1, "read-only")),
    "interleaved": Plan([_alike(NEAR, Part(12, (0, 1, 2, 3), policy="interleave"))]),
    "two processes of unlike size": Plan([_alike(Part(4), Part(4, (1,))), _alike(Part(2), Part(20, (1,)))]),
    "two processes share a far file": Plan(
        [_alike(Part(8), _own_file(1, "shared")), _alike(Part(8), _own_file(1, "shared"))], _own_file(1, "shared")
    ),
    "a file near to one, far from another": Plan(
        [_alike(_own_file(0, "shared")), _alike(_own_file(0, "shared"), cpus=(3, 3))], _own_file(0, "shared"), extra=8
    ),
    "shared memory of another cgroup": Plan(
        [_alike(Part(6), _own_file(1, "shared"))], _own_file(1, "shared"), is_own_file=False
    ),
    "children of one parent": Plan(
        [Process([Part(12, (1,), "read")], [Thread([0], [(0, 1), (1, 1)])] * 2, children=2, own=[Part(6)])]
    ),
    "naps": Plan([_alike(NEAR, FAR, nap=2.0)]),
    "bursts from another node": Plan(
        [Process([NEAR, Part(24)], [*[Thread([0], [(0, 1)])] * 2, Thread([3], [(1, 1)], nap=8.0)])], extra=8
    ),
    "used once": Plan([Process([NEAR, FAR], [*[Thread([0], [(0, 1)])] * 2, Thread([0], [(1, 1)], nap=3600.0)])]),
    "one thread": Plan([Process([NEAR, FAR], [Thread([0], [(0, 1), (1, 1)])], leads=False)]),
    "threads on two nodes": Plan([_alike(NEAR, FAR, cpus=(0, 2))], extra=8),
    "threads on two nodes, huge": Plan([_alike(NEAR, Part(12, (1,), "huge"), cpus=(0, 2))], extra=8),
    "threads on two nodes, each its own": Plan(
        [Process([NEAR, FAR], [Thread([0], [(0, 1)]), Thread([1], [(1, 1)])])], extra=8
    ),
    "hops": Plan([Process([NEAR, FAR], [HOPS, HOPS])], extra=8),
    "free, comes home": Plan([_alike(Part(4), FREE)]),
    "free and huge, comes home": Plan([_alike(Part(4), Part(16, (3,), "huge", "none"))]),
    "heals": Plan([_alike(Part(4), Part(16, (3,)))], heals_after=8.0),
    "heals in huge pages": Plan([_alike(Part(4), Part(16, (3,), "huge"))], heals_after=8.0),
}
TICKS = 20


@dataclass(slots=True)
class Trial:
    """What was said at each tick, and what was false of it."""

    ticks: list[Access] = field(default_factory=list)
    truths: list[float] = field(default_factory=list)
    """Bytes that are used from other nodes, also at the ticks before there was an answer."""
    answered: list[Comparison] = field(default_factory=list)
    """Bytes that are used from other nodes and what was reported of them, at each tick with an answer."""
    false: list[str] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    @property
    def is_answered(self) -> bool:
        """Did any tick tell of a remote use?"""
        return any(one.used_remotely is not None for one in self.ticks)

    @property
    def last(self) -> Access | None:
        return self.ticks[-1] if self.ticks else None


def run(
    plan: Plan,
    observer: Observer,
    session: Session,
    ticks: int = TICKS,
    has_healed: Callable[[Access], bool] | None = None,
    pause: float = TICK,
) -> Trial:
    """Have new processes work, which the kernel samples soon, and compare what is said with what is.

    It ends after so many ticks with an answer, or at the first that finds the processes healed after they have.
    `pause`: seconds between ticks.
    """
    trial, judgements = Trial(), Judgements()
    with contextlib.ExitStack() as stack:
        group, processes = stack.enter_context(working(plan))
        key, before, begin = ContainerId(group.id), observer.observe(readings=ProbeReadings(session)), time.monotonic()
        healed = False
        while len(trial.ticks) < ticks:
            time.sleep(pause)
            if plan.heals_after is not None and not healed and time.monotonic() - begin > plan.heals_after:
                healed = True
                for process in processes:
                    _ask(process, "home")
            truth = sum(used_remotely(one, process) for one, process in zip(plan.processes, processes, strict=True))
            if plan.file is not None:
                truth = _distinct(plan, processes)
            now = observer.observe(readings=ProbeReadings(session))
            judgements = judge(now, before, judgements)
            before = now
            access = next((one for one in judgements.accesses[key] if one.source == "hint_faults"), None)
            is_late = time.monotonic() - begin > PATIENCE
            trial.truths.append(truth)
            if access is None or access.lower is None:
                if is_late:
                    break
                continue
            trial.ticks.append(access)
            trial.answered.append(Comparison(truth, told(access)))
            trial.false += _false(access, max(trial.truths[-5:]), plan.extra * MIB)
            if healed and has_healed is not None and has_healed(access):
                break
    return trial


@contextlib.contextmanager
def working(plan: Plan) -> Iterator[tuple[Cgroup, Sequence[subprocess.Popen[str]]]]:
    """The cgroup and the plan's processes in it, which have begun."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(cgroup("numaudit-lab/truth", cpus="0-3", mems=plan.mems))
        stack.enter_context(_file(plan, group))
        processes = [stack.enter_context(_started(one, group)) for one in plan.processes]
        for process in processes:
            _ask(process, "go")
        yield group, processes


def told(access: Access) -> int:
    """Bytes that were used from other nodes, at least."""
    return 0 if access.used_remotely is None else access.used_remotely.at_least_bytes


def _false(access: Access, most: float, extra: float) -> Iterator[str]:
    """What it says of bytes that is not so. `most`: bytes used remotely lately; a pass may be some ticks old."""
    if told(access) > most + SLACK + extra:
        yield f"{told(access) / MIB:.1f} MiB remote, and {most / MIB:.1f} are"


def used_remotely(plan: Process, process: subprocess.Popen[str]) -> float:
    """Bytes that its threads use from other nodes, where they may be now."""
    pages = _ask(process, "pages") if plan.leads else None
    total = 0.0
    inherited = len(plan.parts)
    for number, part in enumerate((*plan.parts, *plan.own)):
        users = {cpu for thread in plan.threads for one, _ in thread.uses if one == number for cpu in thread.cpus}
        if pages is not None and number < inherited:
            by_node: dict[int, float] = {int(node): count * PAGE for node, count in pages[number].items()}
        else:
            by_node = {node: part.mib * MIB / len(part.nodes) for node in part.nodes}
        times = plan.children if number >= inherited else 1
        total += times * sum(size for node, size in by_node.items() if users - {node})
    return total


def _distinct(plan: Plan, processes: Sequence[subprocess.Popen[str]]) -> float:
    """The same where they share the file: its pages count once."""
    total, of_file = 0.0, 0.0
    for one, process in zip(plan.processes, processes, strict=True):
        for number, part in enumerate(one.parts):
            users = {cpu for thread in one.threads for used, _ in thread.uses if used == number for cpu in thread.cpus}
            pages = _ask(process, "pages")[number]
            remote = sum(count * PAGE for node, count in pages.items() if users - {int(node)})
            if part.file is None:
                total += remote
            else:
                of_file = max(of_file, remote)
    return total + of_file


def _ask(process: subprocess.Popen[str], order: str) -> list[dict[str, int]]:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{order}\n")
    process.stdin.flush()
    answer: list[dict[str, int]] = json.loads(process.stdout.readline())
    return answer


@contextlib.contextmanager
def _file(plan: Plan, group: Cgroup) -> Iterator[None]:
    """The plan's file, its pages on the node."""
    if plan.file is None or plan.file.file is None:
        yield
        return
    path, node = Path(plan.file.file), plan.file.nodes[0]
    with cgroup("numaudit-lab/owner", cpus="0-3", mems=str(node)) as owner:
        charged = group if plan.is_own_file else owner
        written = f"head -c {plan.file.mib * MIB} /dev/zero > {path} && sync {path}"
        pinned = ["numactl", f"--membind={node}", "/bin/sh", "-c", f'echo $$ >"$0" && {written}']
        subprocess.run([*pinned, str(charged.path / "cgroup.procs")], check=True)
        try:
            yield
        finally:
            path.unlink()


@contextlib.contextmanager
def _started(plan: Process, group: Cgroup) -> Iterator[subprocess.Popen[str]]:
    joining = ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group.path / "cgroup.procs")]
    # Where it works from the start: Python's own memory may be huge pages, too.
    placed = ["taskset", "-c", str(plan.threads[0].cpus[0])]
    program = [*placed, sys.executable, "-S", str(PROGRAM), json.dumps(asdict(plan))]
    with subprocess.Popen([*joining, *program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def main() -> int:
    rounds, names = int(sys.argv[1]), sys.argv[2:] or list(PLANS)
    observer, trials = Observer.of(Host()), []
    print(f"{'workload':40} {'truth':>6} {'told':>6} {'of':>6} {'age':>5}", flush=True)
    with Session.open(Host(), KINDS, cgroups=100, nodes=16, deadline=600) as session:
        for _ in range(rounds):
            for name in names:
                trial = run(PLANS[name], observer, session)
                trials.append(trial)
                print(f"{name:40} {_row(trial)}", flush=True)
                write("hint_faults", name, "bytes", trial.answered, trial.false)
    answered, false = sum(one.is_answered for one in trials), sum(bool(one.false) for one in trials)
    claims = sum(len(one.ticks) for one in trials)
    print(f"{len(trials)} trials, {answered} with an answer; {claims} ticks; {false} trials with a false claim")
    return 1 if false else 0


def _row(trial: Trial) -> str:
    if trial.last is None:
        return "no answer"
    used = trial.last.used_remotely
    memory = 0 if used is None else used.memory_bytes or 0
    sizes = " ".join(f"{size / MIB:6.1f}" for size in (trial.truths[-1], told(trial.last), memory))
    remotes = ",".join(f"{told(one) / MIB:.0f}" for one in trial.ticks)
    return f"{sizes} {trial.last.age or 0:5.1f}  [{remotes}] {'; '.join(trial.false[:2])}"


if __name__ == "__main__":
    sys.exit(main())
