"""The README shows real output: `make golden` rewrites its example and its table of verbs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from marked_places import fill
from numaudit.cli.main import VERBS

MatchesGolden = Callable[[str, str], None]
TOP = Path(__file__).parents[3]


def test_the_readme_shows_the_real_report_and_all_verbs(matches_golden: MatchesGolden) -> None:
    report = (TOP / "tests/golden/misaligned-node.txt").read_text(encoding="utf-8")
    shown = "\n".join(line for line in report.splitlines() if not re.match(r"\w[\w ]+: unavailable|Read in", line))
    verbs = "".join(f"| `numaudit {name}` | {verb.help} |\n" for name, verb in VERBS.items())
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    filled = fill(readme, "example: report --root tests/fixtures/misaligned-node.tar.xz", f"```\n{shown}\n```\n")
    filled = fill(filled, "verbs", f"| verb | answers |\n| --- | --- |\n{verbs}")
    matches_golden("README.md", filled)


def test_the_readmes_example_is_a_misaligned_node() -> None:
    document = json.loads((TOP / "tests/golden/misaligned-node.json").read_text(encoding="utf-8"))
    verdicts = {one["pod"]: one["verdict"]["name"] for one in document["containers"] if one["verdict"] is not None}
    assert verdicts["gu-small-numanode"] == "cpu-remote"
    assert verdicts["gu-init-numanode"] == "drifted"
