"""Is a container within the limits that somebody set? Pure.

A gate passes only on what is certain: when the whole interval of what was measured is within the limit. It fails when
the whole interval is beyond it. Otherwise there is too little evidence, and it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from numaudit.evaluation.access import Access, measured_share
from numaudit.report.fail_below import full_name
from numaudit.report.values import ContainerReport
from numaudit.topology.sizes import in_units

GateState = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What is demanded. None = nothing."""

    remote: float | None = None
    """Share of accesses on another node."""
    spilled: int | None = None
    """Judged bytes outside the promised nodes."""
    migrated: int | None = None
    """Bytes that were migrated while it was measured."""


@dataclass(frozen=True, slots=True)
class GateCheck:
    """One demand on one container."""

    container: str
    demand: str
    state: GateState
    evidence: str
    """What was measured, and by which source; for an inconclusive one also what is missing."""


def judge_gate(
    container: ContainerReport, limits: Limits, migrations_doubt: str | None = None
) -> tuple[GateCheck, ...]:
    """The checks that were asked for. `migrations_doubt`: why not all migrations were counted; None = they were."""
    return tuple(_checks(container, limits, migrations_doubt))


def worst_state(checks: tuple[GateCheck, ...]) -> GateState:
    """A failure comes before what is inconclusive; nothing that was checked is inconclusive, too."""
    states = {one.state for one in checks}
    if "failed" in states:
        return "failed"
    return "inconclusive" if "inconclusive" in states or not states else "passed"


def _checks(container: ContainerReport, limits: Limits, doubt: str | None) -> Iterator[GateCheck]:
    name = full_name(container)
    if limits.remote is not None:
        state, evidence = _remote(container.accesses, limits.remote)
        yield GateCheck(name, f"at most {100 * limits.remote:.4g}% of the accesses remote", state, evidence)
    if limits.spilled is not None:
        state, evidence = _spilled(container, limits.spilled)
        yield GateCheck(name, f"at most {in_units(limits.spilled)} outside the promised nodes", state, evidence)
    if limits.migrated is not None:
        state, evidence = _migrated(container, limits.migrated, doubt)
        yield GateCheck(name, f"at most {in_units(limits.migrated)} migrated", state, evidence)


def _remote(accesses: tuple[Access, ...], limit: float) -> tuple[GateState, str]:
    """By the first source that gives an interval, in their fallback order. What is to be expected does not judge."""
    share = measured_share(accesses)
    if share is None:
        said = "; ".join(f"{one.source}: {_why_not(one)}" for one in accesses)
        return "inconclusive", f"no source has measured a share: {said or 'nothing was sampled'}"
    used = next(one for one in accesses if one.source == share.source)
    ratio = "" if used.remote_ratio is None else f"{used.remote_ratio:.2%} remote, "
    samples = "" if used.samples is None else f", {used.samples} samples"
    evidence = f"{share.source}: {ratio}{share.lower:.2%} to {share.upper:.2%} with 95 % confidence{samples}"
    if share.upper <= limit:
        return "passed", evidence
    if share.lower > limit:
        return "failed", evidence
    return "inconclusive", f"{evidence}; the limit is within the interval: measure longer"


def _why_not(access: Access) -> str:
    if access.reason is not None:
        return access.reason
    if access.source == "expected":
        return f"{access.remote_ratio:.2%} is to be expected, which is no measurement"
    return "it says nothing of later uses" if access.samples else "no samples"


def _spilled(container: ContainerReport, limit: int) -> tuple[GateState, str]:
    if container.judged_bytes is None:
        reasons = "; ".join(one.reason for one in container.unknown) or "its memory is not shown by node"
        return "inconclusive", f"where its bytes are is not known: {reasons}"
    if container.aligned_bytes is None:
        return "inconclusive", "nothing was promised to it, or that is not known"
    outside = container.judged_bytes - container.aligned_bytes
    evidence = f"{in_units(outside)} of {in_units(container.judged_bytes)} are outside the promised nodes"
    return ("passed" if outside <= limit else "failed"), evidence


def _migrated(container: ContainerReport, limit: int, doubt: str | None) -> tuple[GateState, str]:
    if container.migrated is None:
        return "inconclusive", "migrations were not measured: `numaudit doctor` says why"
    total = sum(one.bytes for one in container.migrated)
    if total <= limit and doubt is not None:
        return "inconclusive", f"at least {in_units(total)} were migrated: {doubt}"
    return ("passed" if total <= limit else "failed"), f"{in_units(total)} were migrated"
