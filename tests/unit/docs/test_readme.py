"""The README shows real output: `make golden` rewrites its example and its table of verbs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from marked_places import fill
from numaudit.cli.main import VERBS, call

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]
LEFT_OUT = re.compile(r"[A-Z][A-Z ]+ = |Sizes are |\w[\w ]+: unavailable|Read in")
"""Lines of the legend, and of what this host cannot measure. The tables of nodes are left out, too."""


def _excerpt(report: str) -> str:
    """The sentence, the table of containers, and what is wrong and why."""
    parts = [part for part in report.rstrip().split("\n\n") if not part.startswith("NODE ")]
    lines = "\n\n".join(parts).splitlines()
    return "\n".join(line for line in lines if not LEFT_OUT.match(line))


def test_the_readme_shows_the_real_report_and_all_verbs(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden
) -> None:
    assert call(["report", "--root", str(fixtures / "misaligned-node"), "--top", "3"]) == 0
    shown = f"```\n{_excerpt(capsys.readouterr().out)}\n```\n"
    verbs = "".join(f"| `{name}` | {verb.help} |\n" for name, verb in VERBS.items())
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    filled = fill(readme, "example: report --root tests/fixtures/misaligned-node.tar.xz --top 3", shown)
    filled = fill(filled, "verbs", f"| verb | answers |\n| --- | --- |\n{verbs}")
    matches_golden("README.md", filled)


def test_the_readmes_example_is_a_misaligned_node() -> None:
    document = json.loads((TOP / "tests/golden/misaligned-node.json").read_text(encoding="utf-8"))
    verdicts = {one["pod"]: one["verdict"]["name"] for one in document["containers"] if one["verdict"] is not None}
    assert verdicts["gu-small-numanode"] == "cpu-remote"
    assert verdicts["gu-init-numanode"] == "drifted"
