"""The README shows real output: `make golden` rewrites its example and its table of verbs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from documentation.marked_places import fill
from numaudit.cli.main import VERBS, call

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]
MOST_LINES = 12


def _excerpt(report: str) -> str:
    """The sentence, the first container that is misaligned with what to do, and the table of containers."""
    first, problems, *parts = report.rstrip().split("\n\n")
    (table,) = [part for part in parts if part.startswith("CONTAINER ")]
    problem = re.match(r".*\n(?: {4}.*\n)*", problems)
    assert problem is not None
    rows = [line for line in table.splitlines() if not line.endswith(" shown")]
    return "\n".join([first.splitlines()[0], "", problem[0], *rows])


def test_the_readme_shows_the_real_report_and_all_verbs(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden
) -> None:
    assert call(["report", "--root", str(fixtures / "misaligned-node"), "--top", "3"]) == 0
    excerpt = _excerpt(capsys.readouterr().out)
    assert len(excerpt.splitlines()) <= MOST_LINES
    shown = f"```\n{excerpt}\n```\n"
    verbs = "".join(f"| `{name}` | {verb.help} |\n" for name, verb in VERBS.items())
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    filled = fill(readme, "example: report --root tests/fixtures/misaligned-node.tar.xz --top 3", shown)
    filled = fill(filled, "verbs", f"| verb | answers |\n| --- | --- |\n{verbs}")
    matches_golden("README.md", filled)
