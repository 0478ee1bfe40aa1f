"""What sources say of a container's accesses, made up."""

from __future__ import annotations

from msgspec.structs import replace

from numaudit.evaluation.access import Access, Counted, RemoteUse, UsedRemotely, measured
from numaudit.report.values import ContainerReport

MIB = 1 << 20


def counted(ratio: float) -> Access:
    """Accesses that the processor counted."""
    basis = Counted(
        100_000, round(100_000 * ratio), "lines", "offcore_reads", includes_prefetch=True, multiplexed=False
    )
    return Access("pmu", "accesses", ratio, ratio, ratio, counted=basis)


def sampled(remote: int, memory: int) -> Access:
    """Pages that were seen used remotely; sizes in MiB."""
    used = UsedRemotely(remote * MIB, (RemoteUse(0, 1, remote * MIB),), memory * MIB, 0)
    return Access("hint_faults", "pages", None, remote / memory, age=0.0, used_remotely=used)


def expected(ratio: float) -> Access:
    return Access("expected", "expectation", ratio)


def with_accesses(container: ContainerReport, *accesses: Access) -> ContainerReport:
    """The container as its sources say these things."""
    return replace(container, accesses=accesses, measured=measured(accesses))
