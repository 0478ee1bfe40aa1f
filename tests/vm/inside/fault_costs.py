"""What counting a NUMA hint fault costs, run in the guest by tests/vm/bench_hint_faults.py.

The guest is emulated (TCG), so no nanosecond here is a real one. What can be said is how many times an empty program on
the same hook, and how many times page_alloc, the counting takes; nanoseconds of real silicon are in
tests/bench/bench_bpf.py.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf, perf_event
from numaudit.kernel.tracing.bpf import ProgramType
from numaudit.probes import hint_faults, page_alloc
from numaudit.probes.hint_faults import FUNCTION, HintFaultsProbe
from numaudit.probes.loading import function_entry, loader
from numaudit.probes.loading.function_entry import WAYS, Way
from numaudit.probes.loading.loader import BpfProgram, LoadedProbe, ProbeRequest
from numaudit.probes.page_alloc import PageAlloc
from numaudit.probes.reasons import ProbeRefusal
from workload import MIB, cgroup, worker

HOST = Host()
TRACEPOINT = "kmem:mm_page_alloc"
EMPTY = """
int empty_at_kprobe(u64 *registers) { return 0; }
int empty_at_fentry(u64 *arguments) { return 0; }
int empty_tracepoint(struct tracepoint__kmem__mm_page_alloc *args) { return 0; }
"""
RUNS = 4000
REPETITIONS = 3
ROUNDS = 8
SECONDS = 2


def main() -> None:
    with ExitStack() as stack:
        loaded = _load(stack)
        figures: dict[str, list[float]] = {}
        for _ in range(REPETITIONS):
            for way in WAYS:
                figures.setdefault(f"{way}, empty", []).append(_per_fault(partial(_empty, loaded["empty"], way)))
                counting = partial(_hint_faults, loaded["hint_faults"], way)
                figures.setdefault(way, []).append(_per_fault(counting))
            empty, counted = _per_page(loaded)
            figures.setdefault("allocation, empty", []).append(empty)
            figures.setdefault("allocation", []).append(counted)
        for name, times in figures.items():
            print(f"{name:18} {min(times):6.0f} ns (all: {' '.join(f'{one:.0f}' for one in times)})", flush=True)
        net = {name: min(figures[name]) - min(figures[f"{name}, empty"]) for name in (*WAYS, "allocation")}
        for way in WAYS:
            ratio = net[way] / net["allocation"]
            print(f"net of the empty program, a hint fault by {way} takes {ratio:.2f} x an allocation")
        _use_memory(loaded["hint_faults"])


def _load(stack: ExitStack) -> dict[str, LoadedProbe]:
    with tempfile.NamedTemporaryFile("w", suffix=".bpf.c") as text:
        text.write(EMPTY)
        text.flush()
        types = function_entry.read_btf(HOST)
        assert not isinstance(types, ProbeRefusal), types
        entry = function_entry.programs("empty", FUNCTION, types.function(FUNCTION))
        programs = (*entry.wanted, BpfProgram("empty_tracepoint", ProgramType.TRACEPOINT, TRACEPOINT))
        requests = [ProbeRequest("empty", programs, (), source=Path(text.name))]
        requests += [one.request(HOST, 100, 16) for one in (hint_faults, page_alloc)]
        loaded = loader.load(requests)
    stack.callback(loader.close, loaded)
    outcomes = {}
    for name, outcome in loaded.items():
        assert isinstance(outcome, LoadedProbe), outcome
        outcomes[name] = outcome
    return outcomes


@contextmanager
def _empty(loaded: LoadedProbe, way: Way) -> Iterator[int]:
    attached = function_entry.attach(HOST, loaded, "empty", FUNCTION, (way,))
    try:
        yield loaded.programs[function_entry.program_name("empty", way)]
    finally:
        os.close(attached.descriptor)


@contextmanager
def _hint_faults(loaded: LoadedProbe, way: Way) -> Iterator[int]:
    with closing(HintFaultsProbe(HOST, _copy(loaded), (way,))):
        yield loaded.programs[function_entry.program_name("hint_faults", way)]


def _per_fault(attached: Callable[[], AbstractContextManager[int]]) -> float:
    """Nanoseconds of the program for each of some thousand faults, by the kernel's account."""
    counting = os.fdopen(bpf.count_run_time())
    with attached() as program, cgroup("numaudit-bench", cpus="0", mems="1") as group, counting:
        before = spent = bpf.read_run_time([program])
        while (spent - before).runs < RUNS:  # a worker after the other: the kernel scans a new process soon
            with worker(group, 16 * MIB, threads=2) as running:
                running.order("touch")
                end = time.monotonic() + 8
                while time.monotonic() < end and (spent - before).runs < RUNS:
                    time.sleep(0.1)
                    spent = bpf.read_run_time([program])
    return (spent - before).nanoseconds / (spent - before).runs


def _per_page(loaded: Mapping[str, LoadedProbe]) -> tuple[float, float]:
    """The same for each page given: an empty program, then page_alloc."""
    program = loaded["empty"].programs["empty_tracepoint"]
    number = loaded["empty"].tracepoint_ids[TRACEPOINT]
    with os.fdopen(perf_event.open_event(perf_event.tracepoint(number), cpu=0)) as event:
        perf_event.set_program(event.fileno(), program)
        perf_event.enable(event.fileno())
        empty = _refill(program)
    with closing(PageAlloc(HOST, _copy(loaded["page_alloc"]))):
        return empty, _refill(loaded["page_alloc"].programs["page_alloc_on_mm_page_alloc"])


def _refill(program: int) -> float:
    counting = os.fdopen(bpf.count_run_time())
    with cgroup("numaudit-bench", cpus="0", mems="0") as group, worker(group, 32 * MIB) as running, counting:
        before = bpf.read_run_time([program])
        running.order("refill")
        spent = bpf.read_run_time([program]) - before
    assert spent.runs >= 32 * MIB // mmap.PAGESIZE
    return spent.nanoseconds / spent.runs


def _use_memory(loaded: LoadedProbe) -> None:
    """How much longer this process takes, doing nothing but use memory of another node, with its faults counted."""
    with closing(HintFaultsProbe(HOST, _copy(loaded))) as probe, cgroup("numaudit-bench", cpus="0", mems="1") as group:
        group.write("cgroup.procs", str(os.getpid()))
        try:
            _use_by_turns(probe)
        finally:
            (group.path.parent / "cgroup.procs").write_text(str(os.getpid()))


def _use_by_turns(probe: HintFaultsProbe) -> None:
    times: dict[bool, list[float]] = {True: [], False: []}
    faults = 0
    with mmap.mmap(-1, 16 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        pages.madvise(mmap.MADV_NOHUGEPAGE)
        start = ctypes.c_char.from_buffer(pages)
        for turn in range(2 * ROUNDS):
            is_counted = turn % 2 == 0
            if is_counted:
                probe.resume()
            else:
                probe.pause()
            before, begin, rounds = probe.read(), time.thread_time(), 0
            while time.thread_time() < begin + SECONDS:
                ctypes.memset(ctypes.addressof(start), 1, len(pages))
                rounds += 1
            times[is_counted].append((time.thread_time() - begin) / rounds)
            faults += probe.read().since(before).events
        del start  # it keeps the mapping open
    counted, bare = (statistics.median(times[is_counted]) for is_counted in (True, False))
    rate = faults / ROUNDS / SECONDS
    print(f"use of 16 MiB, {rate:.0f} faults/s: {counted * 1e3:.2f} ms a round, {bare * 1e3:.2f} without the probe")


def _copy(probe: LoadedProbe) -> LoadedProbe:
    """Descriptors of its own, for a probe that closes them."""
    programs = {name: os.dup(descriptor) for name, descriptor in probe.programs.items()}
    maps = {name: os.dup(descriptor) for name, descriptor in probe.maps.items()}
    return replace(probe, programs=programs, maps=maps)


if __name__ == "__main__":
    main()
