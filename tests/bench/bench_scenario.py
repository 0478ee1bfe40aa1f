"""What an explanation and a simulation take on eight nodes.

Run: python tests/bench/bench_scenario.py. It fails when `numaudit explain` with four providers takes more than 0.5 s in
all, or when 10,000 steps of a scenario take more than 12 s of CPU time, reading and writing included.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from goals import at_most_ms
from short import pick, repetitions, run

STEPS = pick(10_000, short=200)
EXPLAIN_SECONDS, SHORT_EXPLAIN = 0.5, 900.0
SIMULATE_SECONDS, SHORT_SIMULATE = 12.0, 2000.0
_PROGRAM = "from numaudit.cli.main import run; run()"

Plain = dict[str, Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        explain = _explain(Path(folder))
        simulate = {output: _simulate(Path(folder), output) for output in ("json", "table")}
    print(f"explain, four providers: {explain:.3f} s of CPU time (allowed {EXPLAIN_SECONDS} s)")
    for output, seconds in simulate.items():
        print(f"simulate, {output}: {seconds:.2f} s of CPU time for {STEPS} steps (allowed {SIMULATE_SECONDS:.0f} s)")
    at_most_ms("explain, four providers", explain * 1000, EXPLAIN_SECONDS * 1000, short=SHORT_EXPLAIN)
    for output, seconds in simulate.items():
        at_most_ms(f"simulate 10,000 steps, {output}", seconds * 1000, SIMULATE_SECONDS * 1000, short=SHORT_SIMULATE)


def _explain(folder: Path) -> float:
    """A pod that is refused, so that ways in are tried, too: all of 255 hints from CPUs, two devices and memory."""
    steps = [{"admit": _pod(f"p{number}", 150)} for number in range(8)]
    (folder / "scenario.yaml").write_text(json.dumps(_scenario(steps)))
    wanted = _pod("wanted", 100, {"vendor.example/nic": "1", "vendor.example/gpu": "1"})
    (folder / "pod.yaml").write_text(json.dumps(wanted))
    command = ["fit", "-f", "pod.yaml", "--node", "scenario.yaml"]
    return min(_seconds(folder, command) for _ in range(repetitions(5)))


def _simulate(folder: Path, output: str) -> float:
    chance = random.Random(1)
    steps: list[Plain] = []
    here: list[str] = []
    for number in range(STEPS):
        if len(here) > 40 or (here and chance.random() < 0.45):
            steps.append({"remove": {"pod": here.pop(chance.randrange(len(here)))}})
        else:
            steps.append({"admit": _pod(f"p{number}", chance.choice([4, 8, 16, 24, 32, 48, 200]))})
            here.append(f"p{number}")
    (folder / "scenario.yaml").write_text(json.dumps(_scenario(steps)))
    return _seconds(folder, ["simulate", "scenario.yaml", "-o", output])


def _seconds(folder: Path, arguments: list[str]) -> float:
    """CPU time of one command, from its start to its end."""
    before = os.times()
    subprocess.run([sys.executable, "-c", _PROGRAM, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _scenario(steps: list[Plain]) -> Plain:
    nodes = [{"id": id_, "cpus": f"{16 * id_}-{16 * id_ + 15}", "memory": "192Gi"} for id_ in range(8)]
    devices = {
        f"vendor.example/{kind}": {f"{kind}{node}-{copy}": node for node in range(8) for copy in range(2)}
        for kind in ("nic", "gpu")
    }
    return {
        "apiVersion": "numaudit/v1",
        "kind": "Scenario",
        "machine": {"nodes": nodes, "devices": devices},
        "kubelet": {
            "memoryManagerPolicy": "Static",
            "cpuManagerPolicy": "static",
            "reservedSystemCPUs": "0",
            "topologyManagerPolicy": "restricted",
            "reservedMemory": [{"numaNode": 0, "limits": {"memory": "4Gi"}}],
        },
        "steps": steps,
    }


def _pod(name: str, gigabytes: int, more: dict[str, str] | None = None) -> Plain:
    limits = {"cpu": "1", "memory": f"{gigabytes}Gi", **(more or {})}
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "app", "resources": {"limits": limits}}]}}


if __name__ == "__main__":
    run(main)
