"""Is a container within the limits that somebody set? Pure.

A gate passes only on what is certain: when all that may be true is within the limit. It fails when nothing that may be
true is. Otherwise there is too little evidence, and it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Literal

from msgspec import Struct

from numaudit.encoding.value import Value
from numaudit.errors import InputError, Unavailable, brief, hide
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.report.values import ContainerReport, Report
from numaudit.topology.nodeset import NodeSet
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


_NOT_OF_BYTES = tuple(name for name in MISALIGNED if name != "spilled")
"""Misaligned although the bytes may be in place: no ratio of bytes tolerates that."""


class Shortfalls(Struct, frozen=True):
    """The containers that do not pass, in words, and whether a demand is known to be missed."""

    messages: tuple[str, ...] = ()
    failed: bool = False
    """Has one of them less than the ratio, or is misaligned in another way?"""
    unknown: int = 0
    """Containers of which that is not known."""

    def require_an_answer(self) -> None:
        """A check that compares nothing must not pass: raises Unavailable when none failed and some are not known."""
        if self.unknown and not self.failed:
            which = "a container" if self.unknown == 1 else f"{self.unknown} containers"
            raise Unavailable(f"--fail-below: {which} cannot be compared with the limit; the reasons are above")


def shortfalls(report: Report, ratio: float) -> Shortfalls:
    """Find the promised containers that have less than this share of their judged bytes on their promised nodes.

    Or are misaligned in another way: they may use other nodes, run elsewhere, or use memory of other nodes. Raises
    Unavailable when it is not known what was promised to anybody.
    """
    require_known_promises(report, "--fail-below")
    messages: list[str] = []
    failed, unknown = False, 0
    for one in report.containers:
        if one.id is None:  # it does not run
            continue
        problem = _problem(one, ratio)
        doubt = _doubt(one) if problem is None else None
        failed |= problem is not None
        unknown += doubt is not None
        if problem is not None or doubt is not None:
            messages.append(f"{full_name(one)!r}: {problem or doubt}")
    return Shortfalls(tuple(messages), failed, unknown)


def require_known_promises(report: Report, option: str) -> None:
    """Raises Unavailable, with the option in front, when it is not known what was promised to anybody."""
    promised = [one for one in report.containers if one.intended is not None and one.intended.memory_nodes]
    for source in report.sources:
        if not promised and source.source == "intent" and source.state in ("absent", "unavailable", "failed"):
            raise Unavailable(f"{option}: its promise is unknown: {source.reason}")


def full_name(one: ContainerReport) -> str:
    """namespace/pod/container as far as known, else the cgroup path."""
    return "/".join(part for part in (one.namespace or one.pod_uid, one.pod, one.container) if part) or one.path or ""


def _problem(one: ContainerReport, ratio: float) -> str | None:
    """Reason why a container fails the check; None = it does not, or that is not known."""
    if one.verdict is not None and one.verdict.name in _NOT_OF_BYTES:
        return f"{one.verdict.name}: {one.verdict.reason}"
    if not _promised_nodes(one) or one.aligned_ratio is None or one.aligned_ratio >= ratio:
        return None
    return f"{one.aligned_ratio:.3f} of its bytes are on nodes it was promised"


def _doubt(one: ContainerReport) -> str | None:
    """Reason why it is not known whether it passes; None = it does, or nothing was promised to it."""
    if one.verdict is not None and one.verdict.name == "unmanaged":
        return None
    nodes = _promised_nodes(one)
    if nodes is None and one.kind == "container" and one.pod_uid is not None:
        return "what it was promised is not known"
    if not nodes:
        return None
    if one.judged_bytes is None:
        return "the nodes of its memory are not known"
    if one.verdict is not None and one.verdict.name == "unknown":
        return one.verdict.reason
    return None


def _promised_nodes(one: ContainerReport) -> NodeSet | None:
    return None if one.intended is None else one.intended.memory_nodes


_GROUP = "misaligned"
"""Stands for MISALIGNED on the command line."""


def read_verdicts(text: str, option: str, known: Sequence[str] = tuple(REMEDIES)) -> frozenset[str]:
    """Read an option's `drifted,cpu-remote`; `misaligned` stands for the known verdicts that are, of ranks if there are
    no others.

    Raises InputError for another name, with the one that is nearest.
    """
    group = [name for name in MISALIGNED if name in known] or NOT_WHERE_BOUND
    given = [name.strip() for name in text.split(",")]
    names = [one for name in given for one in (group if name == _GROUP else (name,))]
    for name in names:
        if not name:
            raise InputError(f"{option} {brief(text)!r}: a name is missing; choose from {','.join((_GROUP, *known))}")
        if name not in known:
            names_of_all = (_GROUP, *known)
            begin_alike = [one for one in names_of_all if one.startswith(name)]
            nearest = begin_alike or get_close_matches(name[:60].lower(), names_of_all, 1, cutoff=0.0)
            # A part of a URL does not show what is secret in it.
            shown = name[:60] if hide(text) == text else brief(text)
            raise InputError(
                f"{option}: there is no verdict {shown!r}; did you mean {nearest[0]}? "
                f"The verdicts are {', '.join(known)}; {_GROUP} stands for those that are"
            )
    return frozenset(names)


def not_accepted(report: Report, verdicts: Collection[str]) -> tuple[str, ...]:
    """The containers with one of these verdicts, or with ranks that have one, in words, the worst first.

    Raises Unavailable when there are none and it is not known what was promised to anybody, or how ranks fare.
    """
    found = [
        f"{full_name(one)!r}: {one.verdict.name}: {one.verdict.reason}"
        for one in report.containers
        if one.verdict is not None and one.verdict.name in verdicts
    ]
    of_ranks = [name for name in verdicts if name in NOT_WHERE_BOUND]
    found += [
        f"{full_name(one)!r}: {rank.title}: {rank.verdict}: {rank.detail}"
        for one in report.containers
        for rank in (() if one.processes is None else one.processes.ranks)
        if rank.counts and rank.verdict in of_ranks
    ]
    if not found and len(of_ranks) < len(verdicts):
        require_known_promises(report, "--fail-on")
    if not found and of_ranks:
        _require_known_ranks(report)
    return tuple(found)


def _require_known_ranks(report: Report) -> None:
    """Raises Unavailable when a process was not read, or a rank's verdict is not known."""
    for one in report.containers:
        processes = one.processes
        if processes is None:
            continue
        if processes.unread is not None:
            missing = processes.alive - len(processes.items)
            raise Unavailable(
                f"--fail-on: {missing} of {processes.alive} processes of {full_name(one)!r} were not read: "
                f"{processes.unread}"
            )
        unknown = next((rank for rank in processes.ranks if rank.counts and rank.verdict == "unknown"), None)
        if unknown is not None:
            raise Unavailable(f"--fail-on: {full_name(one)!r}: {unknown.title} is unknown: {unknown.detail}")
