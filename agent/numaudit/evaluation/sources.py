"""Sources of memory accesses, the best first: what each says of one container.

What the processor counts is exact but for what is made up for where counters were shared. Hint faults give a least
number of bytes, and never a share of accesses: a fault says that a page was used from a node in a scan pass, not how
often; and of what was not seen used from another node nothing follows. The expectation is no measurement: as if every
byte were used equally from wherever the CPUs ran. Where processes were read it is the sum over them: two ranks, each
with all its memory and CPU time on a node of its own, expect no remote access; of the container as a whole half of
them would be expected.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from numaudit.evaluation.access import Access, Counted, RemoteUse, UsedRemotely
from numaudit.evaluation.causes.placement import used_bytes
from numaudit.evaluation.rates import Window, distance_ratio, expected_remote_ratio, increase
from numaudit.evaluation.verdicts import Thresholds
from numaudit.snapshot import ContainerId, Snapshot
from numaudit.snapshot.counted import CountBasis, CountedAccesses, ProcessAccesses, Sampled, SeenRemote
from numaudit.snapshot.processes import ContainerProcesses, ProcessPlacement
from numaudit.topology.nodeset import NodeSet

LEAST_ACCESSES = 10_000
"""With fewer no share is made of them: they are those of a program that hardly uses memory."""
_MOSTLY = 0.9
"""Counters that ran for less of the time were shared with others, and the rest of the count is made up for."""
_HELD = "the counters never ran while it did: others hold them, such as the NMI watchdog or a profiler"
_NOT_WATCHED = "it is not on the watch list now, which keeps the probes within their budget"
_NO_FAULTS = Sampled({})
_NONE_SEEN = "no use from another node was seen, which proves nothing"
_NOTHING = "it did not run, or holds no memory"


class AccessEvidence(Struct, frozen=True):
    """Evidence by which the accesses of one container are judged."""

    snapshot: Snapshot
    container: ContainerId
    before: Snapshot | None
    """The previous tick; None = all that was counted is of now."""
    thresholds: Thresholds


def accesses_of(evidence: AccessEvidence, lately: Window[bool]) -> tuple[tuple[Access, ...], Window[bool]]:
    """What the sources say that were measured in this tick, the best first; and the counts for the next tick.

    `lately`: counted accesses of the ticks before, by whether they were remote. A new source is its function here.
    """
    counted, lately = _counted(evidence, lately)
    found = (counted, _hint_faults(evidence), _expected(evidence))
    return tuple([one for one in found if one is not None]), lately


def _counted(evidence: AccessEvidence, lately: Window[bool]) -> tuple[Access | None, Window[bool]]:
    """None where it was not counted in both ticks, or the container has not run."""
    snapshot, before = evidence.snapshot, evidence.before
    now = None if snapshot.pmu is None else snapshot.pmu.get(evidence.container)
    if now is None or (before is not None and before.pmu is None):
        return None, lately
    earlier = None if before is None or before.pmu is None else before.pmu.get(evidence.container)
    times = increase(_times(now), None if earlier is None else _times(earlier))
    running = times["running"] / times["enabled"] if times["enabled"] else None
    missing = _NOT_WATCHED if not now.is_watched else _HELD if running == 0 else None
    added: dict[bool, int] = {}
    if missing is None:
        for (_, locality), count in increase(now.by_node, None if earlier is None else earlier.by_node).items():
            added[locality == "remote"] = added.get(locality == "remote", 0) + count
    lately = lately.after(added, snapshot.taken_at, evidence.thresholds.window)
    age = lately.age if lately.total else None
    return _share(now.basis, running, missing, lately.total, lately.amounts.get(True, 0), age), lately


def _times(counted: CountedAccesses) -> dict[str, int]:
    return {"enabled": counted.enabled_ns, "running": counted.running_ns}


def _share(
    basis: CountBasis, running: float | None, missing: str | None, total: float, remote: float, age: float | None
) -> Access:
    """The remote share of counted accesses, or why they say none. `running`: share of its CPU time in which the
    counters ran since the previous tick; None = it did not run.
    """
    is_multiplexed = running is not None and running < _MOSTLY
    said = Counted(round(total), round(remote), basis.unit, basis.set, basis.includes_prefetch, is_multiplexed)
    found = Access("pmu", "accesses", None, age=age, counted=said)
    if total >= LEAST_ACCESSES:
        ratio = remote / total
        return replace(found, remote_ratio=ratio, lower=ratio, upper=ratio)
    few = f"{int(total)} counted accesses are too few; at least {LEAST_ACCESSES} are needed"
    return replace(found, reason=missing or few)


def share_of_process(accesses: ProcessAccesses | None, pid: int) -> Access | None:
    """The remote share of a process's counted accesses, or why it is not known; None = it did not run, or nobody
    counted."""
    if accesses is None or accesses.basis is None:
        return None
    found = accesses.counted.get(pid)
    if found is None:
        reason = accesses.uncounted.get(pid)
        return None if reason is None else Access("pmu", "accesses", None, reason=reason)
    if not found.enabled_ns:
        return None
    running = found.running_ns / found.enabled_ns
    missing = None if running else _HELD
    return _share(accesses.basis, running, missing, found.local + found.remote, found.remote, None)


def _hint_faults(evidence: AccessEvidence) -> Access | None:
    """Result of the newest passes. Nothing is remembered here: a pass holds until the next one is through."""
    if evidence.snapshot.hint_faults is None:
        return None
    sampled = evidence.snapshot.hint_faults.get(evidence.container, _NO_FAULTS)
    if sampled.used is None:
        return Access("hint_faults", "pages", None, reason=_why_unseen(sampled))
    return _seen(sampled.used, evidence)


def _why_unseen(sampled: Sampled) -> str:
    if not sampled.is_scanned:
        return "the kernel does not sample tasks whose cpuset.mems is one node"
    if not sampled.is_watched:
        return _NOT_WATCHED
    if not sampled.knows_passes:
        return (
            "this kernel's BTF does not say in which scan pass a page faulted (mm_struct.numa_scan_seq), so a page "
            "that was sampled twice looks like two"
        )
    if sampled.faults:
        return (
            "no scan pass of the last hour is known of its processes: those that were sampled have ended, or the map "
            "of the probe had no room for them"
        )
    return "no page of it was sampled yet"


def _seen(used: SeenRemote, evidence: AccessEvidence) -> Access:
    machine = evidence.snapshot.machine
    uses = [
        RemoteUse(cpu_node, node, size)
        for (cpu_node, node), size in used.by_pair.items()
        if size and cpu_node not in machine.cpu_nodes_of(NodeSet.of(node))  # no CPU is nearer to CXL or HBM memory
    ]
    if not uses:
        return Access("hint_faults", "pages", None, 0.0, reason=_NONE_SEEN)
    by_pair = tuple(sorted(uses, key=lambda one: (-one.bytes, one.cpu_numa_node, one.numa_node)))
    memory = _memory(used, evidence)
    at_least = sum(one.bytes for one in uses)
    pages = UsedRemotely(at_least, by_pair, memory, used.passes_since)
    lower = min(1.0, at_least / memory) if memory else None
    return Access("hint_faults", "pages", None, lower, age=used.age, used_remotely=pages)


def _memory(used: SeenRemote, evidence: AccessEvidence) -> int | None:
    """Bytes that it may use."""
    resident = evidence.snapshot.residency.get(evidence.container)
    if used.mapped is not None:
        return used.mapped
    if resident is None or resident.anon is None:
        return None
    return sum(resident.sum_of(("anon", "shmem", "file", "hugetlb")).values())


class ExpectedByProcess(Struct, frozen=True):
    """Sums over the processes of a container."""

    remote_ratio: float | None
    """None = unknown, or none of them ran."""
    distance_ratio: float | None
    unknown: str | None
    """Reason why the processes do not say it; None = they do."""


def expected_of(process: ProcessPlacement) -> float | None:
    """Share of its accesses that would be remote if it used every byte equally from wherever its threads ran."""
    return None if process.judged is None else expected_remote_ratio(process.judged, process.ran)


def expected_by_process(found: ContainerProcesses, distances: Mapping[int, Mapping[int, int]]) -> ExpectedByProcess:
    """Each process weighs as much as its CPU time. One without memory of its own, or that did not run, weighs nothing.

    Unknown where a process that may have run was not read.
    """
    unknown = _why_unknown(found)
    if unknown is not None:
        return ExpectedByProcess(None, None, unknown)
    total = remote = distance = 0.0
    has_distances = True
    for process in found.processes:
        memory, ran = process.judged or {}, process.ran
        expected, far = expected_remote_ratio(memory, ran), distance_ratio(memory, ran, distances)
        if expected is None:
            continue
        seconds = sum(ran.values())
        total += seconds
        remote += seconds * expected
        has_distances &= far is not None
        distance += seconds * (far or 0.0)
    if not total:
        return ExpectedByProcess(None, None, None)
    return ExpectedByProcess(remote / total, distance / total if has_distances else None, None)


def _why_unknown(found: ContainerProcesses) -> str | None:
    if found.unread is not None:
        return f"{found.alive - len(found.processes)} of {found.alive} processes were not read: {found.unread}"
    for process in found.processes:
        for part in process.unread:
            if part.what in ("status", "threads") or (part.what == "mappings" and process.ran):
                return f"{part.what} of process {process.pid} were not read: {part.reason}"
    return None


def _expected(evidence: AccessEvidence) -> Access | None:
    """By its processes where they were read, else of the container as a whole. None where residence or CPU time is not
    known.
    """
    snapshot, container = evidence.snapshot, evidence.container
    processes = snapshot.processes.get(container)
    found = None if processes is None else expected_by_process(processes, snapshot.machine.distances)
    if found is not None and found.unknown is None:
        ratio = found.remote_ratio
    else:
        resident, ran = snapshot.residency.get(container), snapshot.ran(container)
        if resident is None or ran is None:
            return None
        ratio = expected_remote_ratio(used_bytes(snapshot, container, resident), ran)
    return Access("expected", "expectation", ratio, reason=_NOTHING if ratio is None else None)
