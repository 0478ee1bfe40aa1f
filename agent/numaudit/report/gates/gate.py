"""Is a container within the limits that somebody set? Pure.

A gate passes only on what is certain: when all that may be true is within the limit. It fails when nothing that may be
true is. Otherwise there is too little evidence, and it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from numaudit.encoding.value import Value
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.report.gates.demands import full_name
from numaudit.report.values import ContainerReport
from numaudit.topology.quantity import in_units

GateState = Literal["passed", "failed", "inconclusive"]


class GateLimits(Struct, frozen=True):
    """Limits of a gate. None = no limit."""

    remote: float | None = None
    """Share of accesses on another node."""
    spilled: int | None = None
    """Judged bytes outside the promised nodes."""
    migrated: int | None = None
    """Bytes that were migrated while it was measured."""
    ranks: bool | None = None
    """Must every rank be where it was bound?"""


class GateCheck(Value, frozen=True):
    """One demand on one container."""

    container: str
    """namespace/pod/container, or the path of a cgroup; `command` = of a command."""
    demand: str
    """The limit, in words."""
    state: GateState
    """inconclusive: there is too little evidence for either."""
    evidence: str
    """The measurement and its source; for an inconclusive one also the missing evidence."""


class Assertion(Value, frozen=True):
    """Containers, compared with limits."""

    state: GateState
    """A failure comes before what is inconclusive, and that before a pass."""
    checks: tuple[GateCheck, ...]
    """One for each container and limit."""


def judge_gate(
    container: ContainerReport, limits: GateLimits, migrations_doubt: str | None = None
) -> tuple[GateCheck, ...]:
    """The checks that were asked for. `migrations_doubt`: why not all migrations were counted; None = they were."""
    return tuple(_checks(container, limits, migrations_doubt))


def worst_state(checks: tuple[GateCheck, ...]) -> GateState:
    """A failure comes before what is inconclusive; nothing that was checked is inconclusive, too."""
    states = {one.state for one in checks}
    if "failed" in states:
        return "failed"
    return "inconclusive" if "inconclusive" in states or not states else "passed"


def _checks(container: ContainerReport, limits: GateLimits, doubt: str | None) -> Iterator[GateCheck]:
    name = full_name(container)
    if limits.remote is not None:
        state, evidence = _remote(container, limits.remote)
        yield GateCheck(name, f"at most {100 * limits.remote:.4g}% of the accesses remote", state, evidence)
    if limits.spilled is not None:
        state, evidence = _spilled(container, limits.spilled)
        yield GateCheck(name, f"at most {in_units(limits.spilled)} outside the promised nodes", state, evidence)
    if limits.migrated is not None:
        state, evidence = _migrated(container, limits.migrated, doubt)
        yield GateCheck(name, f"at most {in_units(limits.migrated)} migrated", state, evidence)
    if limits.ranks:
        state, evidence = _ranks(container)
        yield GateCheck(name, "every rank where it was bound", state, evidence)


def _remote(container: ContainerReport, limit: float) -> tuple[GateState, str]:
    """By accesses that were counted: nothing else says how often memory is used."""
    found = container.measured
    if found is not None and found.is_exact:
        evidence = f"{found.source}: {found.lower:.2%} of the accesses were remote"
        return ("passed" if found.lower <= limit else "failed"), evidence
    said = next((access.reason for access in container.accesses if access.of == "accesses"), None)
    why = f"the accesses were not counted{f' ({said})' if said else ''}"
    return "inconclusive", f"{why}; it needs a processor whose counters tell local from remote: see `numaudit doctor`"


def _spilled(container: ContainerReport, limit: int) -> tuple[GateState, str]:
    if container.judged_bytes is None:
        reasons = "; ".join(one.reason for one in container.unknown) or "its memory is not shown by node"
        return "inconclusive", f"the nodes of its memory are not known: {reasons}"
    if container.aligned_bytes is None:
        return "inconclusive", "no node was promised to it, or its promise is unknown"
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


def _ranks(container: ContainerReport) -> tuple[GateState, str]:
    """Every rank that counts must be in force, and none may have been missed."""
    found = container.processes
    if found is None:
        return "inconclusive", "its processes were not read"
    counted = [one for one in found.ranks if one.counts]
    said = found.ranks_summary or "none of its processes declares where it is to be, and none has bound itself"
    if any(one.verdict in NOT_WHERE_BOUND for one in counted):
        return "failed", said
    if found.unread is not None:
        return "inconclusive", f"{found.alive - len(found.items)} of its processes were not read: {found.unread}"
    is_known = counted and all(one.verdict == "in-force" for one in counted)
    return ("passed" if is_known else "inconclusive"), said
