"""Accesses of single processes by this host's own kernel: software events stand in for those of a PMU.

Page faults are in the place of local accesses, nanoseconds of CPU time in that of remote ones; a worker knows how many
pages it has touched.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from made_up.plans import ALIGNMENT_FAULTS, PAGE_FAULTS, faults_and_time, open_events, plan_of
from numaudit.containers.inventory import Inventory
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.evaluation.access import Counted
from numaudit.kernel.cgroup import Hierarchies, Reader
from numaudit.kernel.host import Host
from numaudit.kernel.tracing.perf_event import TYPE_SOFTWARE
from numaudit.pmu.choose import Plan
from numaudit.probes.counters.process_events import ProcessEvents
from numaudit.probes.pmu import kind_of
from numaudit.probes.session import Session
from numaudit.report.processes import ProcessesReport, ProcessReport
from numaudit.snapshot import ContainerId

pytestmark = pytest.mark.root

NewGroup = Callable[[str], Path]
RunIn = Callable[[Path, Sequence[str]], subprocess.Popen[str]]
PAGES = 3000
REST = 200
"""Pages of Python's own that a worker may touch beside those."""
WORKER = """
import mmap, os, sys, threading

def touch(pages):
    with mmap.mmap(-1, pages * 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * 4096] = 1

def new_thread(pages):
    thread = threading.Thread(target=touch, args=(pages,))
    thread.start()
    thread.join()

def child(pages):
    if os.fork() == 0:
        touch(pages)
        os._exit(0)
    os.wait()

asked = threading.Event()
old = threading.Thread(target=lambda: (asked.wait(), touch(int(sys.argv[1]))), daemon=True)
old.start()

def old_thread(pages):
    asked.set()
    old.join()

print("ready", flush=True)
for line in sys.stdin:
    order, pages = line.split()
    {"touch": touch, "new_thread": new_thread, "child": child, "old_thread": old_thread}[order](int(pages))
    print(order, flush=True)
"""
MANY_THREADS = """
import sys, threading

asked = threading.Event()
for _ in range(999):
    threading.Thread(target=asked.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
"""


class Worker:
    """A process that touches pages when it is asked to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin and process.stdout
        self.process, self.pid, self._orders, self._answers = process, process.pid, process.stdin, process.stdout
        assert self._answers.readline() == "ready\n"

    def order(self, what: str, pages: int = PAGES) -> None:
        self._orders.write(f"{what} {pages}\n")
        self._orders.flush()
        assert self._answers.readline() == f"{what}\n"


class Measurement:
    """A report of one cgroup with its processes, from a beginning to an end."""

    def __init__(self, session: Session, group: Path) -> None:
        self._engine = Engine(_observer(), session, counts_from_load=True)
        self._id = ContainerId(group.stat().st_ino)

    def begin(self) -> None:
        self._engine.tick(numa_maps_of=frozenset({self._id}), with_processes=True)

    def end(self) -> ProcessesReport:
        report = self._engine.tick(60.0, frozenset({self._id}), with_processes=True).report
        (found,) = [one.processes for one in report.containers if one.id == self._id]
        assert found is not None
        return found


def _observer() -> Observer:
    """Of the cgroups of version 2, also where this host counts memory by those of version 1."""
    found = Observer.of(Host())
    unified = found.hierarchies.unified
    assert unified is not None
    v2 = Hierarchies("v2", memory=unified, cpuset=unified, hugetlb=None, unified=unified, is_whole=True)
    reader = Reader(v2, page_size=4096, read=found.files.read)
    return replace(found, hierarchies=v2, inventory=Inventory(found.host, v2), reader=reader)


@pytest.fixture
def session() -> Iterator[Session]:
    with Session.open(Host(), [kind_of(lambda _: [faults_and_time()])], cgroups=1000, nodes=1) as opened:
        opened.require_any()
        yield opened


@pytest.fixture
def start(run_in: RunIn) -> Callable[[Path], Worker]:
    return lambda group: Worker(run_in(group, [sys.executable, "-I", "-S", "-c", WORKER, str(PAGES)]))


@pytest.fixture
def open_process() -> Iterator[Callable[[Worker], ProcessEvents]]:
    opened: list[ProcessEvents] = []

    def open_(worker: Worker) -> ProcessEvents:
        opened.append(ProcessEvents.open(Host(), faults_and_time(), worker.pid, 100))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def _one(found: ProcessesReport, worker: Worker) -> ProcessReport:
    (one,) = [one for one in found.items if one.pid == worker.pid]
    return one


def _counted(found: ProcessesReport, worker: Worker) -> Counted:
    accesses = _one(found, worker).accesses
    assert accesses is not None and accesses.counted is not None, accesses
    return accesses.counted


def _faults(found: ProcessesReport, worker: Worker) -> int:
    counted = _counted(found, worker)
    return counted.accesses - counted.remote_accesses


def test_two_processes_of_a_container_are_counted_apart(
    session: Session, new_group: NewGroup, start: Callable[[Path], Worker]
) -> None:
    group = new_group("ranks")
    busy, calm, idle = start(group), start(group), start(group)
    measurement = Measurement(session, group)
    measurement.begin()
    for _ in range(3):
        busy.order("touch")
    calm.order("touch")
    found = measurement.end()
    assert 3 * PAGES <= _faults(found, busy) < 3 * PAGES + REST
    assert PAGES <= _faults(found, calm) < PAGES + REST
    assert _one(found, idle).accesses is None
    assert (found.accesses_uncounted, _counted(found, busy).multiplexed) == (None, False)
    share = _one(found, busy).accesses
    assert share is not None and share.remote_ratio is not None
    assert share.remote_ratio == _counted(found, busy).remote_accesses / _counted(found, busy).accesses


def test_no_event_stays_open_after_a_measurement(
    session: Session, new_group: NewGroup, start: Callable[[Path], Worker]
) -> None:
    group = new_group("closed")
    worker = start(group)
    measurement, before = Measurement(session, group), open_events()
    measurement.begin()
    opened = open_events() - before
    measurement.begin()  # in the place of the first
    assert open_events() - before == opened == 4  # two threads, two events
    worker.order("touch")
    measurement.end()
    assert open_events() == before


def test_a_process_that_began_in_between_has_the_reason(
    session: Session, new_group: NewGroup, start: Callable[[Path], Worker]
) -> None:
    group = new_group("late")
    early, gone = start(group), start(group)
    measurement = Measurement(session, group)
    measurement.begin()
    late = start(group)
    gone.process.kill()
    gone.process.wait()
    for worker in (early, late):
        worker.order("touch")
    found = measurement.end()
    accesses = _one(found, late).accesses
    assert accesses is not None
    assert (accesses.counted, accesses.reason) == (None, "it began after the measurement did")
    assert _faults(found, early) >= PAGES
    assert gone.pid not in [one.pid for one in found.items]


def test_a_report_without_a_measurement_opens_no_event(new_group: NewGroup, start: Callable[[Path], Worker]) -> None:
    group = new_group("unmeasured")
    start(group)
    of = frozenset({ContainerId(group.stat().st_ino)})
    before, engine = open_events(), Engine(_observer(), counts_from_load=True)
    engine.tick(numa_maps_of=of, with_processes=True)
    assert open_events() == before
    report = engine.tick(60.0, of, with_processes=True).report
    (found,) = [one.processes for one in report.containers if one.processes is not None]
    assert "--duration" in (found.accesses_uncounted or "")


def test_without_a_pmu_there_is_its_reason(new_group: NewGroup, start: Callable[[Path], Worker]) -> None:
    kind = kind_of(lambda _: [plan_of(TYPE_SOFTWARE, ALIGNMENT_FAULTS, ALIGNMENT_FAULTS)])
    group = new_group("refused")
    worker, before = start(group), open_events()
    with Session.open(Host(), [kind], cgroups=10, nodes=1) as session:
        measurement = Measurement(session, group)
        measurement.begin()
        found = measurement.end()
    assert "count nothing while memory is used" in (found.accesses_uncounted or "")
    assert _one(found, worker).accesses is None
    assert open_events() == before


@pytest.mark.parametrize("order", ["touch", "old_thread", "new_thread"])
def test_every_thread_counts_whenever_it_began_and_ended(
    order: str,
    new_group: NewGroup,
    start: Callable[[Path], Worker],
    open_process: Callable[[Worker], ProcessEvents],
) -> None:
    worker = start(new_group("threads"))
    events = open_process(worker)
    worker.order(order)
    faults, enabled, running, *_ = events.read()
    assert PAGES <= faults < PAGES + REST
    assert enabled == running > 0


def test_what_a_process_counted_stays_when_it_ends_and_its_children_do_not_count(
    new_group: NewGroup, start: Callable[[Path], Worker], open_process: Callable[[Worker], ProcessEvents]
) -> None:
    worker = start(new_group("ended"))
    events = open_process(worker)
    worker.order("touch")
    worker.order("child", 5 * PAGES)
    worker.process.kill()
    worker.process.wait()
    assert PAGES <= events.read()[0] < PAGES + 2 * REST


def test_a_process_of_a_thousand_threads_is_counted_or_refused_as_a_whole(new_group: NewGroup, run_in: RunIn) -> None:
    worker = Worker(run_in(new_group("many"), [sys.executable, "-I", "-S", "-c", MANY_THREADS]))
    before = open_events()
    with pytest.raises(Unavailable, match="it has 1000 threads, and 999 more can be counted"):
        ProcessEvents.open(Host(), faults_and_time(), worker.pid, 999)
    assert open_events() == before
    with closing(ProcessEvents.open(Host(), faults_and_time(), worker.pid, 1000)):
        assert open_events() - before == 2000
    assert open_events() == before


def test_a_process_that_has_no_descriptors_left_says_so_and_leaks_none(
    new_group: NewGroup, start: Callable[[Path], Worker]
) -> None:
    worker, before, limits = start(new_group("full")), open_events(), resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(highest)]  # no gap below the limit
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 4, limits[1]))  # enough for one thread
    try:
        with pytest.raises(Unavailable, match="Too many open files"):
            ProcessEvents.open(Host(), faults_and_time(), worker.pid, 100)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for one in held:
            os.close(one)
    assert open_events() == before


def test_a_user_without_rights_has_the_reason(new_group: NewGroup, start: Callable[[Path], Worker]) -> None:
    worker = start(new_group("foreign"))
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]; from made_up.plans import faults_and_time; "
        "from numaudit.kernel.host import Host; from numaudit.probes.counters.process_events import ProcessEvents; "
        "ProcessEvents.open(Host(), faults_and_time(), int(sys.argv[1]), 100)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(worker.pid), *sys.path],
        capture_output=True, text=True, user=65534, group=65534, check=False, cwd="/",
    )  # fmt: skip
    assert "ProbeRefusal: cannot count page-faults, task-clock: " in done.stderr, done.stderr
    assert "Traceback" in done.stderr


def test_events_of_two_groups_are_added_up_apart(new_group: NewGroup, start: Callable[[Path], Worker]) -> None:
    """As where sockets have several nodes: then a plan has two groups, which take turns."""
    plan = faults_and_time()
    twice = Plan(plan.family, plan.set, plan.type, (*plan.groups, (PAGE_FAULTS,)), (1, 0, 0), (0, 0, 1))
    worker = start(new_group("groups"))
    with closing(ProcessEvents.open(Host(), twice, worker.pid, 100)) as events:
        worker.order("touch")
        words = events.read()
    assert len(words) == 9
    assert words[0] == words[6] >= PAGES
