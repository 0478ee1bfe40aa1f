"""The table of `numaudit doctor`: the checks by the question that they answer, and how many can be answered."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from numaudit.api.doctor_document import Doctor
from numaudit.errors import printable
from numaudit.snapshot import Check
from numaudit.views.terminal.calibration_tables import print_calibration
from numaudit.views.terminal.machine_tables import print_selftest
from numaudit.views.terminal.terminal import new_table, print_note, print_table

_STATE_STYLE = {"ok": "green", "reduced": "yellow", "missing": "red"}
_OF_A_RUNNING_HOST = ("rights",)
"""Checks that a capture always passes."""


def print_doctor(found: Doctor, out: Console, *, is_capture: bool = False) -> None:
    """A group for each question, a line for each reason, and a sentence at the end.

    Of a capture, what only a running kernel could answer is left out.
    """
    shown = [one for one in found.checks if not (is_capture and _is_live_only(one))]
    asked = {name for question in found.questions for name in question.checks}
    table = new_table("CHECK", "STATE", "~DETAIL")
    _add_group("host", "", [one for one in shown if one.name not in asked], table)
    for question in found.questions:
        _add_group(question.link, question.question, [one for one in shown if one.name in question.checks], table)
    print_table(table, out)
    if found.self_test is not None:
        out.print(Text("\nself-test with known work", "bold"))
        print_selftest(found.self_test.checks, out)
    if found.calibration is not None:
        out.print(Text("\nspeed of this machine's memory", "bold"))
        print_calibration(found.calibration, out)
    out.print()
    print_note(_summary(found, is_capture=is_capture), out, "bold")


def _is_live_only(check: Check) -> bool:
    return check.reason == "not-live" or check.name in _OF_A_RUNNING_HOST


def _add_group(title: str, question: str, checks: Sequence[Check], table: Table) -> None:
    if not checks:
        return
    table.add_row(Text(title, "bold"), "", Text(question, "bold"))
    for (_, state, detail, hint), alike in groupby(checks, _reason):
        first, *others = (one.name for one in alike)
        table.add_row(f"  {first}", Text(state, _STATE_STYLE[state]), printable(detail))
        if others:
            table.add_row("", "", Text(f"the same for {', '.join(others)}", "dim"))
        if hint is not None:
            table.add_row("", "", Text(f"-> {printable(hint)}", "dim"))


def _reason(one: Check) -> tuple[str, str, str, str | None]:
    """Checks that lack the same thing are one line; each that works has its own."""
    return one.name if one.state == "ok" else "", one.state, one.detail, one.hint


def _summary(found: Doctor, *, is_capture: bool) -> str:
    answered = [one for one in found.questions if one.answered]
    subject = "This capture" if is_capture else "This host"
    text = f"{subject} can answer {len(answered)} of {len(found.questions)} questions"
    lacking = [one.question for one in found.questions if not one.answered]
    return f"{text}, but not {', nor '.join(lacking)}." if lacking else f"{text}."
