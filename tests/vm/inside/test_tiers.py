"""Two memory tiers: what the kernel moves behind a cpuset is seen to the page, named, and brought back."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from numaudit.cli.main import call
from numaudit.doctor.checks import examine
from numaudit.doctor.demotion import check_demotion
from numaudit.doctor.near_and_far import Worker as SelfTestWorker
from numaudit.engine.observer import Observer
from numaudit.errors import Unavailable
from numaudit.evaluation.verdicts import Cause
from numaudit.kernel.cgroup import Reader, find_hierarchies
from numaudit.kernel.cgroup_writer import own_tree
from numaudit.kernel.host import Host
from numaudit.kernel.memory import tiers
from numaudit.kernel.node import read_machine
from numaudit.probes.counters.reference_workload import reference_workload
from numaudit.probes.reasons import ProbeRefusal, Reason
from numaudit.probes.session import Session
from numaudit.report.build import build
from numaudit.report.values import ContainerReport, Report
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.topology.quantity import in_units
from workload import MIB, Cgroup, Worker, cgroup, eventually, worker

ONE_TIER = os.environ.get("NUMAUDIT_GUEST") == "6.1"
"""That kernel does not know the firmware's table."""
several = pytest.mark.skipif(ONE_TIER, reason="Linux 6.1 has one tier here, of which nothing is demoted")
pytestmark = pytest.mark.tiers
DEMOTION = tiers.demotion_file(Host())
BALANCING = Path("/proc/sys/kernel/numa_balancing")
HELD = 48 * MIB
MOVED = 24 * MIB
FAST, SLOW = (0, 1), (2, 3)


class CarriedOut(NamedTuple):
    """A remedy of docs/verdicts.md that a test below carries out."""

    of: str
    remedy: str


ROWS = (
    CarriedOut("demoted", "Turn demotion off"),
    CarriedOut("demoted", "write the slow nodes to cpuset.mems too and then the promised ones alone"),
    CarriedOut("demoted", "set kernel.numa_balancing to 2"),
    CarriedOut("demoted", "recreate the container"),
    CarriedOut("demotable", "Turn demotion off"),
)


@pytest.fixture(autouse=True)
def _as_it_boots() -> Iterator[None]:
    BALANCING.write_text("0")
    try:
        yield
    finally:
        BALANCING.write_text("1")
        DEMOTION.write_text("false")


@pytest.fixture(scope="module")
def observer() -> Observer:
    return Observer.of(Host())


def _demote(group: Cgroup) -> None:
    """Have the kernel reclaim memory of the group: with demotion on, it moves it."""
    DEMOTION.write_text("true")
    group.write("memory.reclaim", str(MOVED))


def _slow_bytes(by_node: Mapping[int, int]) -> int:
    return sum(by_node.get(node, 0) for node in SLOW)


def _of(report: Report, group: Cgroup) -> ContainerReport:
    (found,) = [one for one in report.containers if one.id == group.id]
    return found


def _findings(report: Report, name: str) -> list[str]:
    return [one.message for one in report.findings if one.name == name]


def _causes(one: ContainerReport) -> list[Cause]:
    return [] if one.verdict is None else list(one.verdict.causes)


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert call(list(arguments)) == 0
    return capsys.readouterr().out


def test_tiers_targets_and_figures_are_those_of_the_kernel_and_the_firmware(capsys: pytest.CaptureFixture[str]) -> None:
    text, document = _printed(capsys, "topology"), json.loads(_printed(capsys, "topology", "-o", "json"))
    speeds = [node["memorySpeed"] for node in document["nodes"]]
    assert [(one["initiators"], one["readLatencyNanoseconds"]) for one in speeds] == [
        ([0], 100),
        ([1], 100),
        ([0], 600),
        ([1], 600),
    ]
    assert [one["writeBytesPerSecond"] >> 20 for one in speeds] == [20480, 20480, 4096, 4096]
    assert [node["cpus"] for node in document["nodes"]] == ["0", "1", "", ""]
    assert document["demotionEnabled"] is False
    if ONE_TIER:
        assert "one memory tier, so the kernel demotes nothing" in text
        assert [one["numaNodes"] for one in document["memoryTiers"]] == [[0, 1, 2, 3]]
        assert "one memory tier" in _doctor()
        return
    assert [one["numaNodes"] for one in document["memoryTiers"]] == [[*FAST], [*SLOW]]
    log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    said = dict(re.findall(r"Demotion targets for Node (\d): (?:preferred: )?([-\d]+|null)", log))
    assert said == {str(node["numaNode"]): _listed(node["demotionTargets"]) for node in document["nodes"]}
    assert "2 memory tiers; demotion is off, NUMA balancing is off" in text
    BALANCING.write_text("3")
    assert "NUMA balancing is normal, memory tiering (tier 4: nodes 0-1" in _doctor()


def _doctor() -> str:
    """What it says of tiers; without probes, whose trial takes long."""
    none = Session.refused((), ProbeRefusal(Reason.NOT_LIVE, ""))
    return next(one.detail for one in examine(Host(), none) if one.name == "memory tiers")


def _listed(nodes: list[int]) -> str:
    return ",".join(map(str, nodes)) or "null"


@several
def test_what_is_demoted_past_a_cpuset_is_counted_to_the_page_named_and_comes_back_as_the_remedy_says(
    observer: Observer,
) -> None:
    reader = replace(Reader(find_hierarchies(Host())), is_tiered=True)
    with cgroup("numaudit-lab/confined", cpus="0", mems="0") as group, worker(group, HELD) as held:
        before = build(observer.observe())
        assert _findings(before, "demotable") == _findings(before, "demoted") == []
        _demote(group)

        def seen() -> tuple[Snapshot, Report]:
            """The kernel has added up its counters."""
            snapshot = observer.observe()
            resident = snapshot.residency[ContainerId(group.id)]
            assert _slow_bytes(resident.anon or {}) >= MOVED
            assert resident == reader.resident("/numaudit-lab/confined")
            assert sum((resident.demoted or {}).values()) >= MOVED
            return snapshot, build(snapshot)

        snapshot, report = eventually(seen)
        resident = snapshot.residency[ContainerId(group.id)]
        pages = _truth(held)
        assert _slow_bytes(pages) == _slow_bytes(resident.judged) - _slow_bytes(_others(held))
        one = _of(report, group)
        assert group.read("cpuset.mems.effective") == "0\n"
        assert one.remote_bytes == _slow_bytes(resident.judged)
        assert [(row.numa_node, row.promoted_bytes) for row in one.tier_moves or ()] == [(0, 0)]
        assert _causes(one)[0].cause == "demoted"
        (demoted,), (demotable,) = _findings(report, "demoted"), _findings(report, "demotable")
        assert "to the slower nodes 2-3, where it is now" in demoted
        assert one.findings == ("demoted",)
        assert "this kernel has demoted" in demotable
        assert tiers.keeps_cpuset(Host()) is False

        DEMOTION.write_text("false")
        with pytest.raises(OSError):  # nothing else can be reclaimed, so nothing is
            group.write("memory.reclaim", str(MOVED))
        held.order("touch")
        off = build(observer.observe())
        assert _findings(off, "demotable") == []
        assert len(_findings(off, "demoted")) == 1
        assert _slow_bytes(_truth(held)) == _slow_bytes(pages)

        held.order("sleep")
        group.write("cpuset.mems", "0,2-3")
        group.write("cpuset.mems", "0")
        assert _truth(held) == {0: HELD}

        def back() -> None:
            report = build(observer.observe())
            assert _findings(report, "demoted") == []
            assert "demoted" not in [cause.cause for cause in _causes(_of(report, group))]

        eventually(back)
    with cgroup("numaudit-lab/recreated", cpus="0", mems="0") as group, worker(group, HELD) as held:
        assert _truth(held) == {0: HELD}
        assert _of(build(observer.observe()), group).findings == ()


def _truth(held: Worker) -> dict[int, int]:
    """Where the pages of its mapping are."""
    return held.bytes_by_node()


def _others(held: Worker) -> dict[int, int]:
    """Where the other anonymous pages of the worker are, by its numa_maps: those of Python itself."""
    sums: dict[int, int] = {}
    for line in Path(f"/proc/{held.pid}/numa_maps").read_text().splitlines():
        if "anon=" in line and int(line.split()[0], 16) != held.address:
            for node, pages in re.findall(r" N(\d+)=(\d+)", line):
                sums[int(node)] = sums.get(int(node), 0) + int(pages) * 4096
    return sums


@several
def test_memory_that_is_used_is_promoted_and_counted(observer: Observer) -> None:
    with cgroup("numaudit-lab/used", cpus="1", mems="1") as group, worker(group, HELD) as held:
        _demote(group)
        DEMOTION.write_text("false")
        assert _slow_bytes(_truth(held)) > 0
        BALANCING.write_text("2")
        held.order("touch")

        def promoted() -> None:
            assert _slow_bytes(_truth(held)) <= HELD // 16
            one = _of(build(observer.observe()), group)
            (row,) = one.tier_moves or ()
            assert row.numa_node == 1
            assert (row.demoted_bytes or 0) > (row.promoted_bytes or 0) > MOVED // 2

        eventually(promoted)

        report = build(observer.observe())
        (row,) = _of(report, group).tier_moves or ()
        back = in_units(row.promoted_bytes or 0)
        assert all(f"{back} came back" in said for said in _findings(report, "demoted"))  # unused memory stays there


def test_the_selftest_sees_what_the_kernel_demotes() -> None:
    host = Host()
    machine, hierarchies = read_machine(host), find_hierarchies(host)
    assert hierarchies.unified is not None
    with own_tree(hierarchies.unified, "numaudit-selftest-tiers", ("cpuset", "memory")) as tree:
        group = tree.add("near", cpuset_mems="1", cpuset_cpus="1")
        with reference_workload(HELD, 1, group.path) as work:
            near = SelfTestWorker("near", group, work, 1, 1)
            with pytest.raises(Unavailable, match="one memory tier" if ONE_TIER else "demotion is off"):
                check_demotion(host, machine, hierarchies, near)
            if ONE_TIER:
                return
            DEMOTION.write_text("true")
            found = check_demotion(host, machine, hierarchies, near)
            assert found.state == "passed", f"expected {found.expected}, seen {found.seen}"
            assert float(found.expected.split()[0]) >= MOVED / MIB * 0.9
            assert group.path.joinpath("cpuset.mems").read_text() == "1\n"


@several
def test_a_group_that_may_use_slow_memory_is_no_broken_promise(observer: Observer) -> None:
    with cgroup("numaudit-lab/free") as group, worker(group, HELD):
        _demote(group)
        eventually(lambda: _moved(observer, group))
        report = build(observer.observe())
        assert _findings(report, "demoted") == []
        assert "numaudit-lab/free" not in " ".join(_findings(report, "demotable"))


def _moved(observer: Observer, group: Cgroup) -> None:
    resident = observer.observe().residency[ContainerId(group.id)]
    assert sum((resident.demoted or {}).values()) >= MOVED
