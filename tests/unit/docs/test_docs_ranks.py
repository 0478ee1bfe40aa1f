"""docs/ranks.md lists the launchers, verdicts and causes that the program has, and shows its output."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from documentation.marked_places import fill
from numaudit.evaluation.ranks.rank import RANK_VERDICTS, RankCause
from numaudit.ranks.launcher import Launcher
from numaudit.ranks.table import LAUNCHERS

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]
PAGE = (TOP / "docs/ranks.md").read_text(encoding="utf-8")


def _row(one: Launcher) -> str:
    reads = ", ".join(f"`{word}`" for word in one.reads)
    tried = ", ".join(_version(text, one) for text in one.tried) or one.checked or "–"
    return f"| `{one.name}` | [{one.software}]({one.document}) | {reads} | {tried} |\n"


def _version(tried: str, one: Launcher) -> str:
    """Without a name that the row has already."""
    name, _, version = tried.rpartition(" ")
    return version if one.software.startswith(name) else tried


def test_the_page_lists_every_launcher_and_shows_real_output(matches_golden: MatchesGolden) -> None:
    shown = (TOP / "tests/golden/ranks.vllm-0.txt").read_text(encoding="utf-8")
    output = re.search(r"^\d of \d ranks.*?(?=^ELSEWHERE)", shown, re.DOTALL | re.MULTILINE)
    assert output is not None
    head = "| launcher | software | reads | tried with |\n| --- | --- | --- | --- |\n"
    page = fill(PAGE, "launchers", head + "".join(map(_row, LAUNCHERS)))
    matches_golden("docs/ranks.md", fill(page, "output", output[0]))


def test_every_verdict_and_cause_is_explained() -> None:
    section = PAGE.partition("\n## Verdicts\n")[2].partition("\n## ")[0]
    assert tuple(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == RANK_VERDICTS
    assert set(get_args(RankCause)) <= set(re.findall(r"`([a-z-]+)`", section))
