"""Two pages explain every conclusion, with the severities, remedies and limits that the program has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import test_ranks
import test_remedies
import test_remedies_of_commands
import test_remedies_of_use
import test_tiers
from numaudit.evaluation.causes.remedies import IN_FORCE, OF_COMMANDS, OF_OTHERS
from numaudit.evaluation.findings import RULES
from numaudit.evaluation.verdicts import DEFAULT, REMEDIES, CauseName, VerdictName
from numaudit.memorymanager.outcome import AdmissionOutcome
from remedies import NO_ADVICE, NOT_HERE

DOCS = Path(__file__).parents[3] / "docs"
VERDICTS = (DOCS / "verdicts.md").read_text(encoding="utf-8")
PAGES = VERDICTS + (DOCS / "findings.md").read_text(encoding="utf-8")

CARRIED_OUT = (
    *test_remedies.ROWS,
    *test_remedies_of_use.ROWS,
    *test_remedies_of_commands.ROWS,
    *test_tiers.ROWS,
    *test_ranks.ROWS,
)
"""In a guest: tests/vm/inside."""


def rows(heading: str) -> dict[str, list[str]]:
    """The first table below a heading: first cell (without its quotes) -> the other cells."""
    below = PAGES.partition(f"\n{heading}\n")[2].partition("\n#")[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return {first.strip("`"): rest for first, *rest in cells}


def verdicts() -> dict[str, str]:
    """Its remedy, by name, in the page's order."""
    below = VERDICTS.partition("\n## Each verdict\n")[2].partition("\n## ")[0]
    parts = re.findall(r"### `([a-z-]+)`\n(.+?)\n\n\*\*What to do:\*\* (.+?)(?=\n\n|\Z)", below, re.DOTALL)
    return {name: " ".join(remedy.split()) for name, _, remedy in parts}


def test_every_verdict_is_explained_with_its_remedy_in_the_order_of_severity() -> None:
    assert list(verdicts()) == list(REMEDIES)
    assert verdicts() == {name: remedy or "Nothing." for name, remedy in REMEDIES.items()}
    assert set(verdicts()) == set(get_args(VerdictName))


def test_remedies_of_what_is_no_pod_are_explained() -> None:
    lines = VERDICTS.partition("\n## Remedies where there is no pod\n")[2].partition("\n#")[0].splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]
    of_commands = [["of `numaudit run`", f"`{name}`", remedy] for name, remedy in OF_COMMANDS.items()]
    of_others = [["a systemd unit or another cgroup", f"`{name}`", remedy] for name, remedy in OF_OTHERS.items()]
    assert cells == [*of_commands, *of_others]


def test_remedies_under_a_policy_that_is_in_force_are_explained() -> None:
    assert {name: cells[-1] for name, cells in rows("## Remedies where a policy is in force").items()} == dict(IN_FORCE)


def remedies() -> Iterator[tuple[str, str]]:
    """Of each verdict, cause and finding, whatever the container is: the sentences, and what stands after `, or`."""
    tables = ("## Remedies where a policy is in force", "## Causes", "## Findings")
    cells = [(name, cells[-1]) for heading in tables for name, cells in rows(heading).items()]
    cells += [(name, text) for texts in (verdicts(), OF_COMMANDS, OF_OTHERS) for name, text in texts.items()]
    for name, text in cells:
        parts = re.split(r"(?<=\.) (?=[A-Z`])|(?<=promise:) |, or ", text)
        yield from ((name, one) for one in parts if one not in ("Nothing.", "For a promise:"))


def test_every_remedy_is_carried_out_in_a_guest_or_it_is_said_why_it_cannot_be() -> None:
    done = [(row.of, row.remedy) for row in CARRIED_OUT]
    missing = [
        (name, one)
        for name, one in remedies()
        if not any(of == name and (words in one or one.rstrip(".") in words) for of, words in done)
        and not any(words in one for words in (*NOT_HERE, *NO_ADVICE))
    ]
    assert missing == []


def test_every_cause_is_explained() -> None:
    assert set(rows("## Causes")) == set(get_args(CauseName))


def test_every_finding_is_explained_with_its_severity_and_remedy() -> None:
    shown = {name: (cells[0], cells[-1]) for name, cells in rows("## Findings").items()}
    assert shown == {rule.name: (rule.severity, rule.remedy) for rule in RULES}


def test_every_hint_outcome_is_explained_in_its_order_of_precedence() -> None:
    assert list(rows("## Hint outcomes")) == [one.value for one in AdmissionOutcome]


def test_every_limit_is_shown_with_its_default() -> None:
    shown = {name: float(cells[0]) for name, cells in rows("## Limits").items()}
    assert shown == {one.name: float(getattr(DEFAULT, one.name)) for one in fields(DEFAULT)}
