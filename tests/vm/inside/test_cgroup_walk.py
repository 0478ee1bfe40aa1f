"""One walk over all cgroups says what thousands of files say: counters and cpusets, under churn and with few rights."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from numaudit.engine import cgroup_walks
from numaudit.engine.cgroup_walks import CgroupWalks
from numaudit.engine.observer import Observer
from numaudit.kernel.cgroup import Reader, find_hierarchies
from numaudit.kernel.host import Host
from numaudit.kernel.memory.cgroup_layout import CgroupLayout, cgroup_layout
from numaudit.kernel.tracing.btf import Btf
from numaudit.snapshot import CollectorOutcome, ContainerId, Snapshot
from workload import CGROUPS, MIB, Cgroup, cgroup, eventually, worker

pytestmark = pytest.mark.page_size

TOP = "numaudit-lab/walked"
MANY = 20
LEVELS = "/".join("abcdefghijklmnopqrstu")
"""With the three groups above, 24."""
CHURN = """
import os, sys, time
number = 0
while True:
    os.mkdir(f"{sys.argv[1]}/short-{number}")
    if number > 50:
        os.rmdir(f"{sys.argv[1]}/short-{number - 50}")
    number += 1
    time.sleep(0.02)
"""
TRY = """
import ctypes, json, threading, time
from numaudit.engine.observer import Observer
from numaudit.kernel.host import Host

def fared():
    observer = Observer.of(Host(), with_walks=True)
    for _ in range(600):
        snapshot = observer.observe()
        (found,) = [one for one in snapshot.outcomes if one.source == "cgroup walk"]
        if found.state == "ok" or not ("is being loaded" in found.reason or "is proven" in found.reason):
            break
        for thread in threading.enumerate():
            if thread.name == "cgroup walk":
                thread.join()
        time.sleep(0.1)
    return found.state, found.reason, len(snapshot.residency)

with_both = fared()
perfmon = 1 << 38 - 32
header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(0, 0, 0, perfmon, perfmon, perfmon)
assert ctypes.CDLL(None).capset(header, sets) == 0
print(json.dumps([with_both, fared()]))
"""


def _outcome(snapshot: Snapshot) -> CollectorOutcome:
    (found,) = [one for one in snapshot.outcomes if one.source == "cgroup walk"]
    return found


def _walking(observer: Observer) -> Snapshot:
    """A tick that walked."""

    def walked() -> Snapshot:
        snapshot = _observed(observer)
        found = _outcome(snapshot)
        assert found.state == "ok", found.reason
        return snapshot

    return eventually(walked)


def _observed(observer: Observer) -> Snapshot:
    """A tick while no walk is being loaded: looks by files meanwhile would take its CPU time in an emulated machine."""
    snapshot = observer.observe()
    loading = [thread for thread in threading.enumerate() if thread.name == "cgroup walk"]
    for thread in loading:
        thread.join()
    return observer.observe() if loading else snapshot


@contextlib.contextmanager
def _observer() -> Iterator[Observer]:
    observer = Observer.of(Host(), with_walks=True)
    assert observer.walks is not None
    try:
        yield observer
    finally:
        observer.walks.close()


@pytest.fixture(scope="module")
def walking() -> Iterator[Observer]:
    """Its walk is loaded once for all tests that need no other one, before anything else is going on."""
    with _observer() as observer:
        _walking(observer)
        yield observer


@contextlib.contextmanager
def _many(number: int = MANY) -> Iterator[list[Path]]:
    """Groups without processes, half of them without a cpuset of their own."""
    with cgroup(f"{TOP}/with") as first, cgroup(f"{TOP}/without") as second:
        for parent, controllers in ((first, "+memory +cpuset"), (second, "+memory")):
            parent.write("cgroup.subtree_control", controllers)
        folders = [parent.path / f"c{place}" for parent in (first, second) for place in range(number // 2)]
        for folder in folders:
            folder.mkdir()
        try:
            yield folders
        finally:
            for folder in folders:
                folder.rmdir()


@pytest.mark.arm64
def test_every_counter_and_cpuset_is_what_the_files_say_while_cgroups_come_and_go(walking: Observer) -> None:
    observer = walking
    reader = Reader(find_hierarchies(Host()), read=lambda path: Path(path).read_bytes())
    with (
        cgroup(f"{TOP}/far", cpus="0", mems="2") as far,
        cgroup(f"{TOP}/deep/{LEVELS}", cpus="1-2", mems="0-1") as deep,
        cgroup(f"{TOP}/churned") as churned,
        _many() as folders,
        worker(far, 20 * MIB),
        worker(deep, 10 * MIB),
    ):
        Path("/dev/shm/numaudit-walked").write_bytes(bytes(MIB))
        churn = subprocess.Popen([sys.executable, "-I", "-S", "-c", CHURN, str(churned.path)])
        try:
            names = {far.path, deep.path, *deep.path.parents, *folders} - {CGROUPS, *CGROUPS.parents, CGROUPS / TOP}
            paths = {Cgroup(path).id: f"/{path.relative_to(CGROUPS)}" for path in names}
            _walking(observer)

            def equal() -> None:
                walked = observer.walks.take(observer.inventory.census, observer.machine.read())  # type: ignore[union-attr]
                found = walked.residents(reader.hugetlb(""))
                for id_, path in paths.items():
                    assert found[id_] == reader.resident(path), path
                    own = walked.allowed.get(id_)
                    if own is None:
                        assert not Path(f"{CGROUPS}{path}/cpuset.mems.effective").exists(), path
                    else:
                        assert own == reader.allowed(path), path

            eventually(equal)
            assert paths.keys() & {one.id for one in observer.inventory.census.containers}
        finally:
            churn.kill()
            churn.wait()
            Path("/dev/shm/numaudit-walked").unlink()
            for left in churned.path.glob("short-*"):
                left.rmdir()


def test_new_and_ended_containers_are_found_and_the_same_ones_cost_no_look_at_folders(
    walking: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cgroup(f"{TOP}/stays") as stays:
        _walking(walking)
        with cgroup(f"{TOP}/goes") as goes:
            ids = {one.id for one in _walking(walking).containers}
            assert {stays.id, goes.id} <= ids
            gone = goes.id
        snapshot = _walking(walking)
        assert {one.id for one in snapshot.containers} == ids - {gone}
        monkeypatch.setattr(walking.inventory, "hierarchies", None)
        assert _walking(walking).containers == snapshot.containers


def test_a_removed_cgroup_whose_memory_is_still_there_is_no_cgroup_and_the_group_above_has_the_bytes(
    walking: Observer,
) -> None:
    reader = Reader(find_hierarchies(Host()), read=lambda path: Path(path).read_bytes())
    left = Path("/dev/shm/numaudit-left")
    with cgroup(f"{TOP}/survives") as parent:
        try:
            with cgroup(f"{TOP}/survives/dead") as dead:
                gone = dead.id
                fill = f"echo 0 > {dead.path}/cgroup.procs && head -c {4 * MIB} /dev/zero > {left}"
                subprocess.run(["sh", "-c", fill], check=True)
            assert "nr_dying_descendants 1\n" in parent.read("cgroup.stat")

            def equal() -> None:
                _walking(walking)
                walked = walking.walks.take(walking.inventory.census, walking.machine.read())  # type: ignore[union-attr]
                assert gone not in walked.ids
                found = walked.residents(reader.hugetlb(""))
                assert gone not in found
                assert found[parent.id] == reader.resident(f"/{TOP}/survives")
                assert sum((found[parent.id].shmem or {}).values()) == 4 * MIB

            eventually(equal)
        finally:
            left.unlink(missing_ok=True)


@pytest.mark.one_kernel
def test_more_cgroups_than_rows_are_read_by_files_until_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup_walks, "_LEAST_CGROUPS", 1)
    with _observer() as observer:
        before = len(_walking(observer).residency)
        with _many(2 * before + MANY) as folders:
            snapshot = observer.observe()
            assert "more than were expected" in (_outcome(snapshot).reason or "")
            assert len(snapshot.residency) >= before + len(folders)
            assert _walking(observer).residency.keys() == snapshot.residency.keys()


@pytest.mark.parametrize("handed_down", ["", "+io"])
def test_where_memory_is_not_counted_the_group_above_has_the_bytes(walking: Observer, handed_down: str) -> None:
    """With `io`, which needs the memory controller, the kernel has that one without files."""
    with cgroup(f"{TOP}/plain") as parent:
        for above in (CGROUPS, CGROUPS / "numaudit-lab", CGROUPS / TOP, parent.path):
            (above / "cgroup.subtree_control").write_text(handed_down)
        child = parent.path / "uncounted"
        child.mkdir()
        try:
            id_ = ContainerId(Cgroup(child).id)
            by_walk = _walking(walking)
            by_files = Observer.of(Host()).observe()
            assert id_ not in by_walk.residency
            assert by_walk.not_resident[id_] == by_files.not_resident[id_]
        finally:
            child.rmdir()


@pytest.mark.one_kernel
def test_a_walk_needs_two_capabilities_and_with_one_of_them_files_are_read() -> None:
    caps = [f"--{of}=-all,+bpf,+perfmon" for of in ("bounding-set", "inh-caps", "ambient-caps")]
    user = ["--reuid=65534", "--regid=65534", "--clear-groups"]
    with cgroup(f"{TOP}/read"):
        command = ["setpriv", *caps, *user, sys.executable, "-c", TRY]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    (both, why, by_walk), (one, why_not, by_files) = json.loads(done.stdout)
    assert both == "ok", why
    assert one == "absent"
    assert "capabilities BPF and PERFMON" in why_not
    assert by_walk == by_files > 0


@pytest.mark.one_kernel
def test_a_counter_in_another_place_is_found_out_and_files_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def moved(types: Btf, page_size: int, is_tiered: bool) -> CgroupLayout:
        layout = cgroup_layout(types, page_size, is_tiered)
        rows = layout.rows
        return replace(layout, rows={**rows, "anon": rows["file_mapped"], "file_mapped": rows["anon"]})

    monkeypatch.setattr(cgroup_walks, "cgroup_layout", moved)
    with cgroup(f"{TOP}/full") as full, _observer() as observer, worker(full, 40 * MIB):

        def refused() -> Snapshot:
            snapshot = _observed(observer)
            assert _outcome(snapshot).state == "unavailable"
            return snapshot

        snapshot = eventually(refused)
        assert "memory.numa_stat" in (_outcome(snapshot).reason or "")
        anon = snapshot.residency[ContainerId(full.id)].anon
        assert anon is not None
        assert sum(anon.values()) >= 40 * MIB
        assert isinstance(observer.walks, CgroupWalks)
        assert _outcome(observer.observe()).reason == _outcome(snapshot).reason
