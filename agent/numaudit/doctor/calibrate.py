"""Measure this machine's memory: every pair of a node with CPUs and a node with memory, one after the other."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from numaudit.encoding.value import Timestamp
from numaudit.errors import NumauditError, Unavailable
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
from numaudit.topology.machine import Machine
from numaudit.topology.nodeset import CpuSet

_SOURCE = Path(__file__).with_name("memory_speed.c")
_COMPILERS = ("cc", "gcc", "clang")
_BUILT_WITHIN = 120.0
T = TypeVar("T")


class LatencyRound(msgspec.Struct):
    """One round of following the chain."""

    ns: float
    nodes: tuple[int, ...]
    """Nodes of the CPUs that ran it."""
    end: int
    """Offset in the memory at which the chain was left, in bytes."""


class Bandwidth(msgspec.Struct):
    """One round of reading everything."""

    bytes_per_second: float
    nodes: tuple[int, ...]


class PagePlacement(msgspec.Struct):
    """Pages of the memory by node, those elsewhere, and the size of a page."""

    pages: Mapping[int, int]
    elsewhere: int
    huge_page_bytes: int


class _Ready(msgspec.Struct):
    line: int


@contextmanager
def built() -> Iterator[Path]:
    """The program, for as long as the block lasts. Raises Unavailable where it cannot be built."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise Unavailable(
            f"no C compiler ({', '.join(_COMPILERS)}) to build the measuring program with: install one "
            "(Debian: gcc and libc6-dev), or calibrate another machine of the same kind and copy its file"
        )
    with TemporaryDirectory(prefix="numaudit-calibrate-") as folder:
        program = Path(folder) / "memory_speed"
        command = [compiler, "-O3", "-pthread", "-o", str(program), str(_SOURCE)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_BUILT_WITHIN, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Unavailable(f"{compiler} does not work: {reason}") from error
        if result.returncode:
            last = (result.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise Unavailable(
                f"{compiler} cannot build the measuring program (are the C library's headers there?): {last}"
            )
        yield program


class SpeedProgram(Struct, frozen=True):
    """The program with its memory in place."""

    process: subprocess.Popen[str]
    line: int
    """Bytes of a cache line. Each line of the memory holds one pointer of the chain."""

    def latency(self) -> LatencyRound:
        return self._order("latency", LatencyRound)

    def bandwidth(self) -> Bandwidth:
        return self._order("bandwidth", Bandwidth)

    def evidence(self) -> PagePlacement:
        return self._order("evidence", PagePlacement)

    def _order(self, word: str, answer: type[T]) -> T:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its last words say why
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        return _answer(self.process, answer)


@contextmanager
def running(program: Path, cpus: CpuSet, node: int, size: int) -> Iterator[SpeedProgram]:
    """Start it on these CPUs with `size` bytes on a node; it ends with the block. Raises Unavailable."""
    pipe = subprocess.PIPE
    try:
        command = [str(program), str(cpus), str(node), str(size)]
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    except PermissionError as error:
        raise Unavailable(f"{program} may not be run: set TMPDIR to a folder that is not mounted noexec") from error
    try:
        yield SpeedProgram(process, _answer(process, _Ready).line)
    finally:
        process.kill()
        process.wait()
        for end in (process.stdin, process.stdout, process.stderr):
            assert end is not None
            with suppress(BrokenPipeError):  # an order that the ended process has not read
                end.close()


def _answer(process: subprocess.Popen[str], answer: type[T]) -> T:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise Unavailable(_last_words(process))
    try:
        return msgspec.json.decode(line, type=answer, strict=False)
    except msgspec.DecodeError as error:
        raise NumauditError(f"the measuring program answers {line.strip()!r}: {error}") from error


def _last_words(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = process.stderr.read().strip()
    code = process.wait()
    if said:
        return said
    return "the measuring program ended " + (f"by signal {-code}" if code < 0 else f"with exit code {code}")


_LEAST_BYTES, _MOST_BYTES = 128 << 20, 2 << 30
_CACHES = 4
"""As much memory as this many of the largest cache: at most a quarter of the loads then finds its line there."""
_PART_OF_FREE = 4
"""A node gives at most this part of its free memory."""
_MIB = 1 << 20
_HUGE_PAGE = 2 << 20
"""The program uses whole ones."""
_MOST_ROUNDS = 25
_LATENCY_WITHIN, _BANDWIDTH_WITHIN = 0.02, 0.03
Progress = Callable[[str], None]


class _Plan(NamedTuple):
    """Values shared by all pairs."""

    program: Path
    machine: Machine
    size: int
    progress: Progress


def calibrate(host: Host, progress: Progress) -> Calibration:
    """Measure all pairs, each figure until it repeats or for `_MOST_ROUNDS`. `progress` is given a line before each.

    Raises Unavailable where nothing can be measured.
    """
    machine = read_machine(host)
    if machine.cpu_problem is not None:
        raise Unavailable(f"no pair of nodes can be measured: {machine.cpu_problem}")
    cache = largest_cache(host)
    size = _size(host, machine, cache)
    with built() as program:
        plan = _Plan(program, machine, size, progress)
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
            return _measured(work, cpu_node, node)
    except Unavailable as error:
        return PairSpeed(cpu_node, node, reason=str(error))


def _measured(work: SpeedProgram, cpu_node: int, node: int) -> PairSpeed:
    ran_on: set[int] = set()

    def latency() -> float:
        found = work.latency()
        ran_on.update(found.nodes)
        return found.ns

    def bandwidth() -> float:
        found = work.bandwidth()
        ran_on.update(found.nodes)
        return found.bytes_per_second

    nanoseconds = _until_stable(latency, _LATENCY_WITHIN)
    speed = _until_stable(bandwidth, _BANDWIDTH_WITHIN, highest=True)
    pages = work.evidence()
    evidence = PlacementEvidence(pages.pages, pages.elsewhere, tuple(sorted(ran_on)), pages.huge_page_bytes)
    if (reason := misplaced(evidence, cpu_node, node)) is not None:
        return PairSpeed(cpu_node, node, evidence=evidence, reason=reason)
    return PairSpeed(cpu_node, node, nanoseconds, speed, evidence)


def _until_stable(measure: Callable[[], float], within: float, highest: bool = False) -> Figure:
    values = [measure()]
    while not (figure := best_of(values, within, highest)).is_stable and len(values) < _MOST_ROUNDS:
        values.append(measure())
    return figure
