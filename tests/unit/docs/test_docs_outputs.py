"""What the pages show as output of a command is what it prints of that captured host. `make golden` rewrites it."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import fill as wrapped
from typing import TextIO

import pytest

from documentation.marked_places import fill
from fixture_trees import FIXTURES
from monitoring import alert_cases
from monitoring.alert_cases import Case
from numaudit.cli.main import VERBS, call
from numaudit.engine.engine import Engine
from numaudit.engine.observer import Observer
from numaudit.evaluation.hint_outcomes import outcome_of_reason
from numaudit.exporters.exposition import evaluate_containers
from numaudit.exporters.series import SeriesTracker
from numaudit.kernel.host import Host
from screens.pages import TOP

_EXAMPLE = re.compile(r"<!-- example: (.*?) -->")
_ARCHIVE = re.compile(r"tests/fixtures/([\w-]+)\.tar\.xz")

Call = Callable[[Sequence[str], TextIO | None], str]
"""Arguments of numaudit and its stdin -> what it printed."""


@dataclass(frozen=True, slots=True)
class Example:
    """One command of a page."""

    text: str
    """As the page names it."""

    @property
    def arguments(self) -> list[str]:
        """The captured trees as folders, which need not be unpacked for each command."""
        words = shlex.split(re.split(r" [|<] ", self.text)[0])
        return [_ARCHIVE.sub(lambda found: str(FIXTURES / found[1]), word) for word in words]

    @property
    def filter(self) -> str | None:
        _, bar, rest = self.text.partition(" | ")
        return rest if bar else None

    @property
    def stdin(self) -> str | None:
        """Name of a file."""
        found = re.search(r" < (\S+)", self.text)
        return found[1] if found else None

    @property
    def shown(self) -> str:
        return f"$ numaudit {re.sub(r' --root [^ ]+', '', self.text)}"


def examples(page: str) -> Iterator[Example]:
    yield from (Example(text) for text in _EXAMPLE.findall(page))


def filled(page: str, call: Call) -> str:
    """The page with the present output of each of its examples."""
    files = _files(page)
    for one in examples(page):
        stdin = None if one.stdin is None else io.TextIOWrapper(io.BytesIO(files[one.stdin].encode()))
        output = call(one.arguments, stdin)
        if one.filter is not None:
            done = subprocess.run(
                ["/bin/sh", "-c", one.filter], input=output, capture_output=True, text=True, check=True
            )
            output = done.stdout
        output = output.replace(str(FIXTURES), "tests/fixtures")
        lines = [line.rstrip() for line in output.rstrip().splitlines()]
        assert lines, f"{one.text} prints nothing"
        page = fill(page, f"example: {one.text}", "\n".join(["```", one.shown, *lines, "```", ""]))
    return page


def _files(page: str) -> Mapping[str, str]:
    return dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE))


def pages_with_examples() -> list[Path]:
    """README.md has an excerpt, and a test of its own."""
    return [page for page in sorted((TOP / "docs").glob("*.md")) if _EXAMPLE.search(page.read_text(encoding="utf-8"))]


MatchesGolden = Callable[[str, str], None]


@pytest.mark.parametrize("page", pages_with_examples(), ids=lambda page: page.name)
def test_a_page_shows_what_its_commands_print(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, matches_golden: MatchesGolden, page: Path
) -> None:
    def printed(arguments: Sequence[str], stdin: TextIO | None) -> str:
        monkeypatch.setattr("sys.stdin", stdin)
        status = call(list(arguments))
        out, err = capsys.readouterr()
        assert (status, err) in ((0, ""), (1, "")), arguments
        return out

    text = page.read_text(encoding="utf-8")
    matches_golden(str(page.relative_to(TOP)), filled(text, printed))


EXAMPLES = sorted((TOP / "docs/examples").glob("*.yaml"))


def test_every_example_is_listed_in_the_documentation() -> None:
    page = (TOP / "docs/simulate.md").read_text(encoding="utf-8")
    assert {path.stem for path in EXAMPLES} <= set(re.findall(r"examples/([\w-]+)\.yaml", page))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_output_of_an_example_is_known(
    capsys: pytest.CaptureFixture[str], matches_golden: MatchesGolden, path: Path
) -> None:
    assert call(["simulate", str(path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    matches_golden(f"tests/golden/examples/{path.stem}.txt", out)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_refusal_has_the_name_that_the_refused_pods_status_gives_it(
    capsys: pytest.CaptureFixture[str], path: Path
) -> None:
    assert call(["simulate", str(path), "-o", "json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    refused = [one for one in (*steps, *(pod for step in steps for pod in step["pods"])) if one.get("outcome")]
    for one in refused:
        if one["reason"] is not None:
            assert one["outcome"] == outcome_of_reason(one["reason"], one["message"])


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


Labels = Mapping[str, str]
PAGE = "docs/incident.md"
BEFORE, AFTER = "misaligned-node", "kubernetes-four-nodes"
DRIFTED, MOVED = "gu-init-numanode", "gu-small-numanode"
FIGURES: tuple[tuple[str, str, str, Labels], ...] = (
    (DRIFTED, "numaudit_container_verdict", "verdict", {}),
    (DRIFTED, "numaudit_container_allowed_node", "numa_node", {"resource": "memory"}),
    (MOVED, "numaudit_container_verdict", "verdict", {}),
    (MOVED, "numaudit_container_allowed_node", "numa_node", {"resource": "cpu"}),
)
"""Pod, metric, the label that says it, and labels that are given."""


@cache
def exported(tree: str, pod: str, metric: str) -> tuple[dict[str, str], ...]:
    """The labels of a pod's series of this metric, beside those of the container."""
    report = Engine(Observer.of(Host.under(FIXTURES / tree))).tick().report
    found = evaluate_containers(SeriesTracker().update(report.containers, report.taken_at, (0,)))
    return tuple(
        dict(zip(family.metric.labels, labels, strict=True))
        for family in found.families
        if family.metric.full_name == metric
        for key, labels, value in family.points
        if key and tuple(key) == ("default", pod, "app") and value == 1
    )


def shown(tree: str, pod: str, metric: str, label: str, given: Labels) -> str:
    chosen = [one for one in exported(tree, pod, metric) if given.items() <= one.items()]
    return ",".join(sorted(one[label] for one in chosen))


def the_case() -> Case:
    """What Prometheus is tested with: tests/integration/test_alert_rules.py."""
    (case,) = [one for one in alert_cases.cases() if one.fires and one.fires["labels"].get("pod") == DRIFTED]
    return case


def test_the_alert_is_fired_by_what_the_agent_exports_of_the_captured_node() -> None:
    case = the_case()
    of_the_case = {
        (
            one.name,
            tuple(
                sorted(
                    (name, value) for name, value in one.labels.items() if name not in ("namespace", "pod", "container")
                )
            ),
        )
        for one in case.series
        if one.labels.get("pod") == DRIFTED
    }
    names = {name for name, _ in of_the_case}
    assert of_the_case == {
        (name, tuple(sorted(labels.items()))) for name in names for labels in exported(BEFORE, DRIFTED, name)
    }


def test_the_page_shows_that_alert_and_the_figures_before_and_after(matches_golden: MatchesGolden) -> None:
    case = the_case()
    (alert,) = [one for _, one in alert_cases.alerts() if one["alert"] == case.about]
    assert case.fires is not None
    text = [
        f"{alert['alert']} ({alert['labels']['severity']})",
        alert["annotations"]["summary"],
        wrapped(case.fires["description"], 110),
        alert["annotations"]["runbook_url"],
    ]
    page = (TOP / PAGE).read_text(encoding="utf-8")
    page = fill(page, f"alert: {DRIFTED}", "\n".join(["```", *text, "```", ""]))
    rows = [
        f"| {pod} | `{metric}` | {', '.join([label, *given.values()])} "
        f"| {shown(BEFORE, pod, metric, label, given)} | {shown(AFTER, pod, metric, label, given)} |"
        for pod, metric, label, given in FIGURES
    ]
    head = ["| pod | metric | label | before | after |", "| --- | --- | --- | --- | --- |"]
    matches_golden(PAGE, fill(page, "figures", "\n".join([*head, *rows, ""])))
