"""Rows about the memory map and the probes, and what a remote access costs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from made_up.plans import faults_and_time
from made_up.reports import container, report, tick
from made_up.ticks import readings_of, tick_of
from numaudit.api import document
from numaudit.encoding.value import Origin, Timestamp
from numaudit.engine.collectors.base import SkippedItems
from numaudit.engine.collectors.probes.calibration import read_penalty
from numaudit.engine.collectors.probes.counts import PmuCollector, accounts
from numaudit.engine.observer import Observer
from numaudit.exporters.catalogue import TICK_METRICS
from numaudit.exporters.facts import ExportedTick
from numaudit.exporters.metric import Number
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.pmu.calibration import Calibration, Figure, Fingerprint, PairSpeed, PlacementEvidence
from numaudit.pmu.stall import Bounds
from numaudit.probes.counters.accesses import AccessCounts
from numaudit.probes.cpu_time import CpuTimes
from numaudit.probes.hint_faults import HintFaultCounts
from numaudit.report.build import build
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import ProbeAccount
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

CapturedHost = Callable[[str], Host]


def _values(name: str, of: ExportedTick) -> dict[tuple[str, ...], Number]:
    (row,) = [one for one in TICK_METRICS if one.name == name]
    return dict(row.values(of))


def test_the_memory_map_of_the_checkpoint_is_exported(captured: CapturedHost) -> None:
    of = tick(build(Observer.of(captured("kubernetes-four-nodes")).observe()))
    sizes = _values("memory_manager_bytes", of)
    assert _values("memory_manager_total_bytes", of)["0", "memory"] == 1055182848
    assert sizes["0", "memory", "free"] == 535089152
    assert sizes["2", "hugepages-2Mi", "reserved"] == 33554432
    assert _values("memory_manager_group", of) == {(node, node): 1 for node in "0123"}
    assert _values("memory_manager_admissible_bytes", of) == {("1",): 785899520, ("2",): 0, ("3",): 0, ("4",): 0}
    assert _values("memory_manager_stranded_bytes", of) == {(node,): 0 for node in "0123"}


def test_memory_without_a_promise_is_exported_beside_what_it_takes_away(captured: CapturedHost) -> None:
    of = tick(build(Observer.of(captured("kubernetes-four-nodes")).observe()))
    unpromised = _values("memory_manager_unpromised_bytes", of)
    assert min(unpromised.values()) > 30 << 20
    # 200 and 100 MiB of nodes 0 and 1 are reserved for the system, and nothing of the others.
    assert _values("memory_manager_encroached_bytes", of) == {
        **{(node, "free"): unpromised[(node,)] if node in "23" else 0 for node in "0123"},
        **{(node, "reserved"): 0 for node in "0123"},
    }
    one_node, largest = 785899520, 1020780544
    assert _values("memory_manager_fragmentation_ratio", of) == {(): 1 - one_node / largest}


def test_huge_pages_that_the_map_offers_and_the_kernel_lacks_are_exported(captured: CapturedHost) -> None:
    of = tick(build(Observer.of(captured("hugepages-short")).observe()))
    assert _values("memory_manager_short_bytes", of) == {
        (node, "hugepages-2Mi"): 28 << 20 if node == "1" else 0 for node in "0123"
    }


def test_without_a_checkpoint_there_is_no_memory_map() -> None:
    of = tick(report(container()))
    for name in (
        "bytes",
        "group",
        "admissible_bytes",
        "stranded_bytes",
        "unpromised_bytes",
        "encroached_bytes",
        "fragmentation_ratio",
    ):
        assert _values(f"memory_manager_{name}", of) == {}


def test_the_room_is_worked_out_again_only_for_another_checkpoint(
    captured: CapturedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    observer = Observer.of(captured("kubernetes-four-nodes"))
    first = observer.observe().intent
    monkeypatch.setattr("numaudit.kubelet.intent.intent_of.headroom_of", None)
    second = observer.observe().intent
    assert first is not None
    assert second is not None
    assert second.headroom is first.headroom


def test_what_a_probe_lost_is_counted_by_reason(tmp_path: Path) -> None:
    taken = {
        "hint_faults": HintFaultCounts(lost={"map-full": 3, "busy": 2}),
        "cpu_time": CpuTimes(lost={"busy": 7, "cpu-away": 1}),
    }
    probe = SimpleNamespace(run_time=lambda: RunTime(500_000_000, 20))
    found = accounts(Host(tmp_path), readings_of(taken, dict.fromkeys(taken, probe)))
    assert found["hint_faults"].lost == {"map-full": 3, "busy": 2}
    assert found["cpu_time"].lost == {"busy": 7, "cpu-away": 1}
    assert found["hint_faults"].runs is None


@pytest.mark.parametrize(("setting", "is_counted"), [("1\n", True), ("0\n", False)])
def test_runs_are_reported_only_while_the_kernel_counts_them(tmp_path: Path, setting: str, is_counted: bool) -> None:
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/bpf_stats_enabled").write_text(setting)
    probe = SimpleNamespace(run_time=lambda: RunTime(500_000_000, 20))
    readings = readings_of({"hint_faults": HintFaultCounts()}, {"hint_faults": probe})
    account = accounts(Host(tmp_path), readings)["hint_faults"]
    assert (account.runs, account.run_seconds) == ((20, 0.5) if is_counted else (None, None))


def test_each_probe_has_its_rows() -> None:
    probes = (ProbeAccount("page_alloc", {"map-full": 3, "busy": 0}, 20, 0.5), ProbeAccount("cpu_time", {}, None, None))
    of = tick(replace(report(container()), probes=probes))
    assert _values("lost_events_total", of) == {("page_alloc", "map-full"): 3, ("page_alloc", "busy"): 0}
    assert _values("bpf_runs_total", of) == {("page_alloc",): 20}
    assert _values("bpf_run_seconds_total", of) == {("page_alloc",): 0.5}


TWO = Machine(tuple(Node(node, CpuSet.of(node), distances={0: 10, 1: 21}) for node in range(2)))


def _host(folder: Path, model: int) -> Host:
    (folder / "proc").mkdir(exist_ok=True)
    (folder / "proc/cpuinfo").write_text(
        f"processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\nstepping : 7\n"
    )
    return Host(folder)


def _calibrate(host: Host) -> None:
    latencies = {(0, 0): 80.0, (0, 1): 130.0, (1, 0): 140.0, (1, 1): 80.0}
    evidence = PlacementEvidence({0: 1}, 0, (0,), 0)
    pairs = tuple(PairSpeed(*pair, Figure(ns, 3, 0.0, True), None, evidence) for pair, ns in latencies.items())
    found = Calibration(Fingerprint.of(TWO, read_cores(host, TWO).cpus), 1 << 27, pairs, measured_at=Timestamp(86400))
    host.calibration.parent.mkdir(parents=True, exist_ok=True)
    host.calibration.write_bytes(document.encode("Calibration", found, Origin("host", found.measured_at)))


def test_an_unknown_cpu_has_assumed_latencies_with_wide_bounds(tmp_path: Path) -> None:
    found = read_penalty(_host(tmp_path, model=1), TWO)
    assert found.origin == "ratio"
    assert found.by_cpu_node[0].high > 3 * found.by_cpu_node[0].low


def test_a_known_family_has_published_latencies(tmp_path: Path) -> None:
    found = read_penalty(_host(tmp_path, model=0x8F), TWO)
    assert (found.origin, found.by_cpu_node[1]) == ("published", Bounds(81.0, 81.0))


def test_latencies_that_were_measured_here_come_first(tmp_path: Path) -> None:
    host = _host(tmp_path, model=0x8F)
    _calibrate(host)
    found = read_penalty(host, TWO)
    assert (found.origin, found.source) == ("calibrated", "numaudit doctor --calibrate, 1970-01-02")
    assert found.by_cpu_node == {0: Bounds(50.0, 50.0), 1: Bounds(60.0, 60.0)}


def test_a_calibration_of_another_machine_is_left_alone(tmp_path: Path) -> None:
    _calibrate(_host(tmp_path, model=0x6A))
    assert read_penalty(_host(tmp_path, model=0x8F), TWO).origin == "published"


def test_it_is_found_once(tmp_path: Path) -> None:
    host, collector = _host(tmp_path, model=0x8F), PmuCollector()
    tick = tick_of(host, {"pmu": AccessCounts(plan=faults_and_time())}, machine=TWO)
    first = collector.collect(tick, Snapshot(0.0, TWO, "v2"), SkippedItems()).penalty
    assert first is not None
    (tmp_path / "proc/cpuinfo").unlink()
    assert collector.collect(tick, Snapshot(0.0, TWO, "v2"), SkippedItems()).penalty is first
