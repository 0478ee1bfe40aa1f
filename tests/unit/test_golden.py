"""The whole output for every captured host, word for word. `make golden` rewrites the expected files."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from documentation import json_lines, schemas
from documentation.documents import without_times
from fixture_trees import FIXTURES
from made_up.scenarios import pod
from numaudit.cli.main import call
from numaudit.evaluation.setup import STATES
from screens import page_text
from screens.pages import TOP
from screens.top_screen import PATIENCE, captured, screen

HOSTS = sorted(sys.parent.name for sys in FIXTURES.glob("*/sys"))

WHOLE = ("cgroup-v1", "kubernetes-cluster", "misaligned-node")
PAGES = (*WHOLE, "ranks", "tiered")
"""With all that a page can show; what it says of a container is what the table says."""

MatchesGolden = Callable[[str, str], None]


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert call(list(arguments)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    if "--root" in arguments:  # where the checkout is, is no part of the output
        out = out.replace(arguments[arguments.index("--root") + 1], "ROOT")
    return out


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize(("output", "suffix"), [("table", "txt"), ("wide", "wide.txt")])
def test_the_report_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str],
    fixtures: Path,
    matches_golden: MatchesGolden,
    name: str,
    output: str,
    suffix: str,
) -> None:
    text = _output(capsys, "report", "--root", str(fixtures / name), "-o", output)
    matches_golden(f"tests/golden/{name}.{suffix}", text)


@pytest.mark.parametrize("name", WHOLE)
def test_the_report_document_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    """Three hosts fill every field: a line for each container, and for each value of the smallest host."""
    document = without_times(_output(capsys, "report", "--root", str(fixtures / name), "-o", "json"))
    text = json_lines.written(document) if name == "cgroup-v1" else json_lines.written(document, lists=1)
    matches_golden(f"tests/golden/{name}.json", text)


def _judged(container: dict[str, Any]) -> str:
    """What a report concludes of a container, on a line."""
    named = [container[key] for key in ("namespace", "pod", "container")]
    verdict, intended, outcome = (container[key] or {} for key in ("verdict", "intended", "hintOutcome"))
    facts = {
        "verdict": f"{verdict.get('name')} ({verdict.get('reason')})",
        "causes": [one["cause"] for one in verdict.get("causes", ())],
        "promised": intended.get("memoryNodes"),
        "outcome": outcome.get("outcome"),
        "bytes": [container[f"{key}Bytes"] for key in ("judged", "aligned", "remote")],
        "findings": container["findings"],
    }
    name = "/".join(named) if all(named) else container["path"]
    return f"{name}: {', '.join(f'{key} {value}' for key, value in facts.items() if value not in (None, []))}\n"


def test_what_is_concluded_of_each_container_of_each_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden
) -> None:
    text = ""
    for name in HOSTS:
        report = json.loads(_output(capsys, "report", "--root", str(fixtures / name), "-o", "json"))
        found = [_judged(one) for one in report["containers"] if one["verdict"] is not None]
        text += f"{name}: {[one['name'] for one in report['findings']]}\n" + "".join(f"  {one}" for one in found)
    matches_golden("tests/golden/containers.txt", text)


def test_how_each_captured_host_is_set_up_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden
) -> None:
    text = ""
    for name in HOSTS:
        rules = json.loads(_output(capsys, "setup", "--root", str(fixtures / name), "-o", "json"))["rules"]
        text += f"{name}:\n"
        for state in STATES:
            found = [one for one in rules if one["state"] == state]
            if state in ("not-judged", "pass"):
                text += f"  {state}: {', '.join(one['id'] for one in found)}\n"
            else:
                text += "".join(f"  {state}: {one['id']}: {said}\n" for one in found for said in one["messages"])
    matches_golden("tests/golden/setup.txt", text)


@pytest.mark.parametrize("name", HOSTS)
def test_the_topology_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    matches_golden(f"tests/golden/{name}.topology.txt", _output(capsys, "topology", "--root", str(fixtures / name)))


@pytest.mark.parametrize("name", ["misaligned-node", "tiered"])
def test_the_drawing_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    text = _output(capsys, "topology", "--root", str(fixtures / name), "-o", "svg")
    matches_golden(f"tests/golden/{name}.topology.svg", text.replace("><", ">\n<"))


@pytest.mark.parametrize("name", PAGES)
def test_the_page_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    page = _output(capsys, "report", "--root", str(fixtures / name), "-o", "html")
    text = "".join(f"{line}\n" for line in page_text.lines(page))
    text = re.sub(r"so since [-\d]+ [:\d]+ UTC", "so since TIME", text)  # a spill is certain at the second tick
    matches_golden(f"tests/golden/{name}.page.txt", text)


@pytest.mark.parametrize("which", ["vllm-0", "job_77"])
def test_the_processes_of_a_made_up_host_are_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, which: str
) -> None:
    where = ("--processes", "--root", str(fixtures / "ranks"))
    matches_golden(f"tests/golden/ranks.{which}.txt", _output(capsys, "report", which, *where))
    document = without_times(_output(capsys, "report", which, *where, "-o", "json"))
    matches_golden(f"tests/golden/ranks.{which}.json", json_lines.written(document["containers"], lists=1))


def test_the_headroom_and_the_pages_on_the_pods_of_a_captured_host_are_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden
) -> None:
    for verb in (["headroom"], ["explain", "default/*"]):
        text = _output(capsys, *verb, "--root", str(fixtures / "misaligned-node"))
        matches_golden(f"tests/golden/misaligned-node.{verb[0]}.txt", text)


@pytest.mark.parametrize(
    ("name", "memory", "where", "output"),
    [
        ("kubernetes-four-nodes", "900Mi", ("--root", str(FIXTURES / "kubernetes-four-nodes")), "table"),
        ("walk-through", "28Gi", ("--node", str(TOP / "docs/examples/walk-through.yaml")), "table"),
        ("walk-through", "28Gi", ("--node", str(TOP / "docs/examples/walk-through.yaml")), "json"),
    ],
)
def test_the_room_that_a_pod_needs_is_known(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    matches_golden: MatchesGolden,
    name: str,
    memory: str,
    where: tuple[str, ...],
    output: str,
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(pod("large", memory, cpu="500m")))
    arguments = ("fit", "-f", str(tmp_path / "pod.json"), "--make-room", *where, "-o", output)
    text = _output(capsys, *arguments)
    if output == "json":
        text = json_lines.written(without_times(text))
    matches_golden(f"tests/golden/{name}.make-room.{'json' if output == 'json' else 'txt'}", text)


def test_the_schema_in_the_documentation_is_that_of_the_program(matches_golden: MatchesGolden) -> None:
    matches_golden("docs/schema.json", schemas.page())


def test_a_document_is_valid_by_the_schema_of_the_documentation() -> None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 (a second, and nothing else here needs it)

    validator = Draft202012Validator(json.loads((TOP / "docs/schema.json").read_text()))
    report = json.loads((TOP / "tests/golden/misaligned-node.json").read_text())
    validator.validate(report)
    del report["containers"][0]["verdict"]["name"]
    assert not validator.is_valid(report)


@pytest.mark.parametrize(("width", "height"), [(120, 40), (200, 60)])
def test_a_larger_live_screen_of_a_captured_host_is_known(
    fixtures: Path, matches_golden: MatchesGolden, width: int, height: int
) -> None:
    async def draw() -> str:
        async with screen(captured(fixtures / "misaligned-node"), width, height) as shown:
            await shown.shows("CONTAINER")
            return f"{shown.text()}\n"

    matches_golden(f"tests/golden/misaligned-node.top-{width}x{height}.txt", asyncio.run(draw()))


@pytest.mark.parametrize("name", ["misaligned-node", "eight-nodes", "cgroup-v1"])
def test_the_live_screen_of_a_captured_host_is_known(
    fixtures: Path, matches_golden: MatchesGolden, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 columns and 24 lines; then those of its first container's page that fit."""
    monkeypatch.setattr("numaudit.cli.observe.top_feed.MAPPINGS_BUDGET", PATIENCE)  # a busy machine needs more than two

    async def draw() -> str:
        async with screen(captured(fixtures / name)) as shown:
            await shown.shows("CONTAINER")
            rows = shown.text()
            await shown.press("enter")
            await shown.has_read()
            await shown.shows("what to do", "promised\n")
            return f"{rows}\n\n{shown.text()}\n"

    matches_golden(f"tests/golden/{name}.top.txt", asyncio.run(draw()))
