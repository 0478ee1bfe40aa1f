"""Does numaudit see what it should? Each source must tell known work on near memory from that on far memory.

Where nothing is far, it is checked that each of the two cgroups gets its own. A busy machine may lose samples or give
the work no CPU time: such a check is made again, and is inconclusive when it is no better then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from numaudit.api.document import CheckState, SelfTestCheck
from numaudit.doctor.demotion import check_demotion
from numaudit.doctor.near_and_far import MIB, Bench, Worker, near_and_far, sample, use_cpu
from numaudit.engine.collectors.probes.hint_faults import require_sampling
from numaudit.errors import NumauditError, Unavailable
from numaudit.evaluation.rates import expected_remote_ratio, share_outside
from numaudit.kernel.cgroup import Reader
from numaudit.kernel.host import Host, explain
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.snapshot import Resident
from numaudit.topology.nodeset import NodeSet

_SLACK = 4 * MIB
"""Bytes that the kernel allocates beside those of the work."""
_INTERPRETER = 15 * MIB
"""Bytes that the working process holds beside those of its work."""
_ALLOWANCE = 0.2
"""Share by which two accounts of CPU time may differ: the kernel's leaves out what a hypervisor took."""
_NEAR_SHARE, _FAR_SHARE = 0.05, 0.95
_PATIENCE = 30.0
"""Seconds for memory.numa_stat to follow: the kernel adds it up every two seconds only
(mm/memcontrol.c, flush_memcg_stats_dwork), and later when it is busy."""
_TRIES = 3
"""Of a check that is inconclusive."""
_PAUSE = 1.0
"""Seconds between two tries: load comes in bursts."""

_ByNode = Mapping[int | None, int] | Mapping[int, int]


def selftest(host: Host) -> tuple[SelfTestCheck, ...]:
    """Run all checks. Raises Unavailable when this host lets us make no cgroups of version 2."""
    with near_and_far(host) as bench:
        return tuple(_try(name, check, bench) for name, check in CHECKS.items())


def _try(name: str, check: Callable[[Bench], SelfTestCheck], bench: Bench) -> SelfTestCheck:
    """Until it is conclusive, or for the last time."""
    try:
        for _ in range(_TRIES - 1):
            result = check(bench)
            if result.state != "inconclusive":
                return result
            time.sleep(_PAUSE)
        return check(bench)
    except (NumauditError, OSError, ValueError) as error:
        return SelfTestCheck(name, "not tried", "", explain(error))


def _check_residency(bench: Bench) -> SelfTestCheck:
    """Both cgroups' bytes are on their nodes, or, unpinned, each has its own amount."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        sizes = {worker.name: _resident(bench, worker).judged for worker in bench.workers}
        passed = all(_has_its_bytes(sizes[worker.name], worker, _INTERPRETER) for worker in bench.workers)
        if passed or time.monotonic() > deadline:
            return _result("residency", _passed(passed), _expected_bytes(bench), sizes)
        time.sleep(0.2)


def _resident(bench: Bench, worker: Worker) -> Resident:
    if not bench.hierarchies.is_v2:
        raise Unavailable(f"cgroup {bench.hierarchies.mode}: cgroups of version 2 do not count memory here")
    path = f"/{worker.group.path.relative_to(bench.hierarchies.memory)}"
    return Reader(bench.hierarchies, page_size=bench.machine.page_size).resident(path)


def _check_page_alloc(bench: Bench) -> SelfTestCheck:
    """Each asks the kernel for its bytes again: they come from its node."""
    before = bench.session.read(PAGE_ALLOC)
    for worker in bench.workers:
        worker.work.order("refill")
    added = bench.session.read(PAGE_ALLOC).since(before)
    sizes = {worker.name: _by_page_node(added.by_node.get(worker.group.id, {})) for worker in bench.workers}
    lost = added.all_lost
    result = _result("page_alloc", _judge_bytes(bench, sizes, was_lost=lost > 0), _expected_bytes(bench), sizes)
    return replace(result, seen=f"{result.seen}; {lost} allocations were not counted") if lost else result


def _check_cpu_time(bench: Bench) -> SelfTestCheck:
    """Only the near one works: its CPU time is what the cgroup itself shows, on the node of its CPUs."""
    found = use_cpu(bench, bench.near)
    near, far = (sum(found.seconds[worker.name].values()) for worker in bench.workers)
    passed = abs(near - found.own_account) < _ALLOWANCE * found.own_account and far < near / 10
    expected = f"near: {found.own_account:.2f} s"
    if bench.near.cpu_node is not None:
        expected += f" on node {bench.near.cpu_node}"
        passed = passed and share_outside(found.seconds["near"], NodeSet.of(bench.near.cpu_node)) == 0
    seen = "; ".join(f"{name}: {_in_seconds(row)}" for name, row in found.seconds.items())
    if found.uncounted:
        seen += f"; {found.uncounted} switches were not counted"
    state = _passed(passed, is_conclusive=found.is_enough and not found.uncounted)
    return SelfTestCheck("cpu_time", state, f"{expected}; far: next to nothing", seen)


def _check_hint_faults(bench: Bench) -> SelfTestCheck:
    """Both use their memory until each has samples enough: near ones are local, far ones remote."""
    require_sampling(bench.host, bench.machine)
    _require_pinned(bench)
    found = sample(bench)
    if found.has_skipped:
        raise Unavailable("this kernel does not sample tasks whose cpuset.mems is one node")
    near, far = (found.remote_share(worker.name) for worker in bench.workers)
    seen = "; ".join(
        f"{one.name}: {_ratio(found.remote_share(one.name), found.count(one.name))}" for one in bench.workers
    )
    if not found.is_enough:
        seen += f"; {found.of_probe} on the whole machine, where the kernel counted {found.of_kernel}"
    passed = _tells_apart(near, far)
    state = _passed(passed, is_conclusive=found.is_enough or found.went_unseen)
    return SelfTestCheck("hint_faults", state, _EXPECTED_SHARES, seen)


def _check_expected(bench: Bench) -> SelfTestCheck:
    """Residence x CPU time: 0 for the near one, 1 for the far one."""
    _require_pinned(bench)
    ratios, is_conclusive = [], True
    for worker in bench.workers:
        found = use_cpu(bench, worker)
        is_conclusive = is_conclusive and found.is_enough and not found.uncounted
        ratios.append(expected_remote_ratio(_resident(bench, worker).judged, found.seconds[worker.name]))
    seen = f"near: {_ratio(ratios[0])}; far: {_ratio(ratios[1])}"
    return SelfTestCheck("expected", _passed(_tells_apart(*ratios), is_conclusive), _EXPECTED_SHARES, seen)


_EXPECTED_SHARES = f"remote share: near below {_NEAR_SHARE:.0%}, far above {_FAR_SHARE:.0%}"

CHECKS: dict[str, Callable[[Bench], SelfTestCheck]] = {
    "residency": _check_residency,
    "page_alloc": _check_page_alloc,
    "cpu_time": _check_cpu_time,
    "hint_faults": _check_hint_faults,
    "expected": _check_expected,
    "demotion": lambda bench: check_demotion(bench.host, bench.machine, bench.hierarchies, bench.near),
}
"""The checks in their order: demotion last, which moves the near one's memory."""


def _passed(passed: bool, is_conclusive: bool = True) -> CheckState:
    """A pass is a pass on any machine; a failure is one only where nothing was lost."""
    if passed:
        return "passed"
    return "failed" if is_conclusive else "inconclusive"


def _judge_bytes(bench: Bench, sizes: Mapping[str, _ByNode], was_lost: bool) -> CheckState:
    """Return passed when each container got its bytes; lost events stand for any number of them.

    What was seen and should not be there fails whatever was lost.
    """
    has_all = True
    for worker in bench.workers:
        row = sizes[worker.name]
        total = sum(row.values())
        there = total if worker.memory_node is None else sum(n for node, n in row.items() if node == worker.memory_node)
        if total - there > _SLACK or total >= worker.work.size + _SLACK:
            return "failed"
        has_all = has_all and there >= worker.work.size
    return _passed(has_all, is_conclusive=not was_lost)


def _require_pinned(bench: Bench) -> None:
    if len(bench.machine.nodes) < 2:
        raise Unavailable("with one node nothing is remote")
    if not bench.is_pinned:
        raise Unavailable("cpuset is not a controller of cgroup version 2 here, so no memory can be placed")


def _has_its_bytes(by_node: _ByNode, worker: Worker, slack: int = _SLACK) -> bool:
    total = sum(by_node.values())
    if worker.memory_node is None:
        return worker.work.size <= total < worker.work.size + slack
    there = {node: size for node, size in by_node.items() if node == worker.memory_node}
    return worker.work.size <= sum(there.values()) and total < worker.work.size + slack


def _expected_bytes(bench: Bench) -> str:
    return "; ".join(
        f"{worker.name}: {worker.work.size // MIB} MiB"
        + ("" if worker.memory_node is None else f" on node {worker.memory_node}")
        for worker in bench.workers
    )


def _by_page_node(pairs: Mapping[tuple[int, int | None], int]) -> dict[int | None, int]:
    sums: dict[int | None, int] = {}
    for (_, page_node), size in pairs.items():
        sums[page_node] = sums.get(page_node, 0) + size
    return sums


def _result(name: str, state: CheckState, expected: str, sizes: Mapping[str, _ByNode]) -> SelfTestCheck:
    return SelfTestCheck(name, state, expected, "; ".join(f"{label}: {_in_mib(row)}" for label, row in sizes.items()))


def _in_mib(row: _ByNode) -> str:
    found = [f"{size / MIB:.1f} MiB on node {'?' if node is None else node}" for node, size in row.items() if size]
    return ", ".join(found) or "nothing"


def _in_seconds(row: Mapping[int, float]) -> str:
    return ", ".join(f"{seconds:.2f} s on node {node}" for node, seconds in row.items()) or "nothing"


def _ratio(ratio: float | None, samples: int | None = None) -> str:
    of = "" if samples is None else f" of {samples} samples"
    return f"no share{of}" if ratio is None else f"{ratio:.1%}{of}"


def _tells_apart(near: float | None, far: float | None) -> bool:
    return near is not None and far is not None and near < _NEAR_SHARE and far > _FAR_SHARE
