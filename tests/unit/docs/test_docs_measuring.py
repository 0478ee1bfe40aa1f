"""docs/measuring.md: its tables are those of the code. `make golden` writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from documentation.marked_places import fill
from numaudit.doctor.sources import SOURCE_CHECKS
from numaudit.pmu.families import EventSet, families
from numaudit.pmu.identity import VIRTUAL_KINDS

MatchesGolden = Callable[[str, str], None]
PAGE = Path(__file__).parents[3] / "docs/measuring.md"
FAR_CLUSTER = {"remote": "remote", "socket_minus_local": "remote, as a difference", None: "not told apart"}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _list(words: Iterable[str]) -> str:
    return ", ".join(word.replace("_", " ") for word in words)


def _pair(one: EventSet) -> str:
    may = f"; on some: {_list(one.may_include)}" if one.may_include else ""
    errata = " (has errata)" if any(event.errata for event in (*one.local, *one.remote)) else ""
    return f"{one.unit}: {_list(one.includes)}{may}{errata}"


def _families() -> Iterable[list[str]]:
    """CPUs with the same pairs are one row."""
    titles: dict[tuple[str, str], list[str]] = {}
    for family in families():
        pairs = "<br>".join(_pair(one) for one in family.sets) or "none"
        clusters = FAR_CLUSTER[family.sets[0].far_cluster] if family.sets else "-"
        titles.setdefault((pairs, clusters), []).append(family.title)
    return ([", ".join(same), *key] for key, same in titles.items())


def _latencies() -> Iterable[list[str]]:
    for family in families():
        one = family.latency
        if one is not None:
            figures = [f"{value:g}" for value in (one.local, one.remote, one.remote_cache)]
            yield [family.title, one.unit, *figures, f"{one.remote / one.local:.1f}"]


def test_the_generated_tables_are_those_of_the_code(matches_golden: MatchesGolden) -> None:
    page = PAGE.read_text(encoding="utf-8")
    cpus = ("CPUs", "pairs of events, the best first", "other nodes of the same socket")
    latencies = ("CPU", "unit", "local", "remote", "remote cache", "remote / local")
    kinds = ("virtual machine", "vendor and product begin with", "how it gets a PMU")
    virtual = ([kind.title, f"{kind.vendor} {kind.product}".strip(), kind.hint] for kind in VIRTUAL_KINDS)
    page = fill(page, "families", _table(cpus, _families()))
    page = fill(page, "latencies", _table(latencies, _latencies()))
    matches_golden("docs/measuring.md", fill(page, "virtual machines", _table(kinds, virtual)))


def test_the_page_has_a_row_for_each_source_of_the_doctor_in_its_order() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## The sources\n")[2].partition("\n#")[0]
    listed = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert listed == [one.source for one in SOURCE_CHECKS]
