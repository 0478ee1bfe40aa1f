"""Does numaudit see what it should? Each source must tell known work on near memory from that on far memory.

Where nothing is far, it is checked that each of the two cgroups gets its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from numaudit.collectors.hint_faults import require_sampling
from numaudit.errors import NumauditError, Unavailable
from numaudit.evaluation.access import of_hint_faults
from numaudit.evaluation.rates import expected_remote_ratio, share_outside
from numaudit.kernel.cgroup import Reader
from numaudit.kernel.host import Host, explain, read_text
from numaudit.probes.cpu_time import CPU_TIME
from numaudit.probes.first_touch import FirstTouch
from numaudit.probes.hint_faults import HINT_FAULTS
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.snapshot import Resident, Sampled
from numaudit.workloads.near_and_far import Bench, Worker, near_and_far

_MIB = 1 << 20
_REST = 4 * _MIB
"""What the kernel allocates beside the bytes that the work asks for."""
_INTERPRETER = 15 * _MIB
"""What the process of the work holds beside its bytes."""
_BUSY = 0.4
"""Seconds of CPU time to use, by the cgroup's own account."""
_BUSY_WITHIN = 20.0
_SETTLED = 0.1
_ALLOWANCE = 0.2
"""Share by which two accounts of CPU time may differ: the kernel's leaves out what a hypervisor took."""
_SAMPLES_WITHIN = 20.0
_LEAST_SAMPLES = 1000
_NEAR_SHARE, _FAR_SHARE = 0.05, 0.95
_PATIENCE = 5.0
"""Seconds for memory.numa_stat to follow: the kernel adds it up every few seconds only."""

_ByNode = Mapping[int | None, int] | Mapping[int, int]
_NANOSECONDS = 1_000_000_000
State = Literal["passed", "failed", "not tried"]


@dataclass(frozen=True, slots=True)
class Result:
    """One thing that was checked."""

    name: str
    state: State
    expected: str
    seen: str
    """For what was not tried: why not."""


def selftest(host: Host) -> tuple[Result, ...]:
    """Run all checks. Raises Unavailable when this host lets us make no cgroups of version 2."""
    with near_and_far(host) as bench:
        return tuple(_try(name, check, bench) for name, check in CHECKS.items())


def _try(name: str, check: Callable[[Bench], Result], bench: Bench) -> Result:
    try:
        return check(bench)
    except (NumauditError, OSError, ValueError) as error:
        return Result(name, "not tried", "", explain(error))


def _check_residency(bench: Bench) -> Result:
    """Both cgroups' bytes are on their nodes, or, unpinned, each has its own amount."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        sizes = {worker.name: _resident(bench, worker).judged for worker in bench.workers}
        passed = all(_has_its_bytes(sizes[worker.name], worker, _INTERPRETER) for worker in bench.workers)
        if passed or time.monotonic() > deadline:
            return _result("residency", passed, _expected_bytes(bench), sizes)
        time.sleep(0.2)


def _resident(bench: Bench, worker: Worker) -> Resident:
    if not bench.hierarchies.is_v2:
        raise Unavailable(f"cgroup {bench.hierarchies.mode}: cgroups of version 2 do not count memory here")
    path = f"/{worker.group.path.relative_to(bench.hierarchies.memory)}"
    return Reader(bench.hierarchies, page_size=bench.machine.page_size).resident(path)


def _check_page_alloc(bench: Bench) -> Result:
    """Each asks the kernel for its bytes anew: they are given from its node."""
    before = bench.session.read(PAGE_ALLOC)
    for worker in bench.workers:
        worker.work.order("refill")
    added = bench.session.read(PAGE_ALLOC).since(before)
    sizes = {worker.name: _by_page_node(added.by_node.get(worker.group.id, {})) for worker in bench.workers}
    passed = all(_has_its_bytes(sizes[worker.name], worker) for worker in bench.workers)
    return _result("page_alloc", passed, _expected_bytes(bench), sizes)


def _check_cpu_time(bench: Bench) -> Result:
    """Only the near one works: its CPU time is what the cgroup itself shows, on the node of its CPUs."""
    busy = _measure_cpu_time(bench, bench.near)
    near, far = (sum(busy.seconds[worker.name].values()) for worker in bench.workers)
    passed = abs(near - busy.own_account) < _ALLOWANCE * busy.own_account and far < near / 10
    expected = f"near: {busy.own_account:.2f} s"
    if bench.near.cpu_node is not None:
        expected += f" on node {bench.near.cpu_node}"
        passed = passed and share_outside(busy.seconds["near"], frozenset({bench.near.cpu_node})) == 0
    seen = "; ".join(f"{name}: {_in_seconds(row)}" for name, row in busy.seconds.items())
    return Result("cpu_time", "passed" if passed else "failed", f"{expected}; far: next to nothing", seen)


def _check_hint_faults(bench: Bench) -> Result:
    """Both work until each has samples enough: near ones are local, far ones remote."""
    require_sampling(bench.host, bench.machine)
    _require_pinned(bench)
    before = bench.session.read(HINT_FAULTS)
    for worker in bench.workers:
        worker.work.order("touch")
    deadline = time.monotonic() + _SAMPLES_WITHIN
    while True:
        added = bench.session.read(HINT_FAULTS).since(before)
        faults = {worker.name: added.faults.get(worker.group.id, {}) for worker in bench.workers}
        enough = all(sum(row.values()) >= _LEAST_SAMPLES for row in faults.values())
        if enough or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    for worker in bench.workers:
        worker.work.order("rest")
        _settled(worker)
    skipped = [worker.name for worker in bench.workers if added.skipped.get(worker.group.id)]
    if skipped:
        raise Unavailable("this kernel does not sample tasks whose cpuset.mems is one node")
    near, far = (of_hint_faults(Sampled(faults[worker.name], False), None) for worker in bench.workers)
    seen = f"near: {_ratio(near.remote_ratio, near.samples)}; far: {_ratio(far.remote_ratio, far.samples)}"
    passed = _tells_apart(near.remote_ratio, far.remote_ratio)
    return Result("hint_faults", "passed" if passed else "failed", _EXPECTED_SHARES, seen)


def _check_first_touch(bench: Bench) -> Result:
    """Each asks for its bytes anew: every page is first used on its node, one sample for each."""
    probe = FirstTouch(bench.host, period=1)
    try:
        before = probe.read()
        for worker in bench.workers:
            worker.work.order("refill")
            after = probe.read()  # a ring holds some 10,000 samples
        added = after.since(before)
    finally:
        probe.close()
    page = bench.machine.page_size
    sizes = {
        worker.name: _by_page_node({pair: n * page for pair, n in added.samples.get(worker.group.id, {}).items()})
        for worker in bench.workers
    }
    passed = all(_has_its_bytes(sizes[worker.name], worker) for worker in bench.workers)
    result = _result("first_touch", passed, _expected_bytes(bench), sizes)
    return replace(result, seen=f"{result.seen}; {added.lost} samples were lost") if added.lost else result


def _check_expected(bench: Bench) -> Result:
    """Residence x CPU time: 0 for the near one, 1 for the far one."""
    _require_pinned(bench)
    ratios = []
    for worker in bench.workers:
        seconds = _measure_cpu_time(bench, worker).seconds[worker.name]
        ratios.append(expected_remote_ratio(_resident(bench, worker), seconds))
    seen = f"near: {_ratio(ratios[0])}; far: {_ratio(ratios[1])}"
    return Result("expected", "passed" if _tells_apart(*ratios) else "failed", _EXPECTED_SHARES, seen)


_EXPECTED_SHARES = f"remote share: near below {_NEAR_SHARE:.0%}, far above {_FAR_SHARE:.0%}"

CHECKS: dict[str, Callable[[Bench], Result]] = {
    "residency": _check_residency,
    "page_alloc": _check_page_alloc,
    "first_touch": _check_first_touch,
    "cpu_time": _check_cpu_time,
    "hint_faults": _check_hint_faults,
    "expected": _check_expected,
}
"""What is checked, in this order: first uses of pages before the work for NUMA balancing, whose faults count too."""


@dataclass(frozen=True, slots=True)
class _Busy:
    """CPU time while one of them worked."""

    seconds: Mapping[str, Mapping[int, float]]
    """As the probe counted it: name of the worker -> node -> seconds."""
    own_account: float
    """Of the busy one, by its cpu.stat."""


def _measure_cpu_time(bench: Bench, busy: Worker) -> _Busy:
    before, own_before = bench.session.read(CPU_TIME), _own_account(busy)
    busy.work.order("touch")
    deadline = time.monotonic() + _BUSY_WITHIN
    while _own_account(busy) - own_before < _BUSY and time.monotonic() < deadline:
        time.sleep(0.02)
    busy.work.order("rest")
    own_account = _settled(busy) - own_before
    added = bench.session.read(CPU_TIME).since(before)
    rows = {worker.name: added.by_node.get(worker.group.id, {}) for worker in bench.workers}
    seconds = {name: {node: ns / _NANOSECONDS for node, ns in row.items()} for name, row in rows.items()}
    return _Busy(seconds, own_account)


def _settled(worker: Worker) -> float:
    """Its account once it grows no more: a thread finishes its round before it rests."""
    last = -1.0
    while (now := _own_account(worker)) != last:
        last = now
        time.sleep(_SETTLED)
    return now


def _own_account(worker: Worker) -> float:
    """Seconds of CPU time of the cgroup by the kernel's scheduler. Raises OSError, Unavailable."""
    words = read_text(worker.group.path / "cpu.stat").split()
    if "usage_usec" not in words:
        raise Unavailable(
            f"{worker.group.path}/cpu.stat does not tell the CPU time, so there is nothing to compare with"
        )
    return int(words[words.index("usage_usec") + 1]) / 1_000_000


def _require_pinned(bench: Bench) -> None:
    if len(bench.machine.nodes) < 2:
        raise Unavailable("with one node nothing is remote")
    if not bench.is_pinned:
        raise Unavailable("cpuset is no controller of cgroup version 2 here, so no memory can be placed")


def _has_its_bytes(by_node: _ByNode, worker: Worker, rest: int = _REST) -> bool:
    total = sum(by_node.values())
    if worker.memory_node is None:
        return worker.work.size <= total < worker.work.size + rest
    there = {node: size for node, size in by_node.items() if node == worker.memory_node}
    return worker.work.size <= sum(there.values()) and total < worker.work.size + rest


def _expected_bytes(bench: Bench) -> str:
    return "; ".join(
        f"{worker.name}: {worker.work.size // _MIB} MiB"
        + ("" if worker.memory_node is None else f" on node {worker.memory_node}")
        for worker in bench.workers
    )


def _by_page_node(pairs: Mapping[tuple[int, int | None], int]) -> dict[int | None, int]:
    sums: dict[int | None, int] = {}
    for (_, page_node), size in pairs.items():
        sums[page_node] = sums.get(page_node, 0) + size
    return sums


def _result(name: str, passed: bool, expected: str, sizes: Mapping[str, _ByNode]) -> Result:
    return Result(
        name,
        "passed" if passed else "failed",
        expected,
        "; ".join(f"{label}: {_in_mib(row)}" for label, row in sizes.items()),
    )


def _in_mib(row: _ByNode) -> str:
    found = [f"{size / _MIB:.1f} MiB on node {'?' if node is None else node}" for node, size in row.items() if size]
    return ", ".join(found) or "nothing"


def _in_seconds(row: Mapping[int, float]) -> str:
    return ", ".join(f"{seconds:.2f} s on node {node}" for node, seconds in row.items()) or "nothing"


def _ratio(ratio: float | None, samples: int | None = None) -> str:
    of = "" if samples is None else f" of {samples} samples"
    return f"no share{of}" if ratio is None else f"{ratio:.1%}{of}"


def _tells_apart(near: float | None, far: float | None) -> bool:
    return near is not None and far is not None and near < _NEAR_SHARE and far > _FAR_SHARE
