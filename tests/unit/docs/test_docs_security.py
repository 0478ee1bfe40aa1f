"""docs/security.md: its tables are what was measured (`make capabilities`), and each claim names a test that there is.

`make golden` writes the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import capability_table
from capability_table import CLAIMS, NOTHING, PRIVILEGED, ROWS, Table
from documentation.marked_places import fill

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]
PAGE = TOP / "docs/security.md"


def _cell(states: Sequence[tuple[str, str]], kernels: int) -> str:
    """`yes`, `-`, or the kernels that say yes."""
    given = [kernel for kernel, state in states if state == "yes"]
    return "-" if not given else "yes" if len(given) == kernels else f"yes: {', '.join(given)}"


def _line(name: str, tables: Sequence[Table], ask: Callable[[Table, str, str], str | None]) -> list[str]:
    """One line of a table. A machine on which not even a privileged agent has it says nothing."""
    fit = [table for table in tables if ask(table, PRIVILEGED, name) not in (None, "no")]
    cells = []
    for row in ROWS:
        states = [(capability_table.series(table.kernel), ask(table, row, name)) for table in fit]
        known = [(kernel, state) for kernel, state in states if state is not None]
        cells.append(_cell(known, len(tables)) if known else "?")
    return [name, *cells]


def _runs(table: Table, row: str, name: str) -> str | None:
    return table.rows[row].probes[name] if row in table.rows else None


def _may(table: Table, row: str, name: str) -> str | None:
    return table.rows[row].may[name] if row in table.rows else None


def _as_table(lines: Iterable[Sequence[str]]) -> str:
    names = [row.replace("BPF, PERFMON, ", "+ ") for row in ROWS]
    rows = [["", *names], ["---"] * (len(names) + 1), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rights(row: str) -> frozenset[str]:
    """The capabilities of a row; the privileged component has those of all rows, and more."""
    if row == PRIVILEGED:
        return frozenset({PRIVILEGED}).union(*(_rights(one) for one in ROWS if one != PRIVILEGED))
    return frozenset() if row == NOTHING else frozenset(row.split(", "))


def _least(table: Table, name: str) -> str:
    """The smallest rights that open it on one kernel."""
    able = [row for row in ROWS if _may(table, row, name) == "yes"]
    least = [row for row in able if not any(_rights(other) < _rights(row) for other in able)]
    words = {NOTHING: "always", "BPF, PERFMON": "BPF and PERFMON"}
    return ", ".join(words.get(row, row.rpartition(", ")[2]) for row in least) or "never"


def _rights_that_open(tables: Sequence[Table], name: str) -> str:
    """The smallest rights. Kernels are named where they differ."""
    kernels: dict[str, list[str]] = {}
    for table in tables:
        kernels.setdefault(_least(table, name), []).append(capability_table.series(table.kernel))
    if len(kernels) == 1:
        return next(iter(kernels))
    return "; ".join(f"{rights} ({', '.join(which)})" for rights, which in kernels.items())


def _opened(tables: Sequence[Table]) -> str:
    """The second table: what the same rights open is one line."""
    opened: dict[str, list[str]] = {}
    for name in tables[0].rows[PRIVILEGED].may:
        opened.setdefault(_rights_that_open(tables, name), []).append(name)
    lines = (f"| {rights} | {', '.join(names)} |\n" for rights, names in sorted(opened.items()))
    return f"| possible with | what |\n| --- | --- |\n{''.join(lines)}"


def _tables() -> tuple[str, str]:
    tables = capability_table.all_recorded()
    brings = [_line(name, tables, _runs) for name in tables[0].rows[PRIVILEGED].probes]
    return (
        _as_table(line for line in brings if line[1:] != ["?"] * len(ROWS)),
        _opened(tables),
    )


def test_more_rights_open_no_less() -> None:
    """So that it is enough to name the smallest rights."""
    for table in capability_table.all_recorded():
        rows = [row for row in ROWS if row in table.rows]
        for name in table.rows[PRIVILEGED].may:
            able = [row for row in rows if _may(table, row, name) == "yes"]
            more = [row for row in rows if any(_rights(less) < _rights(row) for less in able)]
            assert set(more) <= set(able), (table.kernel, name)


def test_the_generated_tables_are_what_was_measured(matches_golden: MatchesGolden) -> None:
    brings, opens = _tables()
    page = fill(PAGE.read_text(), "what capabilities bring", brings)
    matches_golden("docs/security.md", fill(page, "what capabilities open", opens))


def test_every_test_that_the_generated_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)(?:\[[^`]*\])?`", PAGE.read_text()))
    assert named
    code = "".join(file.read_text() for file in TOP.glob("tests/**/*.py"))
    assert {name for name in named if f"def {name}(" not in code} == set()


def test_every_claim_of_the_tests_is_on_the_generated_page() -> None:
    listed = re.search(r"<!-- claims -->\n(.*?)<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert listed
    assert re.findall(r"^- (.*?)[;.]?$", listed[1], re.MULTILINE) == sorted(CLAIMS)
