"""From where memory is used, as the kernel's samples and migrations show it on a machine with four nodes.

NUMA balancing scans often here (every 0.2-1 s), so that a few seconds of work give thousands of samples.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from numaudit.cli import EXIT_INCONCLUSIVE
from numaudit.cli.main import call
from numaudit.doctor.checks import probe_checks
from numaudit.engine.observer import Observer
from numaudit.engine.overhead import Limiter
from numaudit.evaluation.alignment import judge
from numaudit.evaluation.findings import find
from numaudit.kernel import tasks
from numaudit.kernel.cores import core_pmus
from numaudit.kernel.host import Host
from numaudit.probes.hint_faults import HINT_FAULTS, HintFaultsProbe
from numaudit.probes.kinds import KINDS
from numaudit.probes.migrations import MIGRATIONS
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import Overhead
from samples import (
    ENOUGH,
    PAGES,
    SIZE,
    balancing,
    cpu_seconds,
    faults_of,
    promised,
    scans,
    scans_every,
    seen,
    settled,
    share,
)
from workload import PATIENCE, Cgroup, cgroup, eventually, worker


@pytest.fixture(scope="module")
def observer() -> Observer:
    return Observer.of(Host())


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session.open(Host(), KINDS, cgroups=500, nodes=16) as opened:
        yield opened


def tick_of(observer: Observer, session: Session, group: Cgroup) -> tuple[Snapshot, ContainerId]:
    return observer.observe(readings=ProbeReadings(session)), ContainerId(group.id)


def found_of(container: ContainerId, snapshot: Snapshot, before: Snapshot | None = None) -> set[str]:
    """Names of the findings about a container."""
    return {one.name for one in find(snapshot, judge(snapshot, before)) if one.container_id == container}


def told(container: ContainerId, snapshot: Snapshot, before: Snapshot | None = None) -> int:
    """Bytes that it was seen to use from other nodes, at least."""
    found = next(one for one in judge(snapshot, before).accesses[container] if one.source == "hint_faults")
    assert found.lower is not None, found.reason
    return 0 if found.used_remotely is None else found.used_remotely.at_least_bytes


def watched(container: Cgroup, observer: Observer, session: Session, before: Snapshot, least: float = 0.0) -> Snapshot:
    """Tick until a pass is known and this many bytes are reported: it may take some passes."""

    def has_seen() -> Snapshot:
        snapshot, key = tick_of(observer, session, container)
        said = told(key, snapshot, before)
        assert said >= least, said
        return snapshot

    return eventually(has_seen, PATIENCE)


def test_every_probe_of_accesses_runs_here(session: Session) -> None:
    texts = {one.name: one.detail for one in probe_checks(session)}
    assert texts["bpf hint_faults"] == "runs, kprobe on task_numa_fault"
    assert re.fullmatch("runs, nodes by kprobe on migrate_misplaced_(page|folio)", texts["bpf migrations"])


def test_local_memory_of_a_process_with_threads_is_sampled_as_local(session: Session, observer: Observer) -> None:
    with cgroup("numaudit-lab/local", cpus="0", mems="0") as group, worker(group, SIZE, threads=3) as running:
        # From here on, for as it starts Python uses pages of libraries that are anywhere.
        before, tick_before = session.read(HINT_FAULTS), observer.observe(readings=ProbeReadings(session))
        running.order("touch")

        def are_sampled() -> None:
            assert 4096 * sum(faults_of(session, group, before).values()) > 0.9 * SIZE

        eventually(are_sampled, PATIENCE)
        faults = faults_of(session, group, before)
        assert share(faults, lambda fault: not fault.is_remote) > 0.97, faults
        snapshot, key = tick_of(observer, session, group)
        assert told(key, snapshot, tick_before) < 0.05 * SIZE
        assert "cannot-heal" not in found_of(key, snapshot, tick_before)


@pytest.mark.parametrize(("mems", "node"), [("1", 1), ("3", 3)])
def test_remote_memory_is_sampled_with_its_nodes_and_cannot_heal(
    session: Session, observer: Observer, mems: str, node: int
) -> None:
    with (
        scans_every(100),
        cgroup("numaudit-lab/remote", cpus="0", mems=mems) as group,
        worker(group, SIZE, threads=3) as running,
    ):
        # From here on, for as it starts Python uses pages of libraries that are anywhere.
        before, tick_before = session.read(HINT_FAULTS), observer.observe(readings=ProbeReadings(session))
        running.order("touch")
        watched(group, observer, session, tick_before, 0.6 * SIZE)
        running.order("sleep")  # a tick reads one map after the other, and they are compared
        settled(partial(faults_of, session, group, before), still_for=0.2)
        faults = faults_of(session, group, before)
        assert share(faults, lambda fault: (fault.cpu_node, fault.memory_node) == (0, node)) > 0.97, faults
        assert share(faults, lambda fault: fault.could_not_move) > 0.9, faults
        snapshot, key = tick_of(observer, session, group)
        assert snapshot.hint_faults is not None
        used = snapshot.hint_faults[key].used
        resident = 4096 * int(Path(f"/proc/{running.pid}/statm").read_text().split()[1])  # the interpreter's too
        assert used is not None and resident >= used.at_least > 0.6 * SIZE
        assert {cpu for cpu, _ in used.by_pair} == {0}
        assert used.by_pair[0, node] > 0.95 * used.at_least
        assert "cannot-heal" in found_of(key, snapshot)
        assert snapshot.migrations is not None
        migrated = snapshot.migrations[key]
        assert migrated.pages["numa_misplaced"].failed >= ENOUGH // 2
        assert migrated.between is not None
        failed = migrated.pages["numa_misplaced"].failed
        assert sum(pages.failed for pages in migrated.between.values()) == pytest.approx(failed, rel=0.02)
        assert migrated.between[node, 0].failed > 0.8 * failed  # the rest are pages of libraries, from anywhere


def test_a_process_with_one_thread_shows_far_pages_and_next_to_no_near_ones(
    session: Session, observer: Observer
) -> None:
    with (
        scans_every(100),
        cgroup("numaudit-lab/single", cpus="0", mems="1") as group,
        worker(group, SIZE) as running,
    ):
        before, tick_before = session.read(HINT_FAULTS), observer.observe(readings=ProbeReadings(session))
        running.order("touch")
        snapshot = watched(group, observer, session, tick_before, 0.6 * SIZE)
        faults = faults_of(session, group, before)
        assert share(faults, lambda fault: fault.is_remote) > 0.97, faults
        assert told(ContainerId(group.id), snapshot, tick_before) > 0.6 * SIZE


def test_remote_access_holds_while_the_kernel_takes_no_samples(session: Session, observer: Observer) -> None:
    """It runs on node 0 and uses memory of node 1, both promised. A worker that sleeps is not scanned."""
    with (
        scans_every(100),
        cgroup("numaudit-lab/held", cpus="0", mems="0-1") as group,
        worker(group, 4 * SIZE, policy="bind-sampled", nodes=[1], threads=3) as running,
    ):
        key = ContainerId(group.id)
        before, snapshot = session.read(HINT_FAULTS), promised(tick_of(observer, session, group)[0], key, "0-1")
        judgements = judge(snapshot, snapshot)
        assert judgements.verdicts[key].name == "split"
        running.order("touch")
        watched(group, observer, session, snapshot, 0.76 * 4 * SIZE)
        running.order("sleep")
        settled(lambda: faults_of(session, group, before))
        found = []
        for _ in range(4):
            last, snapshot = snapshot, promised(tick_of(observer, session, group)[0], key, "0-1")
            judgements = judge(snapshot, last, judgements)
            found.append(judgements.verdicts[key])
        assert [one.name for one in found] == ["remote-access"] * 4, found
        assert len({one.since for one in found}) == 1
        assert "were used from another node, by CPUs of node 0 (hint_faults" in found[-1].reason


def test_local_memory_of_a_process_with_one_thread_gives_no_samples(session: Session) -> None:
    """Another process on the same CPU shows that the kernel did scan."""
    with (
        cgroup("numaudit-lab/quiet", cpus="0", mems="0") as group,
        cgroup("numaudit-lab/loud", cpus="0", mems="1") as control,
        worker(group, SIZE) as running,
        worker(control, SIZE, threads=2) as other,
    ):
        before, scans_before = session.read(HINT_FAULTS), scans(running)
        running.order("touch")
        other.order("touch")
        seen(session, control, before, at_least=ENOUGH)
        eventually(lambda: _at_least(scans(running), scans_before + 1))
        faults = faults_of(session, group, before)
        assert sum(faults.values()) < PAGES // 20, faults


def test_memory_bound_by_a_policy_gives_no_samples(session: Session) -> None:
    """What the same process has beside it shows that the kernel did scan."""
    with (
        cgroup("numaudit-lab/bound", cpus="0") as group,
        worker(group, 2 * SIZE, policy="bind", nodes=[1], policy_from=SIZE, threads=3) as running,
    ):
        before = session.read(HINT_FAULTS)
        running.order("touch")
        faults = seen(session, group, before, at_least=ENOUGH)
        assert running.bytes_by_node() == {0: SIZE}
        remote = sum(count for fault, count in faults.items() if fault.memory_node == 1)
        assert remote < PAGES // 20, faults


def test_shared_memory_that_its_owner_moved_home_is_near_however_much_of_others_is_where_it_was(
    session: Session, observer: Observer
) -> None:
    """The user has one thread. Of shared memory the kernel then samples what is near, too."""
    used, others = Path("/dev/shm/numaudit-used"), Path("/dev/shm/numaudit-others")
    with contextlib.ExitStack() as stack:
        stack.enter_context(scans_every(100))
        for file in (used, others):
            stack.callback(file.unlink, missing_ok=True)
        bystander = stack.enter_context(cgroup("numaudit-lab/bystander", cpus="1", mems="1"))
        stack.enter_context(worker(bystander, 4 * SIZE, "shmem", file=others))
        owner = stack.enter_context(cgroup("numaudit-lab/owner", cpus="1", mems="1"))
        stack.enter_context(worker(owner, 2 * SIZE, "shmem", "bind-sampled", [1], file=used))
        group = stack.enter_context(cgroup("numaudit-lab/user", cpus="0", mems="0"))
        running = stack.enter_context(worker(group, 2 * SIZE, "shmem", file=used))
        before = observer.observe(readings=ProbeReadings(session))
        running.order("touch")
        watched(group, observer, session, before, 0.6 * 2 * SIZE)
        owner.write("cpuset.mems", "0")
        passes, found_another = scans(running), 0
        said: list[int] = []
        # Ticks, for on a crowded host many passes go by from one to the next.
        while found_another < 6 or (said[-1] >= SIZE // 8 and found_another < 30):
            last, passes = passes, scans(running)
            snapshot, key = tick_of(observer, session, group)
            said.append(told(key, snapshot, before))
            found_another += passes > last
        assert running.bytes_by_node()[0] > 0.99 * 2 * SIZE
        near_at = next(number for number, size in enumerate(said) if size < SIZE)
        files = tasks.read_memory(Host(), running.pid).file
        assert max(said[near_at:]) < files + SIZE // 8, said
        assert said[-1] < SIZE // 8, said


def test_a_process_that_executes_another_program_is_judged_by_what_that_one_uses(
    session: Session, observer: Observer
) -> None:
    """The kernel counts the scan passes of each program from 0 on. The first one makes as many as take ten ticks, so
    that on a crowded host, too, several see the second one before it has made as many.
    """
    with (
        scans_every(100),
        cgroup("numaudit-lab/executes", cpus="0") as group,
        worker(group, SIZE, policy="bind-sampled", nodes=[1]) as running,
    ):
        before = observer.observe(readings=ProbeReadings(session))
        running.order("touch")
        watched(group, observer, session, before, 0.6 * SIZE)
        ticks = 0
        while (passes := scans(running)) < 6 or ticks < 10:
            observer.observe(readings=ProbeReadings(session))
            ticks += 1
        running.execute(str(SIZE), "--policy", "bind-sampled", "--nodes", "2")
        running.order("touch")

        said: list[set[int]] = []
        while not said or scans(running) < passes:
            snapshot = observer.observe(readings=ProbeReadings(session))
            found = snapshot.hint_faults and snapshot.hint_faults[ContainerId(group.id)].used
            said.append({node for (_, node), size in found.by_pair.items() if size > SIZE // 4} if found else set())
            if said[-1] == {2}:
                return
        pytest.fail(f"nodes with memory that is used from another node, tick by tick: {said}")


def _at_least(value: float, least: float) -> None:
    assert value >= least


def test_memory_that_is_brought_home_is_seen_as_remote_and_as_migrated(session: Session, observer: Observer) -> None:
    with cgroup("numaudit-lab/healing", cpus="0", mems="1") as group, worker(group, SIZE) as running:
        group.write("cpuset.mems", "0-1")
        # From here on: while it filled its memory none of that could move, and on a slow guest this was tried often.
        tick_before = observer.observe(readings=ProbeReadings(session))
        before, moved_before = session.read(HINT_FAULTS), session.read(MIGRATIONS)
        running.order("touch")

        def is_home() -> None:
            assert running.bytes_by_node().get(0, 0) > SIZE * 0.95

        eventually(is_home)
        running.order("sleep")
        faults = faults_of(session, group, before)
        healed = sum(count for fault, count in faults.items() if fault.has_moved and fault.cpu_node == 0)
        assert PAGES * 0.9 < healed < PAGES * 1.6, faults
        assert all(fault.is_remote for fault in faults if fault.has_moved)
        migrations = session.read(MIGRATIONS).since(moved_before)
        moved = migrations.succeeded[group.id]["numa_misplaced"]
        assert PAGES * 0.9 < moved < PAGES * 1.6
        assert migrations.succeeded_between[group.id] == {(1, 0): moved}
        snapshot, key = tick_of(observer, session, group)
        assert snapshot.migrations is not None
        between = snapshot.migrations[key].between
        # A tick counts from when the probe was attached: pages that moved before `moved_before` are in it as well.
        ever = session.read(MIGRATIONS).succeeded_between[group.id][1, 0]
        assert between is not None and between[1, 0].succeeded == ever >= moved
        assert "cannot-heal" not in found_of(key, snapshot, tick_before)


def test_two_containers_on_one_cpu_are_not_mixed_up(session: Session) -> None:
    with (
        cgroup("numaudit-lab/near", cpus="2", mems="2") as near,
        cgroup("numaudit-lab/far", cpus="2", mems="0") as far,
        worker(near, SIZE, threads=2) as one,
        worker(far, SIZE, threads=2) as other,
    ):
        before = session.read(HINT_FAULTS)
        one.order("touch")
        other.order("touch")
        local = seen(session, near, before, at_least=ENOUGH)
        remote = seen(session, far, before, at_least=ENOUGH)
        assert share(local, lambda fault: (fault.cpu_node, fault.memory_node) == (2, 2)) > 0.97, local
        assert share(remote, lambda fault: (fault.cpu_node, fault.memory_node) == (2, 0)) > 0.97, remote


def test_samples_are_absent_while_balancing_is_off_and_come_back(session: Session, observer: Observer) -> None:
    with cgroup("numaudit-lab/toggled", cpus="0", mems="1") as group:
        with balancing("0"), worker(group, SIZE, threads=2) as running:
            running.order("touch")
            snapshot = observer.observe(readings=ProbeReadings(session))
            assert snapshot.hint_faults is None
            (why,) = [one for one in snapshot.outcomes if one.source == "hint_faults"]
            assert why.state == "unavailable" and "numa_balancing is 0" in (why.reason or "")
        with worker(group, SIZE, threads=2) as running:
            before = session.read(HINT_FAULTS)
            running.order("touch")
            seen(session, group, before, at_least=ENOUGH)
        assert observer.observe(readings=ProbeReadings(session)).hint_faults is not None


def test_the_kernels_own_counters_agree_with_the_samples(session: Session, observer: Observer) -> None:
    """Per cgroup the kernel counts since Linux 6.12; it counts a page's owner, which here is the one who uses it."""
    with cgroup("numaudit-lab/counted", cpus="0", mems="1") as group, worker(group, SIZE, threads=2) as running:
        before, own_before = session.read(HINT_FAULTS), _own(observer, group)
        running.order("touch")
        seen(session, group, before, at_least=ENOUGH)
        running.order("sleep")
        settled(lambda: cpu_seconds(group))
        faults = sum(faults_of(session, group, before).values())
        snapshot = observer.observe()
        assert snapshot.numa_balancing is not None
        assert snapshot.numa_balancing.host["numa_hint_faults"] >= faults
        if not own_before:
            assert "numa_hint_faults" not in (group.path / "memory.stat").read_text()
            return

        def agree() -> None:
            counted = _own(observer, group)["numa_hint_faults"] - own_before["numa_hint_faults"]
            assert counted == pytest.approx(faults, rel=0.1)

        eventually(agree)


def test_a_changed_cpuset_moves_pages_in_the_name_of_a_kernel_worker(session: Session) -> None:
    with cgroup("numaudit-lab/ordered", cpus="0", mems="1") as group, worker(group, SIZE) as running:
        before = session.read(MIGRATIONS)
        group.write("cpuset.mems", "0")
        assert running.bytes_by_node() == {0: SIZE}
        added = session.read(MIGRATIONS).since(before)
        moved = {cgroup: row.get("syscall_or_cpuset", 0) for cgroup, row in added.succeeded.items()}
        assert sum(moved.values()) >= PAGES
        assert moved.get(group.id, 0) < PAGES // 10


def test_cgroups_that_come_and_go_leave_nothing_behind(session: Session, observer: Observer) -> None:
    with cgroup("numaudit-lab/stays", cpus="0", mems="1") as group, worker(group, SIZE, threads=2) as running:
        before = session.read(HINT_FAULTS)
        running.order("touch")
        brief = [group.path.parent / f"brief-{number}" for number in range(50)]
        for child in brief:
            child.mkdir()
        assert observer.observe(readings=ProbeReadings(session)).hint_faults is not None
        for child in brief:
            child.rmdir()
        faults = seen(session, group, before, at_least=ENOUGH)
        assert share(faults, lambda fault: fault.memory_node == 1) > 0.97
        observer.observe(readings=ProbeReadings(session))
        alive = {path.stat().st_ino for path in Path("/sys/fs/cgroup").rglob("*") if path.is_dir()}
        assert set(session.read(HINT_FAULTS).faults) <= alive | {1}


def _own(observer: Observer, group: Cgroup) -> Mapping[str, int]:
    """What the kernel itself counts of an idle cgroup, once it has added it up, as it does every two seconds."""

    def count() -> Mapping[str, int]:
        counted = observer.observe().numa_balancing
        assert counted is not None
        return counted.by_container.get(ContainerId(group.id), {})

    settled(count, still_for=2.5)
    return count()


@pytest.mark.arm64
def test_the_self_test_tells_near_from_far_memory_by_every_source(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        code = call(["doctor", "--selftest", "-o", "json"])
        said = capsys.readouterr()
        checks = json.loads(said.out)["checks"]
        if code != EXIT_INCONCLUSIVE:
            break
    else:
        pytest.skip(f"inconclusive: {[one for one in checks if one['state'] == 'inconclusive']}")
    assert [one["name"] for one in checks if one["state"] != "passed"] == ["demotion"], checks  # there is one tier
    assert {"residency", "page_alloc", "cpu_time", "hint_faults", "expected"} <= {one["name"] for one in checks}
    assert code == 0, said.err
    assert not list(Path("/sys/fs/cgroup").glob("numaudit-selftest*"))


@pytest.mark.arm64
def test_doctor_finds_every_source_with_a_load_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    needed = "residency,access hint_faults,access expected"
    code = call(["doctor", "-o", "json", "--require", needed])
    said = capsys.readouterr()
    assert code == 0, said.err
    sources = {one["name"]: one for one in json.loads(said.out)["checks"] if one["name"].startswith("access ")}
    assert sources["access hint_faults"]["state"] == "ok", sources
    assert "it noticed a test load" in sources["access hint_faults"]["detail"]
    assert sources["access expected"]["state"] == "ok", sources
    has_pmu = bool(core_pmus(Host()))  # an emulated one does not have the events that tell local from remote
    assert sources["access pmu"]["reason"] == ("no-events" if has_pmu else "no-pmu"), sources
    assert ("remote_access" if has_pmu else "its hypervisor shows no PMU") in sources["access pmu"]["detail"]


def test_only_watched_cgroups_are_counted_and_the_others_are_not_reported_as_idle(
    session: Session, observer: Observer
) -> None:
    probe = session.probe(HINT_FAULTS)
    assert not isinstance(probe, ProbeRefusal)
    with (
        cgroup("numaudit-lab/seen", cpus="0", mems="1") as seen_one,
        cgroup("numaudit-lab/unseen", cpus="0", mems="1") as unseen_one,
        worker(seen_one, SIZE, threads=2) as one,
        worker(unseen_one, SIZE, threads=2) as other,
    ):
        probe.watch(frozenset({seen_one.id}))
        try:
            before = session.read(HINT_FAULTS)
            one.order("touch")
            other.order("touch")
            seen(session, seen_one, before, at_least=ENOUGH)
            assert faults_of(session, unseen_one, before) == {}
            snapshot = observer.observe(readings=ProbeReadings(session))
            assert snapshot.hint_faults is not None
            assert snapshot.hint_faults[ContainerId(seen_one.id)].is_watched
            assert not snapshot.hint_faults[ContainerId(unseen_one.id)].is_watched
        finally:
            probe.watch(None)
        # A few will do: by now the kernel scans this process rarely, for nothing it found could be moved.
        seen(session, unseen_one, before, at_least=10)


def test_a_task_that_is_moved_to_its_memory_is_counted_with_both_nodes(session: Session) -> None:
    """The kernel may give a task up that was stuck at first; another one has a new chance."""
    for patience in (60.0, 60.0):
        with contextlib.suppress(AssertionError):
            return follow(session, patience)
    return follow(session, PATIENCE)


def follow(session: Session, patience: float) -> None:
    """A task on node 0 whose memory is on node 1 may run on both."""
    with cgroup("numaudit-lab/follows", cpus="0", mems="1") as group, worker(group, SIZE) as running:
        before, faults_before = session.read(MIGRATIONS), session.read(HINT_FAULTS)
        running.order("touch")
        seen(session, group, faults_before, at_least=ENOUGH)  # now the kernel prefers the node of the memory
        group.write("cpuset.cpus", "0-1")

        def has_moved() -> None:
            tasks = session.read(MIGRATIONS).since(before).tasks.get(group.id, {})
            pairs = {(move.from_node, move.to_node) for move in tasks if move.event in ("moved", "swapped")}
            assert (0, 1) in pairs, tasks

        eventually(has_moved, patience)


@pytest.mark.one_kernel
def test_faults_that_find_the_map_full_are_counted_and_room_is_made_for_the_watched() -> None:
    """The map is filled with what cgroups that are no more have left behind."""
    with (
        Session.open(Host(), [HINT_FAULTS], cgroups=1, nodes=1) as small,
        cgroup("numaudit-lab/late", cpus="2", mems="3") as group,
    ):
        probe = small.probe(HINT_FAULTS)
        assert isinstance(probe, HintFaultsProbe)
        counts = probe._maps["count"]
        one_each = struct.pack("=Q", 1) * counts.cpus
        gone = [(1 << 40) + number for number in range(counts.info.max_entries)]
        probe.watch(frozenset({group.id}))  # nothing else takes a place from here on
        probe.forget(probe.cgroups())
        counts.update_all({struct.pack("=QHHI", one, 0, 1, 0): one_each for one in gone})
        with worker(group, SIZE, threads=2) as running:
            running.order("touch")

            def finds_it_full() -> None:
                assert small.read(HINT_FAULTS).lost["map-full"] >= ENOUGH

            eventually(finds_it_full)
        assert set(small.read(HINT_FAULTS).faults) == set(gone)
        probe.forget(probe.cgroups() - {group.id})
        with worker(group, SIZE, threads=2) as running:
            before = small.read(HINT_FAULTS)
            running.order("touch")
            seen(small, group, before, at_least=ENOUGH)
        assert set(small.read(HINT_FAULTS).faults) == {group.id}


@pytest.mark.one_kernel
def test_over_budget_containers_are_watched_in_turn_and_then_hint_faults_are_paused(
    session: Session, observer: Observer
) -> None:
    limiter = Limiter(session, 1e-12, observer.inventory)
    with cgroup("numaudit-lab/costly", cpus="0", mems="1") as group, worker(group, SIZE, threads=2) as running:
        running.order("touch")
        steps: list[tuple[str, ...]] = []

        def costs_too_much_again() -> Overhead:
            """A tick without any event of a probe costs nothing, and takes no step."""
            readings = ProbeReadings(session)
            snapshot = observer.observe(readings=readings)
            overhead = limiter.after_tick(snapshot, judge(snapshot), readings)
            assert steps == [] or overhead.steps != steps[-1]
            return overhead

        try:
            for _ in range(5):
                overhead = eventually(costs_too_much_again)
                steps.append(overhead.steps)
            assert [len(one) for one in steps] == [0, 1, 2, 3, 4]
            assert steps[2] == ("page_alloc off", "watch list")
            assert overhead.coverage is not None and 0 < overhead.coverage <= 1
            probe = session.probe(HINT_FAULTS)
            assert not isinstance(probe, ProbeRefusal)
            watched = probe.read().watched
            assert watched and group.id in watched
            paused = observer.observe(readings=ProbeReadings(session))
            assert paused.hint_faults is None and paused.page_alloc is None
            assert paused.cpu_time is not None
            reasons = {one.source: one.reason or "" for one in paused.outcomes}
            assert "overhead.max_cpu_percent" in reasons["hint_faults"]
        finally:
            for kind in (PAGE_ALLOC, HINT_FAULTS):
                session.pause(kind, False)
            probe = session.probe(HINT_FAULTS)
            assert not isinstance(probe, ProbeRefusal)
            probe.watch(None)
