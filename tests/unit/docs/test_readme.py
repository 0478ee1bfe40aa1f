"""The README shows real output: `make golden` rewrites its example and its table of verbs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from numaudit.cli.main import VERBS

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]


def _fill(readme: str, mark: str, content: str) -> str:
    pattern = rf"(<!-- {re.escape(mark)} -->\n).*?(<!-- end -->)"
    filled, count = re.subn(pattern, lambda match: f"{match[1]}{content}{match[2]}", readme, flags=re.DOTALL)
    assert count == 1, f"README.md has no place marked {mark!r}"
    return filled


def test_the_readme_shows_the_real_report_and_all_verbs(matches_golden: MatchesGolden) -> None:
    report = (TOP / "tests/golden/kubernetes-four-nodes.txt").read_text(encoding="utf-8")
    shown = "\n".join(line for line in report.splitlines() if not re.match(r"\w[\w ]+: unavailable|Read in", line))
    verbs = "".join(f"| `numaudit {name}` | {what} |\n" for name, what in VERBS.items())
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    filled = _fill(readme, "example: report --root tests/fixtures/kubernetes-four-nodes.tar.xz", f"```\n{shown}\n```\n")
    filled = _fill(filled, "verbs", f"| verb | answers |\n| --- | --- |\n{verbs}")
    matches_golden("README.md", filled)
