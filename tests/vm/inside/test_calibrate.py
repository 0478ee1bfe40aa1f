"""`numaudit doctor --calibrate` over all pairs of nodes: the program's pages are where the kernel itself shows them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from numaudit.cli.main import call
from numaudit.doctor.calibrate import built, running
from numaudit.kernel.host import Host
from numaudit.kernel.node import read_machine
from numaudit.topology.nodeset import CpuSet
from workload import MIB, PAGE

pytestmark = pytest.mark.one_kernel
SIZE = 8 * MIB


def test_the_memory_of_each_measurement_is_on_its_node_and_on_no_other() -> None:
    machine = read_machine(Host())
    with built() as program:
        for cpu_node in machine.with_cpus:
            for node in machine.with_memory:
                with running(program, machine.by_id[cpu_node].cpus or CpuSet(), node, SIZE) as work:
                    assert set(work.latency().nodes) == set(work.bandwidth().nodes) == {cpu_node}
                    maps = Path(f"/proc/{work.process.pid}/numa_maps").read_text()
                (bound,) = (line for line in maps.splitlines() if f" bind:{node} " in line)
                pages = {int(found): int(count) for found, count in re.findall(r" N(\d+)=(\d+)", bound)}
                size_of_one = re.search(r"kernelpagesize_kB=(\d+)", bound)
                assert size_of_one is not None
                assert pages == {node: SIZE // (int(size_of_one[1]) << 10)}


def test_all_pairs_are_measured_stored_and_used_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = read_machine(Host())
    monkeypatch.setattr("numaudit.doctor.calibrate._MOST_ROUNDS", 3)
    try:
        assert call(["doctor", "--calibrate", "-o", "json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert call(["doctor", "--require", "calibration", "-o", "json"]) == 0
        checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    finally:
        Host().calibration.unlink(missing_ok=True)
    pairs = {(one["cpuNumaNode"], one["numaNode"]): one for one in document["pairs"]}
    assert set(pairs) == {(cpu, node) for cpu in machine.with_cpus for node in machine.with_memory}
    for (cpu_node, node), pair in pairs.items():
        assert pair["reason"] is None
        assert pair["evidence"]["pages"] == {str(node): document["bytes"] // PAGE}
        assert pair["evidence"]["cpuNodes"] == [cpu_node]
        assert pair["latencyNanoseconds"]["value"] > 0 and pair["bytesPerSecond"]["value"] > 0
    values = [pair["latencyNanoseconds"]["value"] for pair in pairs.values()]
    says_so = any("equal within 5 %" in note for note in document["notes"])
    assert says_so == (max(values) <= 1.05 * min(values))
    assert checks["calibration"]["detail"] == f"latency between {len(pairs)} pairs of nodes is known"
