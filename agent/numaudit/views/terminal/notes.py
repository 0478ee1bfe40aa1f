"""A report's notes on a terminal: what to do above its tables, the reasons of other verdicts below them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace
from rich.console import Console

from numaudit.errors import printable
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.values import ContainerReport, Report
from numaudit.report.words import display_name, size
from numaudit.topology.quantity import at_most, plural, some_of
from numaudit.views.notes import Note, NoteItem, finding_notes, verdict_notes
from numaudit.views.terminal.terminal import print_note

_STYLES = {"unknown": "yellow", "critical": "red", "error": "red", "warning": "yellow", "info": "dim"}
"""By the first word of a note's title."""
_MOST = 8
"""Containers of one remedy that are named above the table, which has them all."""


def print_what_to_do(report: Report, shown: Sequence[ContainerReport], out: Console, *, whole: bool) -> bool:
    """Findings, misaligned containers and refused pods, the worst first, each remedy once after those that it is for.

    `whole`: name every container. False = there is nothing to do.
    """
    misaligned = [note for note in verdict_notes(shown) if note.title in MISALIGNED]
    print_notes(finding_notes(report.findings), out)
    print_notes(misaligned, out, None if whole else _MOST)
    _print_refused(report, out)
    return bool(report.findings or misaligned or report.rejections)


def print_reasons(shown: Sequence[ContainerReport], out: Console) -> None:
    """The reasons of the other verdicts."""
    others = (note for note in verdict_notes(shown) if note.title not in MISALIGNED)
    print_notes((replace(note, remedy=None) if note.title == "unmanaged" else note for note in others), out)
    judged = [(one, one.verdict) for one in shown if one.verdict is not None]
    if unseen := [display_name(one) for one, verdict in judged if verdict.reason == "access not measured"]:
        print_note(f"aligned: access not measured ({some_of(unseen)})", out)
    for remedy in {verdict.remedy for one, verdict in judged if verdict.name == "unmanaged" and one.pod_uid}:
        print_note(f"unmanaged: {remedy}", out, "dim")


def print_notes(notes: Iterable[Note], out: Console, most: int | None = None, indent: str = "") -> None:
    """A line for each item, its causes below it, and the remedy after the items that it is for."""
    for note in notes:
        style = _STYLES.get(note.title.partition(":")[0], "")
        for item in note.items[:most]:
            first = (note.title, item.subject) if item.container is None else (item.subject, note.title)
            print_note(indent + ": ".join(filter(None, (*map(printable, first), text_of(item)))), out, style)
            for cause in item.causes:
                print_note(f"{indent}    {printable(cause)}", out, "dim")
        if most is not None and len(note.items) > most:
            print_note(f"and {len(note.items) - most} more that are {note.title}; -o wide says of each why", out)
        if note.remedy is not None:
            print_note(f"    -> {note.remedy}", out, "dim")


def text_of(item: NoteItem) -> str:
    """With the first of the names for which it holds."""
    return printable(f"{item.text} ({some_of(item.names)})" if item.names else item.text)


def _print_refused(report: Report, out: Console) -> None:
    """A workload may have hundreds of pods that were refused for the same: they are one line."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for refused in report.rejections:
        same = refused.outcome, printable(refused.message or ""), _asked(refused)
        alike.setdefault(same, []).append(printable(f"{refused.namespace}/{refused.pod}"))
    for (outcome, message, asked), names in alike.items():
        print_note(f"refused: {some_of(names)}: {outcome}: {message}", out, "yellow")
        against = " ".join(filter(None, (asked, _admissible(report))))
        if against:
            print_note(f"    {against}", out, "dim")


def _asked(refused: HintOutcome) -> str:
    amounts = ", ".join(
        f"{size(amount)} of {printable(name)}" for name, amount in (refused.asked or {}).items() if amount
    )
    return f"Requested: {amounts}." if amounts else ""


def _admissible(report: Report) -> str:
    manager = report.memory_manager
    if manager is None or not manager.admissible:
        return ""
    largest = max(manager.admissible, key=lambda one: one.bytes)
    cpus = f" ({manager.cpus_in_words})" if manager.cpus_in_words else ""
    return (
        f"At most {at_most(largest.bytes)} of memory would be admitted now, on {plural(largest.nodes, 'node')}{cpus}."
    )
