"""From where is memory used? What one source says of one container, and which source's word counts.

The sources themselves are in evaluation/sources/.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import field

from numaudit.evaluation.counted import Counted
from numaudit.value import Value

Source = Literal["pmu", "hint_faults", "first_touch", "expected"]
Of = Literal["accesses", "pages", "first-uses", "expectation"]
"""The base of a share: accesses that were counted; memory that was seen used, however often; pages when they were first
used; or accesses if every byte were used equally, which nobody measured."""

COVERED = 0.8
"""Of less than this share of its memory nobody says `at most`."""


class RemoteUse(Value, frozen=True):
    """Memory that was used from another node."""

    cpu_numa_node: int
    numa_node: int
    bytes: int
    """Bytes of the node's memory that were used from the CPU's node."""


class SampledPages(Value, frozen=True):
    """Memory that the kernel's newest scan passes saw used, in bytes. A byte counts once, however often it was used."""

    remote: tuple[RemoteUse, ...]
    """Used from another node than its own, the most first."""
    remote_bytes: int
    """All that was used from another node."""
    local_bytes: int
    """Used from its own node."""
    home_bytes: int
    """Brought to the node that used it by the use itself (NUMA balancing)."""
    memory_bytes: int | None
    """Memory that its processes map: its own memory and that of others; null = not known."""
    coverage: float | None
    """Share of memory_bytes that was seen used. The rest was not used, or cannot be sampled."""
    whole: bool
    """False: a pass still goes on, and what it has not reached is not known."""


class Access(Value, frozen=True):
    """One source's figures of one container's memory accesses lately."""

    source: Source
    """The source of accesses."""
    of: Of
    """Base of its ratio."""
    remote_ratio: float | None
    """Share that was on another node, of what `of` names; for pages, of those that were seen used. null = this source
    cannot tell."""
    lower: float | None = None
    """Lower end of the share: its 95 % interval for accesses, a bound for pages; null = not known."""
    upper: float | None = None
    """Bounds of the remote share: of accesses, the counted share itself; of pages, the share of all its memory that is
    used from other nodes; of first uses, the 95 % confidence interval. null = not bounded."""
    samples: int | None = None
    """First uses that were sampled lately; older ones weigh less. null = the source takes no such samples."""
    remote_samples: int | None = None
    """Of these, the remote ones."""
    reason: str | None = None
    """Reason why there is no ratio."""
    age: float | None = field(default=None, name="ageSeconds")
    """Seconds since this was seen: of pages, since the oldest of the scan passes was through; else the mean age of the
    samples or counts. null = there are none."""
    counted: Counted | None = None
    """null for a source that does not count."""
    pages: SampledPages | None = None
    """null for a source that does not sample pages, or saw none."""


class Measured(Value, frozen=True):
    """The measured share that counts: what verdict, gate, metric, table, live screen and page say."""

    source: Source
    """The source of accesses."""
    of: Literal["accesses", "pages"]
    """Base of its bounds."""
    lower: float
    """Of pages: share of its memory that is used from other nodes, at least."""
    upper: float
    """As `lower` where all accesses were counted."""
    pages: SampledPages | None = None
    """null where accesses were counted."""
    age: float | None = field(default=None, name="ageSeconds")
    """Of the samples or counts, as in the source's entry of `accesses`."""

    @property
    def is_exact(self) -> bool:
        """Were all accesses counted?"""
        return self.of == "accesses"


def measured(accesses: Iterable[Access]) -> Measured | None:
    """Measurement of the best source; sources come in their order. None = no source has measured anything.

    An expectation is no measurement, and a page's first use says nothing about later ones.
    """
    for access in accesses:
        if access.lower is None:
            continue
        upper = 1.0 if access.upper is None else access.upper
        if access.of == "accesses":
            return Measured(access.source, "accesses", access.lower, upper, age=access.age)
        if access.of == "pages":
            return Measured(access.source, "pages", access.lower, upper, access.pages, access.age)
    return None
