"""What the probes of accesses hang on: each way by itself, both beside each other, and when it is taken from them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host
from numaudit.kernel.tracing import perf_event
from numaudit.probes import hint_faults, migrations
from numaudit.probes.hint_faults import HINT_FAULTS, HintFaultsProbe
from numaudit.probes.loading import loader
from numaudit.probes.loading.function_entry import WAYS, Way
from numaudit.probes.loading.loader import LoadedProbe
from numaudit.probes.migrations import MIGRATIONS, Migrations
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import ProbeReadings, Session
from numaudit.snapshot import ContainerId
from samples import ENOUGH, PAGES, PATIENCE, SIZE, kernel_count, seen, seen_by, share, wait_for_kernel
from workload import Cgroup, Worker, cgroup, eventually, worker

CPU3 = Path("/sys/devices/system/cpu/cpu3/online")


@contextmanager
def hint_faults_by(*ways: Way) -> Iterator[HintFaultsProbe]:
    """The probe alone, by these ways only."""
    outcome = loader.load([hint_faults.request(Host(), 100, 16)])["hint_faults"]
    assert isinstance(outcome, LoadedProbe), outcome
    assert not outcome.refused
    with closing(HintFaultsProbe(Host(), outcome, ways)) as probe:
        yield probe


@contextmanager
def migrations_by(*ways: Way) -> Iterator[Migrations]:
    outcome = loader.load([migrations.request(Host(), 100, 16)])["migrations"]
    assert isinstance(outcome, LoadedProbe), outcome
    assert not outcome.refused
    with closing(Migrations(Host(), outcome, ways)) as probe:
        yield probe


@pytest.mark.parametrize("way", WAYS)
def test_each_way_by_itself_counts_pauses_and_comes_back(way: Way) -> None:
    with hint_faults_by(way) as probe, cgroup("numaudit-lab/by-itself", cpus="0", mems="3") as group:
        assert probe.hook == f"{way} on task_numa_fault"
        with worker(group, SIZE, threads=3) as running:
            before = probe.read()
            running.order("touch")
            faults = seen_by(probe.read, group, before)
        assert share(faults, lambda fault: (fault.cpu_node, fault.memory_node) == (0, 3)) > 0.97, faults
        probe.pause()
        paused = probe.read()
        with worker(group, SIZE, threads=3) as running:
            own = kernel_count()
            running.order("touch")
            wait_for_kernel(own)
        assert probe.read() == paused
        probe.resume()
        with worker(group, SIZE, threads=3) as running:
            running.order("touch")
            seen_by(probe.read, group, paused)


def test_both_ways_count_the_same_faults_and_the_same_moved_pages() -> None:
    with (
        hint_faults_by("kprobe") as one,
        hint_faults_by("fentry") as other,
        migrations_by("kprobe") as movers,
        migrations_by("fentry") as other_movers,
        cgroup("numaudit-lab/both", cpus="0", mems="1") as group,
    ):
        with worker(group, SIZE) as running:
            touch_and_bring_home(running, group, one)
        counted = one.read()
        assert counted.all_lost == 0
        assert counted.faults[group.id] == other.read().faults[group.id]
        moved = movers.read()
        assert moved.succeeded_between[group.id] == other_movers.read().succeeded_between[group.id]
        assert moved.succeeded_between[group.id][1, 0] >= PAGES // 4
    assert other_movers.hook is not None and other_movers.hook.startswith("fentry on migrate_misplaced_")


def touch_and_bring_home(running: Worker, group: Cgroup, probe: HintFaultsProbe) -> None:
    """Until half of the pages were used from another node than theirs, from which NUMA balancing brings them.

    With one thread, for pages that several threads use it leaves where they are for a while.
    """
    group.write("cpuset.mems", "0-1")
    before = probe.read()
    running.order("touch")
    seen_by(probe.read, group, before, at_least=PAGES // 2)


def test_without_a_way_pages_are_counted_without_their_nodes_and_hint_faults_are_refused() -> None:
    """Neither way is tried, as on a kernel that refuses both."""
    outcome = loader.load([migrations.request(Host(), 100, 16)])["migrations"]
    assert isinstance(outcome, LoadedProbe)
    refused = {f"migrations_at_{way}": ProbeRefusal(Reason.FORBIDDEN, f"no {way} today") for way in WAYS}
    programs = {name: program for name, program in outcome.programs.items() if name not in refused}
    for name in refused:
        os.close(outcome.programs[name])
    left = LoadedProbe(outcome.name, programs, outcome.maps, outcome.tracepoint_ids, outcome.kernel_functions, refused)
    with closing(Migrations(Host(), left)) as probe, cgroup("numaudit-lab/nodeless", cpus="0", mems="1") as group:
        assert probe.nodes_refused is not None
        assert "kprobe: no kprobe today; fentry: no fentry today" in probe.nodes_refused.text
        with worker(group, SIZE) as running:
            group.write("cpuset.mems", "0-1")
            running.order("touch")

            def moved() -> None:
                assert probe.read().succeeded.get(group.id, {}).get("numa_misplaced", 0) >= PAGES // 2

            eventually(moved, PATIENCE)
        assert probe.read().succeeded_between == {}


def test_probes_go_on_when_the_cpu_that_holds_their_events_goes_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of one set of probes sit on CPU 3, those of the other on CPU 0, which cannot go: both count alike."""
    monkeypatch.setattr(perf_event, "any_cpu", lambda _: 3)
    with hint_faults_by("kprobe") as faults, migrations_by("kprobe") as moves:
        monkeypatch.undo()
        with (
            hint_faults_by("kprobe") as other_faults,
            migrations_by("kprobe") as other_moves,
            cgroup("numaudit-lab/unplugged", cpus="0", mems="1") as group,
        ):
            try:
                for online in ("0", "1", "0"):
                    CPU3.write_text(online)
                    before = moves.read()
                    with worker(group, SIZE) as running:
                        touch_and_bring_home(running, group, faults)
                    assert faults.read().faults[group.id] == other_faults.read().faults[group.id]
                    moved = moves.read()
                    assert moved.since(before).succeeded[group.id]["numa_misplaced"] >= PAGES // 4
                    assert moved.succeeded[group.id] == other_moves.read().succeeded[group.id]
                    assert moved.succeeded_between[group.id] == other_moves.read().succeeded_between[group.id]
                    group.write("cpuset.mems", "1")
            finally:
                CPU3.write_text("1")


def test_tracefs_may_be_unmounted_while_the_probes_run() -> None:
    tracefs = "/sys/kernel/tracing"
    kinds = (PAGE_ALLOC, HINT_FAULTS, MIGRATIONS)
    with (
        Session.open(Host(), kinds, cgroups=100, nodes=16) as session,
        cgroup("numaudit-lab/untraced", cpus="0", mems="1") as group,
    ):
        probe = session.probe(HINT_FAULTS)
        assert isinstance(probe, HintFaultsProbe)
        subprocess.run(["umount", "--lazy", tracefs], check=True)
        try:
            moved, given = session.read(MIGRATIONS), session.read(PAGE_ALLOC)
            with worker(group, SIZE) as running:
                touch_and_bring_home(running, group, probe)
            assert session.read(MIGRATIONS).since(moved).succeeded[group.id]["numa_misplaced"] >= PAGES // 4
            assert session.read(PAGE_ALLOC).since(given).by_node[group.id][0, 1] >= SIZE
            for kind in kinds:
                session.pause(kind, True)
                session.pause(kind, False)
            with worker(group, SIZE, threads=2) as running:
                before, given = session.read(HINT_FAULTS), session.read(PAGE_ALLOC)
                running.order("refill")
                running.order("touch")
                assert sum(session.read(PAGE_ALLOC).since(given).by_node[group.id].values()) >= SIZE
                seen(session, group, before, at_least=ENOUGH)
        finally:
            subprocess.run(["mount", "-t", "tracefs", "tracefs", tracefs], check=True)


def test_a_probe_that_counts_nothing_is_noticed_by_the_agent_itself() -> None:
    """Its program is taken off its hook behind its back."""
    observer = Observer.of(Host())
    with (
        Session.open(Host(), [HINT_FAULTS], cgroups=100, nodes=16) as session,
        cgroup("numaudit-lab/unheard", cpus="0", mems="1") as group,
    ):
        probe = session.probe(HINT_FAULTS)
        assert isinstance(probe, HintFaultsProbe)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, probe._hooks[0])
        os.close(nothing)
        assert observer.observe(readings=ProbeReadings(session)).hint_faults == {}
        with worker(group, SIZE, threads=2) as running:
            before = kernel_count()
            running.order("touch")
            wait_for_kernel(before)
            snapshot = observer.observe(readings=ProbeReadings(session))
        assert snapshot.hint_faults is None
        (why,) = [one for one in snapshot.outcomes if one.source == "hint_faults"]
        assert why.state == "unavailable" and "counts nothing" in (why.reason or "")
        probe.pause()
        probe.resume()
        with worker(group, SIZE, threads=2) as running:
            before_read = probe.read()
            running.order("touch")
            seen_by(probe.read, group, before_read)
            found = observer.observe(readings=ProbeReadings(session)).hint_faults
        assert found is not None and ContainerId(group.id) in found
