"""What a remote access costs on this machine, by the best source there is."""

from __future__ import annotations

from pathlib import Path

from made_up.plans import faults_and_time
from made_up.ticks import tick_of
from numaudit.api import document
from numaudit.encoding.value import Origin, Timestamp
from numaudit.engine.collectors.base import SkippedItems
from numaudit.engine.collectors.probes.calibration import read_penalty
from numaudit.engine.collectors.probes.pmu import PmuCollector
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.pmu.calibration import Calibration, Figure, Fingerprint, PairSpeed, PlacementEvidence
from numaudit.pmu.stall import Bounds
from numaudit.probes.counters.accesses import AccessCounts
from numaudit.snapshot import Snapshot
from numaudit.topology.machine import Machine, Node
from numaudit.topology.nodeset import CpuSet

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
