"""Memory that NUMA balancing saw used from another node: a least number of bytes, and never a share of accesses.

A fault says that a page was used from a node in a scan pass. How often, no pass can tell; and of what was not seen used
from another node nothing follows.
"""

from __future__ import annotations

from numaudit.evaluation.access import Access, RemoteUse, Source, UsedRemotely
from numaudit.evaluation.rates import Window
from numaudit.evaluation.sources.base import AccessEvidence, AccessPair, SourceResult
from numaudit.snapshot import Snapshot
from numaudit.snapshot.counted import Sampled, SeenRemote
from numaudit.topology.nodeset import NodeSet

_NO_FAULTS = Sampled({})
_NONE_SEEN = "no use from another node was seen, which proves nothing"


class HintFaults:
    """The kernel's NUMA hint faults."""

    name: Source = "hint_faults"

    def runs(self, snapshot: Snapshot) -> bool:
        return snapshot.hint_faults is not None

    def say(self, evidence: AccessEvidence, window: Window[AccessPair]) -> SourceResult:
        """Result of the newest passes. Nothing is remembered here: a pass holds until the next one is through."""
        sampled = (evidence.snapshot.hint_faults or {}).get(evidence.container, _NO_FAULTS)
        if sampled.used is None:
            return SourceResult(Access("hint_faults", "pages", None, reason=_why_unseen(sampled)), window)
        return SourceResult(_access(sampled.used, evidence), window)


def _why_unseen(sampled: Sampled) -> str:
    if not sampled.is_scanned:
        return "the kernel does not sample tasks whose cpuset.mems is one node"
    if not sampled.is_watched:
        return "it is not on the watch list now, which keeps the probes within their budget"
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


def _access(used: SeenRemote, evidence: AccessEvidence) -> Access:
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
