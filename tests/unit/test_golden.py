"""The whole output for every captured host, word for word. `make golden` rewrites the expected files."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from documentation import json_lines, schemas
from documentation.documents import without_times
from fixture_trees import FIXTURES
from made_up.scenarios import pod
from numaudit.cli.main import call
from screens import page_text
from screens.pages import TOP
from screens.top_screen import PATIENCE, captured, screen

SCHEMAS = schemas.files()
HOSTS = sorted(sys.parent.name for sys in FIXTURES.glob("*/sys"))

VALUE_BY_VALUE = ("cgroup-v1", "kubernetes-cluster", "misaligned-node")

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


@pytest.mark.parametrize("name", HOSTS)
def test_the_report_document_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    """A diff shows each value of three hosts, which fill every field that any host fills, and of others a container."""
    document = without_times(_output(capsys, "report", "--root", str(fixtures / name), "-o", "json"))
    text = json_lines.written(document) if name in VALUE_BY_VALUE else json_lines.written(document, lists=1)
    matches_golden(f"tests/golden/{name}.json", text)


@pytest.mark.parametrize("name", HOSTS)
def test_the_topology_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    matches_golden(f"tests/golden/{name}.topology.txt", _output(capsys, "topology", "--root", str(fixtures / name)))


@pytest.mark.parametrize("name", HOSTS)
def test_the_drawing_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    text = _output(capsys, "topology", "--root", str(fixtures / name), "-o", "svg")
    matches_golden(f"tests/golden/{name}.topology.svg", text.replace("><", ">\n<"))


@pytest.mark.parametrize("name", HOSTS)
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
    matches_golden(f"tests/golden/ranks.{which}.json", json_lines.written(document["containers"]))


@pytest.mark.parametrize("name", ["kubernetes-four-nodes", "misaligned-node"])
def test_the_headroom_of_a_captured_host_is_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    text = _output(capsys, "headroom", "--root", str(fixtures / name))
    matches_golden(f"tests/golden/{name}.headroom.txt", text)


@pytest.mark.parametrize("name", ["kubernetes-four-nodes", "misaligned-node"])
def test_the_pages_on_the_pods_of_a_captured_host_are_known(
    capsys: pytest.CaptureFixture[str], fixtures: Path, matches_golden: MatchesGolden, name: str
) -> None:
    text = _output(capsys, "explain", "default/*", "--root", str(fixtures / name))
    matches_golden(f"tests/golden/{name}.explain.txt", text)


@pytest.mark.parametrize(("output", "suffix"), [("table", "txt"), ("json", "json")])
@pytest.mark.parametrize(
    ("name", "memory", "where"),
    [
        ("kubernetes-four-nodes", "900Mi", ("--root", str(FIXTURES / "kubernetes-four-nodes"))),
        ("walk-through", "28Gi", ("--scenario", str(TOP / "docs/examples/walk-through.yaml"))),
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
    suffix: str,
) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(pod("large", memory, cpu="500m")))
    arguments = ("fit", "-f", str(tmp_path / "pod.json"), "--make-room", *where, "-o", output)
    text = _output(capsys, *arguments)
    if output == "json":
        text = json_lines.written(without_times(text))
    matches_golden(f"tests/golden/{name}.make-room.{suffix}", text)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_in_the_documentation_is_that_of_the_program(matches_golden: MatchesGolden, name: str) -> None:
    matches_golden(f"docs/schemas/{name}", json_lines.written(SCHEMAS[name]))


def test_a_report_is_valid_by_the_files_of_the_documentation_and_none_is_left_over() -> None:
    from jsonschema import Draft202012Validator  # noqa: PLC0415 (a second, and nothing else here needs it)
    from referencing import Registry, Resource  # noqa: PLC0415

    files = {file.name: json.loads(file.read_text()) for file in (TOP / "docs/schemas").iterdir()}
    assert files.keys() == SCHEMAS.keys()
    registry = Registry().with_resources((name, Resource.from_contents(one)) for name, one in files.items())
    validator = Draft202012Validator(files["Report.schema.json"], registry=registry)
    report = json.loads((TOP / "tests/golden/misaligned-node.json").read_text())
    validator.validate(report)
    del report["containers"][0]["verdict"]["name"]
    assert [error.json_path for error in validator.iter_errors(report)] == ["$.containers[0].verdict"]


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
            await shown.shows("  QoS ")
            return f"{rows}\n\n{shown.text()}\n"

    matches_golden(f"tests/golden/{name}.top.txt", asyncio.run(draw()))
