"""`numaudit assert` on programs that use memory of other nodes: none of them passes, whatever the kernel samples of it.

What each really uses is known from its plan (page_truth.py). Only 6.12 runs them: it leaves out more of the memory.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, TextIO

import pytest

from commands import Started, ending, started
from numaudit.cli.exits import EXIT_FINDINGS, EXIT_INCONCLUSIVE
from page_truth import PLANS, PROGRAM, SLACK, Plan, Process, _file
from workload import CGROUPS, MIB, PAGE, Cgroup, cgroup, eventually

pytestmark = pytest.mark.one_kernel

ENOUGH = 8.0
"""Seconds of work: the guest's kernel scans every second."""
LATE, SEEN = 6.0, 10.0
"""Seconds after the beginning: what came home before the first is seen by the tick that comes before the second."""
PYTHON = 12 * MIB
"""Of each process, beside its parts."""
UNITS = {"Ki": 1 << 10, "Mi": MIB, "Gi": 1 << 30}
EVIDENCE = re.compile(r" of its ([\d.]+)([KMG]i) were seen used from other nodes, so ([\d.]+)% to ([\d.]+)% may be")

importlib.import_module("numaudit.cli.manager.assert_work")  # once here, and not by each child


class Said(NamedTuple):
    """What the gate says of one program."""

    code: int
    accesses: str
    pages: str
    """The lines about them."""
    healed: float | None
    """Seconds of work after which all memory was home; None = it was not by then."""


class Bounds(NamedTuple):
    """Bytes used from other nodes, as the gate says."""

    lower: float
    upper: float
    state: str


def share_of_accesses(plan: Plan) -> float:
    """Remote ones of all, before anything heals."""
    uses = [
        (part.mib * times, sum(node not in thread.cpus for node in part.nodes) / len(part.nodes))
        for one in plan.processes
        for thread in one.threads
        for part, times in ((one.parts[number], times) for number, times in thread.uses)
    ]
    return sum(size * remote for size, remote in uses) / sum(size for size, _ in uses)


def remote_bytes(plan: Plan) -> float:
    """Used from other nodes, however often."""
    return MIB * sum(
        part.mib * sum(node not in one.threads[0].cpus for node in part.nodes) / len(part.nodes)
        for one in plan.processes
        for part in one.parts
    )


def memory(plan: Plan) -> float:
    """What its processes map, about."""
    return sum(MIB * part.mib for one in plan.processes for part in one.parts) + PYTHON * len(plan.processes)


def judged(plan: Plan, folder: Path, accesses: float, pages: float) -> Said:
    """Its processes under the gate, each with an input of its own, until they have worked enough."""
    inputs = [folder / f"input-{number}" for number in range(len(plan.processes))]
    for one in inputs:
        os.mkfifo(one)
    commands = [f"{command(one)} <{path} &" for one, path in zip(plan.processes, inputs, strict=True)]
    limits = (f"--max-remote={accesses:.2%}", f"--max-remote-pages={pages:.2%}")
    gate = started(["assert", *limits, "--", "taskset", "-c", "0", "sh", "-c", " ".join([*commands, "wait"])])
    with ending(gate), contextlib.ExitStack() as stack:
        # Opened to read as well, a pipe does not wait for its other end.
        writers = [stack.enter_context(os.fdopen(os.open(one, os.O_RDWR), "w", buffering=1)) for one in inputs]
        for _ in writers:
            assert gate.line() == "ready\n"
        began = time.monotonic()
        for writer in writers:
            ask(gate, writer, "go")
        healed = None
        eventually(lambda: has_worked(2.0))
        if plan.heals_after is not None:
            for writer in writers:
                ask(gate, writer, "home")
            while healed is None and time.monotonic() - began < LATE:
                if not remote_now(plan, [ask(gate, writer, "pages") for writer in writers]):
                    healed = time.monotonic() - began
                time.sleep(0.5)
        eventually(lambda: has_worked(ENOUGH))
        if healed is not None:
            time.sleep(max(0.0, began + SEEN - time.monotonic()))
        stack.close()
        code, text = gate.end()
    of_accesses, of_pages = text.splitlines()
    return Said(code, of_accesses, of_pages, healed)


def ask(gate: Started, writer: TextIO, order: str) -> list[dict[str, int]]:
    writer.write(f"{order}\n")
    answer: list[dict[str, int]] = json.loads(gate.line())
    return answer


def remote_now(plan: Plan, parts_of: Sequence[list[dict[str, int]]]) -> bool:
    """More than stray pages, by where the work itself finds them."""
    remote = sum(
        count
        for one, parts in zip(plan.processes, parts_of, strict=True)
        for nodes in parts
        for node, count in nodes.items()
        if int(node) not in one.threads[0].cpus
    )
    return remote * PAGE > SLACK


def command(process: Process) -> str:
    return shlex.join([sys.executable, "-S", str(PROGRAM), json.dumps(asdict(process))])


def has_worked(seconds: float) -> None:
    (group,) = [Cgroup(path) for path in CGROUPS.glob("numaudit-assert-*")]
    assert int(group.read("cpu.stat").split()[1]) > seconds * 1_000_000


def bounds(said: Said, whole: float) -> Bounds | None:
    """None = the kernel sampled nothing of it. `whole`: bytes that it maps in the end; what came late is unseen."""
    found = EVIDENCE.search(said.pages)
    if found is None:
        return None
    size, unit, lower, upper = found.groups()
    mapped = float(size) * UNITS[unit]
    later = max(0.0, whole - mapped)
    return Bounds(mapped * float(lower) / 100, mapped * float(upper) / 100 + later, said.pages.partition(":")[0])


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("far half in huge pages", ["failed", "inconclusive"]),
        ("hot far megabyte", ["failed", "inconclusive"]),
        ("far half bound", ["inconclusive"]),
        ("far half read-only", ["inconclusive"]),
        ("two processes of unlike size", ["failed", "inconclusive"]),
        ("heals", ["failed", "inconclusive", "passed"]),
        ("shared memory of another cgroup", ["failed", "inconclusive"]),
        ("interleaved", ["inconclusive"]),
    ],
)
def test_no_program_with_remote_accesses_passes(name: str, states: Sequence[str], tmp_path: Path) -> None:
    """By half of what it really uses from other nodes. A kernel that samples nothing gets another program to sample."""
    plan = PLANS[name]
    accesses, pages = share_of_accesses(plan) / 2, remote_bytes(plan) / memory(plan) / 2
    with cgroup("numaudit-lab/truth", cpus="0-3", mems="0-3") as group, _file(plan, group):
        for number in range(3):
            (folder := tmp_path / str(number)).mkdir()
            said = judged(plan, folder, accesses, pages)
            found = bounds(said, memory(plan))
            assert said.accesses.startswith("inconclusive: ") and "the accesses were not counted" in said.accesses
            assert "--max-remote-pages judges" in said.accesses or found is None
            if found is not None:
                break
    assert found is not None, f"the kernel sampled nothing: {said}"
    assert found.state in states, said
    assert said.code == (EXIT_FINDINGS if found.state == "failed" else EXIT_INCONCLUSIVE), said
    truth = 0.0 if said.healed is not None else remote_bytes(plan)
    assert found.lower <= truth + SLACK, said
    if plan.heals_after is None:
        assert found.upper >= truth - SLACK, said
    else:
        assert found.state != "passed" or said.healed is not None, said
