"""Pages that NUMA balancing sees used: bytes and bounds, and never a share of accesses.

A fault says that a page was used from a node in a scan pass. How often, no pass can tell: a megabyte that is used nine
times as often as fifteen others counts as one of sixteen.
"""

from __future__ import annotations

from collections.abc import Mapping

from numaudit.counted import PagesUsed, Sampled
from numaudit.evaluation.access import Access, RemoteUse, SampledPages, Source
from numaudit.evaluation.sources.base import AccessEvidence, AccessPair, SourceResult
from numaudit.evaluation.window import Window
from numaudit.snapshot import Snapshot

STRAY_SHARE = 0.01
"""A node with at most this share of a container's CPU time and of its uses counts as one where it does not run."""
RAN = 0.1
"""Seconds of CPU time in a tick that tell where a container runs."""
_NO_FAULTS = Sampled({})


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


def _access(used: PagesUsed, evidence: AccessEvidence) -> Access:
    grown = evidence.grown
    if grown is not None and sum(grown.values()) >= RAN:  # else where it runs now is not known, or it hardly ran at all
        remote = {pair: size for pair, size in used.remote.items() if size and grown.get(pair[0], 0.0) > 0.0}
    else:
        remote = {pair: size for pair, size in used.remote.items() if size}
    remote_bytes, local_bytes = sum(remote.values()), sum(used.local.values())
    seen_in_all = sum(used.remote.values()) + local_bytes + used.home
    memory = _memory(used, evidence)
    if memory is not None:
        memory = max(memory, seen_in_all)
    pages = SampledPages(
        tuple([RemoteUse(*pair, size) for pair, size in sorted(remote.items(), key=_most_first)]),
        remote_bytes,
        local_bytes,
        used.home,
        memory,
        None if not memory else min(1.0, seen_in_all / memory),
        used.is_whole,
    )
    seen = remote_bytes + local_bytes
    ratio = remote_bytes / seen if seen else None
    lower = upper = None
    if memory:
        lower = min(1.0, remote_bytes / memory)
        if used.mapped is not None and len(_users(used, evidence.ran)) == 1:
            upper = max(lower, 1 - local_bytes / memory)
    reason = None if seen else "all pages that were sampled were brought home by their use"
    return Access("hint_faults", "pages", ratio, lower, upper, reason=reason, age=used.age, pages=pages)


def _most_first(use: tuple[tuple[int, int], int]) -> tuple[int, tuple[int, int]]:
    pair, size = use
    return -size, pair


def _memory(used: PagesUsed, evidence: AccessEvidence) -> int | None:
    """Bytes that it may use."""
    resident = evidence.snapshot.residency.get(evidence.container)
    if used.mapped is not None:
        return used.mapped
    if resident is None or resident.anon is None:
        return None
    return sum(resident.sum_of(("anon", "shmem", "file", "hugetlb")).values())


def _users(used: PagesUsed, ran: Mapping[int, float]) -> set[int]:
    """The nodes that it runs on. With two or more, a page of one may be used from the other as well, unseen: a page
    faults once in a pass, for the thread that comes first.
    """
    uses: Mapping[int, float] = used.local
    if used.remote:
        uses = by_user = {**uses}
        for (cpu_node, _), size in used.remote.items():
            by_user[cpu_node] = by_user.get(cpu_node, 0) + size
    return _more_than_stray(uses) | _more_than_stray(ran)


def _more_than_stray(by_node: Mapping[int, float]) -> set[int]:
    if len(by_node) == 1:
        return {node for node, part in by_node.items() if part > 0}
    stray = STRAY_SHARE * sum(by_node.values())
    return {node for node, part in by_node.items() if part > stray}
