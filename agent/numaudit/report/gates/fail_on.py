"""Does a container have a verdict that somebody does not accept? Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches

from numaudit.errors import InputError, Unavailable, brief, hide
from numaudit.evaluation.ranks.rank import NOT_WHERE_BOUND
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.report.gates.fail_below import full_name, require_known_promises
from numaudit.report.values import Report

_GROUP = "misaligned"
"""Stands for MISALIGNED on the command line."""


def read_verdicts(text: str, option: str, more: Sequence[str] = ()) -> frozenset[str]:
    """Read an option's `drifted,cpu-remote`; `misaligned` stands for the verdicts that are. `more`: of ranks.

    Raises InputError for another name, with the one that is nearest.
    """
    known = (*REMEDIES, *more)
    given = [name.strip() for name in text.split(",")]
    names = [one for name in given for one in (MISALIGNED if name == _GROUP else (name,))]
    for name in names:
        if not name:
            raise InputError(f"{option} {brief(text)!r}: a name is missing; choose from {','.join((_GROUP, *known))}")
        if name not in known:
            begin_alike = [one for one in known if one.startswith(name)]
            nearest = begin_alike or get_close_matches(name[:60].lower(), known, 1, cutoff=0.0)
            # A part of a URL does not show what is secret in it.
            shown = name[:60] if hide(text) == text else brief(text)
            raise InputError(
                f"{option}: there is no verdict {shown!r}; did you mean {nearest[0]}? "
                f"The verdicts are {', '.join(known)}"
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
