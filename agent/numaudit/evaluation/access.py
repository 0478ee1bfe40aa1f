"""From where is memory used? What each source says of it, with its uncertainty.

The sources and their fallback order are those of doctor/sources.py. A sampled share has a confidence interval; one
that the samples cannot give fairly has none, and says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal, NamedTuple

from msgspec import Struct, structs

from numaudit.evaluation.counted import LEAST_ACCESSES, Counted, CountedNow, counted_now
from numaudit.evaluation.rates import expected_remote_ratio, increase
from numaudit.evaluation.shared_memory import used_bytes
from numaudit.evaluation.thresholds import DEFAULT, Thresholds
from numaudit.evaluation.window import Window
from numaudit.snapshot import Container, ContainerId, HintFault, Sampled, Snapshot
from numaudit.topology.nodeset import NodeSet

Source = Literal["pmu", "hint_faults", "first_touch", "expected"]
_Z = 1.959964
"""Of the normal distribution, for 95 %."""
DESIGN_EFFECT = 2.0
"""Samples come in bursts: this many weigh as much as one independent sample."""
STRAY_SHARE = 0.01
"""A node with at most this share of a container's samples and of its CPU time counts as one where it does not run."""
MOST_SAMPLES = 20_000
"""More make an interval no narrower: each scan samples the same pages again, also those that are hardly used."""
_NO_FAULTS: Mapping[HintFault, int] = {}
Pair = tuple[int, int | None, bool]
"""The CPU's node, the page's node, and whether the use was remote: a page that was then moved to the CPU was.

None = on another node than the CPU's; the processor does not say which."""
_NO_SAMPLES: Mapping[Pair, int] = {}
_NO_TIME: Mapping[int, float] = {}
_EMPTY: Window[Pair] = Window()


class Access(Struct, frozen=True):
    """What one source says of one container's accesses lately. Its samples count for less the older they are."""

    source: Source
    remote_ratio: float | None
    """Share that was on another node: of accesses where it is expected, of sampled pages where it is measured.
    null = this source cannot give a fair figure."""
    lower: float | None = None
    upper: float | None = None
    """Bounds of the 95 % confidence interval, of a source that samples; the ratio itself, of one that counts all.
    Without a ratio: the lower bound is of what is remote for certain."""
    samples: int | None = None
    """What the samples count for now."""
    remote_samples: int | None = None
    reason: str | None = None
    """Why there is no ratio."""
    age: float | None = None
    """Mean age of the samples or counts in seconds; those since the previous tick count as new. null = there are
    none."""
    counted: Counted | None = None
    """null for a source that does not count."""


@dataclass(frozen=True, slots=True)
class RemoteShare:
    """The share of accesses, or of the sampled pages, that were another node's, with its confidence interval."""

    source: str
    lower: float
    """As `upper` where all accesses were counted."""
    upper: float

    @property
    def is_exact(self) -> bool:
        """Were all accesses counted, and none sampled?"""
        return self.source == "pmu"


def wilson(part: float, whole: float, design_effect: float = DESIGN_EFFECT) -> tuple[float, float]:
    """95 % confidence interval of a share, from `part` of `whole` samples.

    With `design_effect` 1 the samples are independent. Beyond MOST_SAMPLES they say nothing new.
    Source: E. B. Wilson, 1927.
    """
    if not whole:
        return 0.0, 1.0
    n, p = min(whole, MOST_SAMPLES) / design_effect, part / whole
    centre = (p + _Z * _Z / (2 * n)) / (1 + _Z * _Z / n)
    half = _Z / (1 + _Z * _Z / n) * sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


Windows = Mapping[Source, Window[Pair]]
"""What each source sampled lately."""
_NO_WINDOWS: Windows = {}


class Weighed(NamedTuple):
    """What is said of a container's accesses, and what the next tick needs of it."""

    accesses: tuple[Access, ...]
    """Those of the sources that measure, the best first, then what is to be expected."""
    windows: Windows


class _Samples(NamedTuple):
    """What a source sampled since the previous tick."""

    pairs: Mapping[Pair, int]
    unfair: str | None = None
    """Why they give no share; None = they do."""

    @property
    def evidence(self) -> Mapping[Pair, int]:
        """Those that a share may rest on."""
        return self.pairs if self.unfair is None and any(self.pairs.values()) else _NO_SAMPLES


def weigh(
    snapshot: Snapshot,
    container: Container,
    before: Snapshot | None = None,
    thresholds: Thresholds = DEFAULT,
    past: Windows = _NO_WINDOWS,
    ran: Mapping[int, float] = _NO_TIME,
) -> Weighed:
    """What each source says of a container, by its samples since the previous tick and those of `past` before them.

    `ran`: CPU seconds by node lately. They show threads that never come first to a page.
    A source that pauses adds nothing, and its window goes on. Nor does a tick add anything whose samples are not fair.
    """
    found: list[Access] = []
    windows = dict(past)
    counted = _counted_now(snapshot, container.id, before)
    if counted is not None:
        window = _next_window(windows, "pmu", _pairs(counted), snapshot, thresholds)
        found.append(_counted_share(window, counted))
    for source, samples in _sampled_now(snapshot, container.id, before):
        added = _NO_SAMPLES if samples is None else samples.evidence
        window = _next_window(windows, source, added, snapshot, thresholds)
        if samples is not None or window.amounts:
            found.append(_share(source, window, samples, thresholds, ran))
    resident = snapshot.residency.get(container.id)
    if resident is not None and snapshot.cpu_time is not None:
        used = used_bytes(snapshot, container.id, resident)
        ratio = expected_remote_ratio(used, snapshot.cpu_time.get(container.id, {}))
        reason = None if ratio is not None else "it did not run, or holds no memory"
        found.append(Access("expected", ratio, reason=reason))
    return Weighed(tuple(found), windows if windows or past else past)


def _next_window(
    windows: dict[Source, Window[Pair]],
    source: Source,
    added: Mapping[Pair, int],
    snapshot: Snapshot,
    thresholds: Thresholds,
) -> Window[Pair]:
    """The source's window with what this tick adds, which takes its place among the windows."""
    window = windows.get(source, _EMPTY).after(added, snapshot.taken_at, thresholds.window)
    if window.amounts:
        windows[source] = window
    else:
        windows.pop(source, None)
    return window


def _counted_now(snapshot: Snapshot, container: ContainerId, before: Snapshot | None) -> CountedNow | None:
    """None = it was not counted in both ticks, or has not run."""
    now = None if snapshot.pmu is None else snapshot.pmu.get(container)
    if now is None or (before is not None and before.pmu is None):
        return None
    return counted_now(now, None if before is None or before.pmu is None else before.pmu.get(container))


def _pairs(counted: CountedNow) -> Mapping[Pair, int]:
    if counted.missing is not None:
        return _NO_SAMPLES
    return {(node, None if is_remote else node, is_remote): n for (node, is_remote), n in counted.accesses.items()}


def _counted_share(window: Window[Pair], now: CountedNow) -> Access:
    """Exact but for what is made up for where the counters were shared."""
    total, remote = window.total, _remote(window.amounts)
    basis = now.basis
    said = Counted(round(total), round(remote), basis.unit, basis.set, basis.includes_prefetch, now.is_multiplexed)
    found = Access("pmu", None, age=window.age if total else None, counted=said)
    if total >= LEAST_ACCESSES:
        ratio = remote / total
        return structs.replace(found, remote_ratio=ratio, lower=ratio, upper=ratio)
    few = f"{int(total)} counted accesses are too few; at least {LEAST_ACCESSES} are needed"
    return structs.replace(found, reason=now.missing or few)


def _sampled_now(
    snapshot: Snapshot, container: ContainerId, before: Snapshot | None
) -> Iterator[tuple[Source, _Samples | None]]:
    """By each source that runs; None = it was paused at the previous tick, so there is nothing to compare with."""
    sampled = sampled_of(snapshot, container)
    if sampled is not None:
        earlier = None if before is None else sampled_of(before, container)
        comparable = before is None or earlier is not None
        yield "hint_faults", _hint_faults(sampled, earlier) if comparable else None
    if snapshot.first_touch is not None:
        pairs = snapshot.first_touch.get(container, {})
        if before is None:
            yield "first_touch", _first_touches(pairs, None)
        elif before.first_touch is None:
            yield "first_touch", None
        else:
            yield "first_touch", _first_touches(pairs, before.first_touch.get(container, {}))


def of_hint_faults(now: Sampled, thresholds: Thresholds = DEFAULT, ran: Mapping[int, float] = _NO_TIME) -> Access:
    """The remote share by all hint faults since the probe was loaded, where it is fair."""
    samples = _hint_faults(now, None)
    return _share("hint_faults", Window(samples.evidence), samples, thresholds, ran)


def _hint_faults(now: Sampled, before: Sampled | None) -> _Samples:
    """Each sample stands for a page, not for how often it was used.

    Of a process with one thread the kernel takes no local samples of its private memory, so the share that its
    samples show says nothing.

    A marked page faults once, for the thread that comes first. Where threads run on several nodes, such a sample says
    nothing of the others that share the page. So a page on one of those nodes may be local to some and remote to
    others, whoever took the sample; only a page on another node is remote to all.
    """
    faults = increase(now.faults, None if before is None else before.faults)
    pairs: Counter[Pair] = Counter()
    for fault, count in faults.items():
        pairs[fault.cpu_node, fault.memory_node, fault.is_remote] += count
    return _Samples(pairs, _why_unfair(now))


def _first_touches(
    now: Mapping[tuple[int, int | None], int], before: Mapping[tuple[int, int | None], int] | None
) -> _Samples:
    """Pages that came into being: remote are those on another node than that of the CPU which first used them."""
    known = ((cpu, page, count) for (cpu, page), count in increase(now, before).items() if page is not None)
    return _Samples({(cpu, page, cpu != page): count for cpu, page, count in known})


def _share(
    source: Source,
    window: Window[Pair],
    samples: _Samples | None,
    thresholds: Thresholds,
    ran: Mapping[int, float],
) -> Access:
    """By the samples in the window. Without enough of them it is said why those of this tick add none."""
    total, remote = window.total, _remote(window.amounts)
    age = window.age if total else None
    if total >= thresholds.access_samples:
        found = Access(source, None, None, None, round(total), round(remote), age=age)
        return _all_alike(found, window.amounts) if source == "first_touch" else _first_come(found, window.amounts, ran)
    if samples is not None and samples.unfair is not None:
        seen = sum(samples.pairs.values())
        return Access(source, None, samples=seen, remote_samples=round(_remote(samples.pairs)), reason=samples.unfair)
    reason = f"{int(total)} samples are too few; at least {thresholds.access_samples} are needed"
    return Access(source, None, samples=int(total), remote_samples=int(remote), reason=reason, age=age)


def _remote(pairs: Mapping[Pair, float]) -> float:
    return sum(amount for (_, _, is_remote), amount in pairs.items() if is_remote)


def _all_alike(found: Access, pairs: Mapping[Pair, float]) -> Access:
    """The share of samples each of which says all of its page."""
    total, remote = sum(pairs.values()), _remote(pairs)
    lower, upper = wilson(remote, total)
    return structs.replace(found, remote_ratio=remote / total, lower=lower, upper=upper)


def _first_come(found: Access, pairs: Mapping[Pair, float], ran: Mapping[int, float]) -> Access:
    """The share of samples each of which says who came to its page first."""
    total = sum(pairs.values())
    users = _more_than_stray(_by_cpu_node(pairs)) | _more_than_stray(ran)
    if len(users) < 2:
        return _all_alike(found, pairs)
    to_all = sum(
        amount
        for (_, page, is_remote), amount in pairs.items()
        if is_remote and not (page is not None and page in users)
    )
    lower = wilson(to_all, total)[0]
    if total - to_all <= STRAY_SHARE * total:
        return structs.replace(found, remote_ratio=to_all / total, lower=lower, upper=1.0)
    reason = f"its threads run on nodes {users} and may share pages, whose samples only show who comes first"
    if to_all <= STRAY_SHARE * total:
        return structs.replace(found, reason=reason)
    return structs.replace(found, lower=lower, upper=1.0, reason=reason)


def _by_cpu_node(pairs: Mapping[Pair, float]) -> dict[int, float]:
    by_node: dict[int, float] = {}
    for (cpu, _, _), amount in pairs.items():
        by_node[cpu] = by_node.get(cpu, 0.0) + amount
    return by_node


def _more_than_stray(by_node: Mapping[int, float]) -> NodeSet:
    total = sum(by_node.values())
    return NodeSet.from_ids(node for node, part in by_node.items() if part > STRAY_SHARE * total)


def _why_unfair(sampled: Sampled) -> str | None:
    if not sampled.is_scanned:
        return "the kernel does not sample tasks whose cpuset.mems is one node"
    if not sampled.is_watched:
        return "it is not on the watch list now, which keeps the probes within their budget"
    if not sampled.faults:
        return None
    if sampled.single_threaded is None:
        return "how many threads its processes have is not known, and those with one have no local samples"
    if sampled.single_threaded:
        return "processes with one thread take part of its CPU time, and of such the kernel takes no local samples"
    return None


def measured_share(accesses: Iterable[Access]) -> RemoteShare | None:
    """The remote share of the best source that measures one.

    An expected ratio is not a measurement, and a page's first use says nothing about later ones.
    """
    for access in accesses:
        if access.source != "first_touch" and access.lower is not None and access.upper is not None:
            return RemoteShare(access.source, access.lower, access.upper)
    return None


def sampled_of(snapshot: Snapshot, container: ContainerId) -> Sampled | None:
    """A container that the running probe saw nothing of had no samples."""
    if snapshot.hint_faults is None:
        return None
    return snapshot.hint_faults.get(container, Sampled(_NO_FAULTS, None))
