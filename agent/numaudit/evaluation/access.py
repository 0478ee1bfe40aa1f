"""From where is memory used? What each source says of it, with its uncertainty.

The sources and their fallback order are those of doctor/sources.py. A sampled share has a confidence interval; one
that the samples cannot give fairly has none, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from msgspec import Struct

from numaudit.evaluation.rates import expected_remote_ratio, increase
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.snapshot import Container, ContainerId, HintFault, Sampled, Snapshot

Source = Literal["hint_faults", "first_touch", "expected"]
_Z = 1.959964
"""Of the normal distribution, for 95 %."""
DESIGN_EFFECT = 2.0
"""Samples come in bursts: this many weigh as much as one independent sample."""
_NO_FAULTS: Mapping[HintFault, int] = {}


class Access(Struct, frozen=True):
    """What one source says of one container's accesses since the previous tick, or since it began to measure."""

    source: Source
    remote_ratio: float | None
    """Share that was on another node: of accesses where it is expected, of sampled pages where it is measured.
    null = this source cannot give a fair figure."""
    lower: float | None = None
    upper: float | None = None
    """Bounds of the 95 % confidence interval; null for a source that does not sample."""
    samples: int | None = None
    remote_samples: int | None = None
    reason: str | None = None
    """Why there is no ratio."""


@dataclass(frozen=True, slots=True)
class RemoteShare:
    """The measured share of remote accesses, with its confidence interval."""

    source: str
    lower: float
    upper: float


def wilson(part: int, whole: int, design_effect: float = DESIGN_EFFECT) -> tuple[float, float]:
    """95 % confidence interval of a share, from `part` of `whole` samples.

    With `design_effect` 1 the samples are independent. Source: E. B. Wilson, 1927.
    """
    if not whole:
        return 0.0, 1.0
    n, p = whole / design_effect, part / whole
    centre = (p + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z / (1 + _Z * _Z / n) * sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def accesses(
    snapshot: Snapshot, container: Container, before: Snapshot | None = None, thresholds: Thresholds = DEFAULT
) -> tuple[Access, ...]:
    """What each source says of a container: those that measure, the best first, then what is to be expected."""
    found = _measured(snapshot, container, before, thresholds)
    resident = snapshot.residency.get(container.id)
    if resident is not None and snapshot.cpu_time is not None:
        ratio = expected_remote_ratio(resident, snapshot.cpu_time.get(container.id, {}))
        reason = None if ratio is not None else "it did not run, or holds no memory"
        found.append(Access("expected", ratio, reason=reason))
    return tuple(found)


def _measured(
    snapshot: Snapshot, container: Container, before: Snapshot | None, thresholds: Thresholds
) -> list[Access]:
    """A source that was paused at the previous tick has nothing to compare with, and says nothing yet."""
    found = []
    sampled = _sampled(snapshot, container.id)
    if sampled is not None:
        earlier = None if before is None else _sampled(before, container.id)
        if before is None or earlier is not None:
            found.append(of_hint_faults(sampled, earlier, thresholds))
    if snapshot.first_touch is not None:
        if before is None:
            found.append(of_first_touch(snapshot.first_touch.get(container.id, {}), None, thresholds))
        elif before.first_touch is not None:
            past = before.first_touch.get(container.id, {})
            found.append(of_first_touch(snapshot.first_touch.get(container.id, {}), past, thresholds))
    return found


def of_hint_faults(now: Sampled, before: Sampled | None, thresholds: Thresholds = DEFAULT) -> Access:
    """The remote share by hint faults, where it is fair: each sample stands for a page, not for how often it was used.

    Of a process with one thread the kernel takes no local samples of its private memory, so the share that its
    samples show says nothing.
    """
    faults = increase(now.faults, None if before is None else before.faults)
    samples = sum(faults.values())
    remote = sum(count for fault, count in faults.items() if fault.is_remote)
    reason = _why_unfair(now, samples, thresholds)
    if reason is not None:
        return Access("hint_faults", None, samples=samples, remote_samples=remote, reason=reason)
    return Access("hint_faults", remote / samples, *wilson(remote, samples), samples, remote)


def of_first_touch(
    now: Mapping[tuple[int, int | None], int],
    before: Mapping[tuple[int, int | None], int] | None,
    thresholds: Thresholds = DEFAULT,
) -> Access:
    """The share of pages that came into being on another node than that of the CPU which first used them."""
    pairs = increase(now, before)
    samples = sum(count for (_, page_node), count in pairs.items() if page_node is not None)
    remote = sum(count for (cpu_node, page_node), count in pairs.items() if page_node not in (None, cpu_node))
    if samples < thresholds.access_samples:
        reason = f"{samples} samples are too few; at least {thresholds.access_samples} are needed"
        return Access("first_touch", None, samples=samples, remote_samples=remote, reason=reason)
    return Access("first_touch", remote / samples, *wilson(remote, samples), samples, remote)


def _why_unfair(sampled: Sampled, samples: int, thresholds: Thresholds) -> str | None:
    if not sampled.is_scanned:
        return "the kernel does not sample tasks whose cpuset.mems is one node"
    if not sampled.is_watched:
        return "it is not on the watch list now, which keeps the probes within their budget"
    if samples < thresholds.access_samples:
        return f"{samples} samples are too few; at least {thresholds.access_samples} are needed"
    if sampled.single_threaded is None:
        return "how many threads its processes have is not known, and those with one have no local samples"
    if sampled.single_threaded:
        return "a process of it has one thread only, and of such the kernel takes no local samples"
    return None


def remote_shares(accesses: Mapping[ContainerId, Iterable[Access]]) -> dict[ContainerId, RemoteShare]:
    """By container: the remote share of the best source that measures one.

    An expected ratio is not a measurement, and a page's first use says nothing about later ones.
    """
    shares = {}
    for container, found in accesses.items():
        for access in found:
            if access.source != "first_touch" and access.lower is not None and access.upper is not None:
                shares[container] = RemoteShare(access.source, access.lower, access.upper)
                break
    return shares


def failed_moves(snapshot: Snapshot, container: ContainerId, before: Snapshot | None = None) -> tuple[int, int] | None:
    """Pages that NUMA balancing wanted to bring to the CPU's node: those it could not, and those it did.

    By hint faults, else by the migrations themselves; None when neither is measured.
    """
    sampled = _sampled(snapshot, container)
    earlier = None if before is None else _sampled(before, container)
    if sampled is not None and sampled.is_watched and (before is None or earlier is not None):
        faults = increase(sampled.faults, None if earlier is None else earlier.faults)
        failed = sum(count for fault, count in faults.items() if fault.could_not_move)
        return failed, sum(count for fault, count in faults.items() if fault.has_moved)
    if snapshot.migrations is None or (before is not None and before.migrations is None):
        return None
    moved = increase(_misplaced(snapshot, container), _misplaced(before, container))
    return moved["failed"], moved["succeeded"]


def _misplaced(snapshot: Snapshot | None, container: ContainerId) -> dict[str, int]:
    migrated = None if snapshot is None or snapshot.migrations is None else snapshot.migrations.get(container)
    pages = None if migrated is None else migrated.pages.get("numa_misplaced")
    return {"failed": 0, "succeeded": 0} if pages is None else {"failed": pages.failed, "succeeded": pages.succeeded}


def _sampled(snapshot: Snapshot, container: ContainerId) -> Sampled | None:
    """A container that the running probe saw nothing of had no samples."""
    if snapshot.hint_faults is None:
        return None
    return snapshot.hint_faults.get(container, Sampled(_NO_FAULTS, None))
