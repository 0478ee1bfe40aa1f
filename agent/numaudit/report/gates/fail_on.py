"""Does a container have a verdict that somebody does not accept? Pure."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from numaudit.errors import InputError, brief, hide
from numaudit.evaluation.verdicts import MISALIGNED, REMEDIES
from numaudit.report.gates.fail_below import full_name, require_known_promises
from numaudit.report.values import Report

_GROUP = "misaligned"
"""Stands for MISALIGNED on the command line."""


def read_verdicts(text: str, option: str) -> frozenset[str]:
    """Read an option's `drifted,cpu-remote`; `misaligned` stands for the verdicts that are.

    Raises InputError for another name, with the one that is nearest.
    """
    given = [name.strip() for name in text.split(",")]
    names = [one for name in given for one in (MISALIGNED if name == _GROUP else (name,))]
    for name in names:
        if not name:
            raise InputError(
                f"{option} {brief(text)!r}: a name is missing; choose from {','.join((_GROUP, *REMEDIES))}"
            )
        if name not in REMEDIES:
            begin_alike = [one for one in REMEDIES if one.startswith(name)]
            nearest = begin_alike or get_close_matches(name[:60].lower(), REMEDIES, 1, cutoff=0.0)
            # A part of a URL does not show what is secret in it.
            shown = name[:60] if hide(text) == text else brief(text)
            raise InputError(
                f"{option}: there is no verdict {shown!r}; did you mean {nearest[0]}? "
                f"The verdicts are {', '.join(REMEDIES)}"
            )
    return frozenset(names)


def not_accepted(report: Report, verdicts: Collection[str]) -> tuple[str, ...]:
    """The containers with one of these verdicts, in words, the worst first.

    Raises Unavailable when there are none and it is not known what was promised to anybody.
    """
    found = [
        f"{full_name(one)!r}: {one.verdict.name}: {one.verdict.reason}"
        for one in report.containers
        if one.verdict is not None and one.verdict.name in verdicts
    ]
    if not found:
        require_known_promises(report, "--fail-on")
    return tuple(found)
