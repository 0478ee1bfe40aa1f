"""Measure this machine's memory: every pair of a node with CPUs and a node with memory, one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from numaudit.errors import Unavailable
from numaudit.kernel.cores import read_cores
from numaudit.kernel.host import Host
from numaudit.kernel.node import largest_cache, read_counters, read_machine
from numaudit.pmu.calibration import (
    Calibration,
    Figure,
    Fingerprint,
    PairSpeed,
    PlacementEvidence,
    best_of,
    misplaced,
    notes_on,
)
from numaudit.selftest.memory_speed import SpeedProgram, built, running
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet
from numaudit.value import Timestamp

_LEAST_BYTES, _MOST_BYTES = 128 << 20, 2 << 30
_CACHES = 4
"""As much memory as this many of the largest cache: at most a quarter of the loads then finds its line there."""
_PART_OF_FREE = 4
"""A node gives at most this part of its free memory."""
_MIB = 1 << 20
_HUGE_PAGE = 2 << 20
"""The program uses whole ones."""
_LATENCY_WITHIN, _BANDWIDTH_WITHIN = 0.02, 0.03
Progress = Callable[[str], None]


class _Plan(NamedTuple):
    """Values shared by all pairs."""

    program: Path
    machine: Machine
    size: int
    most_rounds: int
    progress: Progress


def calibrate(host: Host, progress: Progress, most_rounds: int) -> Calibration:
    """Measure all pairs, each figure until it repeats or for `most_rounds`. `progress` is given a line before each.

    Raises Unavailable where nothing can be measured.
    """
    machine = read_machine(host)
    if machine.cpu_problem is not None:
        raise Unavailable(f"no pair of nodes can be measured: {machine.cpu_problem}")
    cache = largest_cache(host)
    size = _size(host, machine, cache)
    with built() as program:
        plan = _Plan(program, machine, size, most_rounds, progress)
        pairs = tuple(_pair(plan, cpu, node) for cpu in machine.with_cpus for node in machine.with_memory)
    if all(pair.latency_ns is None for pair in pairs):
        raise Unavailable(f"no pair of nodes could be measured: {pairs[0].reason}")
    found = Calibration(
        Fingerprint.of(machine, read_cores(host, machine).cpus), size, pairs, measured_at=Timestamp(time.time())
    )
    notes = (*_notes_on_size(size, cache), *_notes_on_pairs(found), *notes_on(found.latencies()))
    return Calibration(found.machine, size, pairs, found.measured_at, notes)


def _size(host: Host, machine: Machine, cache: int | None) -> int:
    """The same for all pairs, so that they can be compared."""
    free = [
        counters.meminfo["MemFree"]
        for counters in read_counters(host, machine.with_memory)
        if counters.meminfo is not None and "MemFree" in counters.meminfo
    ]
    wanted = min(max(_LEAST_BYTES, _CACHES * (cache or 0)), _MOST_BYTES)
    return min([wanted, *(one // _PART_OF_FREE for one in free)]) // _HUGE_PAGE * _HUGE_PAGE


def _notes_on_size(size: int, cache: int | None) -> tuple[str, ...]:
    if cache is None:
        return ("the kernel does not say how large the caches are: part of the loads may have found their line in one",)
    if size >= 2 * cache:
        return ()
    return (
        f"only {size // _MIB} MiB could be used, and the largest cache has {cache // _MIB} MiB: part of the loads "
        "found their line there, so memory is slower than these figures",
    )


def _notes_on_pairs(found: Calibration) -> tuple[str, ...]:
    measured = [pair for pair in found.pairs if pair.evidence is not None]
    notes = []
    if any(pair.evidence is not None and pair.evidence.huge_page_bytes < found.bytes for pair in measured):
        notes.append("not all of the memory was in huge pages: latencies include the walk of page tables")
    figures = [one for pair in measured for one in (pair.latency_ns, pair.bytes_per_second) if one is not None]
    if unstable := sum(not one.is_stable for one in figures):
        notes.append(
            f"{unstable} of {len(figures)} figures did not repeat: the machine is busy; calibrate when it is idle"
        )
    return tuple(notes)


def _pair(plan: _Plan, cpu_node: int, node: int) -> PairSpeed:
    plan.progress(f"from CPUs of node {cpu_node} to memory of node {node}")
    mine = CpuSet.from_ids(os.sched_getaffinity(0))
    cpus = (plan.machine.by_id[cpu_node].cpus or CpuSet()) & mine
    if not cpus:
        return PairSpeed(cpu_node, node, reason=f"this process may run on {mine.in_words} only")
    try:
        with running(plan.program, cpus, node, plan.size) as work:
            return _measured(work, cpu_node, node, plan.most_rounds)
    except Unavailable as error:
        return PairSpeed(cpu_node, node, reason=str(error))


def _measured(work: SpeedProgram, cpu_node: int, node: int, most_rounds: int) -> PairSpeed:
    ran_on: set[int] = set()

    def latency() -> float:
        found = work.latency()
        ran_on.update(found.nodes)
        return found.ns

    def bandwidth() -> float:
        found = work.bandwidth()
        ran_on.update(found.nodes)
        return found.bytes_per_second

    nanoseconds = _until_stable(latency, most_rounds, _LATENCY_WITHIN)
    speed = _until_stable(bandwidth, most_rounds, _BANDWIDTH_WITHIN, highest=True)
    pages = work.evidence()
    evidence = PlacementEvidence(pages.pages, pages.elsewhere, tuple(sorted(ran_on)), pages.huge_page_bytes)
    if (reason := misplaced(evidence, cpu_node, node)) is not None:
        return PairSpeed(cpu_node, node, evidence=evidence, reason=reason)
    return PairSpeed(cpu_node, node, nanoseconds, speed, evidence)


def _until_stable(measure: Callable[[], float], most_rounds: int, within: float, highest: bool = False) -> Figure:
    values = [measure()]
    while not (figure := best_of(values, within, highest)).is_stable and len(values) < most_rounds:
        values.append(measure())
    return figure
