"""What sources say of a container's accesses, made up."""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.evaluation.access import Access, RemoteUse, SampledPages, measured
from numaudit.evaluation.counted import Counted
from numaudit.report.values import ContainerReport

MIB = 1 << 20


def counted(ratio: float) -> Access:
    """Accesses that the processor counted."""
    basis = Counted(
        100_000, round(100_000 * ratio), "lines", "offcore_reads", includes_prefetch=True, multiplexed=False
    )
    return Access("pmu", "accesses", ratio, ratio, ratio, counted=basis)


def sampled(remote: int, local: int, memory: int, upper: float | None = None) -> Access:
    """Pages that were seen used; sizes in MiB."""
    rows = (RemoteUse(0, 1, remote * MIB),) if remote else ()
    pages = SampledPages(rows, remote * MIB, local * MIB, 0, memory * MIB, (remote + local) / memory, whole=True)
    return Access("hint_faults", "pages", remote / (remote + local), remote / memory, upper, pages=pages)


def unsampled(reason: str) -> Access:
    """Hint faults that say nothing."""
    return Access("hint_faults", "pages", None, reason=reason)


def first_uses(ratio: float) -> Access:
    return Access("first_touch", "first-uses", ratio, ratio, ratio, samples=5000, remote_samples=round(5000 * ratio))


def expected(ratio: float) -> Access:
    return Access("expected", "expectation", ratio)


def with_accesses(container: ContainerReport, *accesses: Access) -> ContainerReport:
    """The container as its sources say these things."""
    return replace(container, accesses=accesses, measured=measured(accesses))
