"""Every command, flag, setting, metric, make target, file and link that the documents name is there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml

from numaudit.cli.main import main
from numaudit.config.settings import KEYS
from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.metric import PREFIX

TOP = Path(__file__).parents[3]
PAGES = sorted(
    page for where in ("*.md", ".github/**/*.md", "docs/**/*.md", "tests/**/README.md") for page in TOP.glob(where)
)
FOREIGN_FLAGS = {"--root-dir", "--reserved-memory", "--enable-feature", "--system-site-packages"}
"""Of the kubelet, of Prometheus, and of Python's venv."""
MADE_BY_RUNNING = (".venv", ".cache")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))


def _code(page: Path) -> Iterator[str]:
    """Each line of code blocks and each code span. Output that a command printed is no code."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r"<!-- (?:example|lab).*?<!-- end -->", "", text, flags=re.DOTALL)
    for block in re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield from block.splitlines()
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    yield from (" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose))


def _command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and the words after its name."""
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def _flags(command: click.Command) -> set[str]:
    own = {flag for one in command.params for flag in one.opts} | {"--help", "-h"}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            own |= _flags(found)
    return own


def _wrong(line: str) -> list[str]:
    """What is wrong with a line that calls numaudit."""
    if line.startswith("kubectl "):
        line = line.partition(" -- ")[2]
    called = re.search(r"(?:^|[ /])numaudit(?P<words> [^|;#]*)$", line.split(" #", maxsplit=1)[0].rstrip())
    if called is None:
        return []
    words = shlex.split(called["words"].partition(" -- ")[0].replace("…", ""))  # after that comes somebody's command
    command, rest = _command(words)
    if isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z]+", rest[0]):
        return [f"no verb {rest[0]!r}"]
    flags = _flags(command)
    return [
        f"no flag {word}" for word in rest if word.startswith("-") and word != "-" and word.split("=")[0] not in flags
    ]


@pages
def test_every_command_that_a_page_names_can_be_typed(page: Path) -> None:
    assert {line: wrong for line in _code(page) if (wrong := _wrong(line))} == {}


def test_a_command_that_is_not_there_would_be_noticed() -> None:
    assert _wrong("numaudit forecast POD") == ["no verb 'forecast'"]
    assert _wrong("sudo .venv/bin/numaudit report --live") == ["no flag --live"]
    assert _wrong("numaudit state verify FILE --duration 10s") == ["no flag --duration"]
    assert _wrong("numaudit state verify [FILE] -o json") == []
    assert _wrong("kubectl -n numaudit exec daemonset/numaudit -- numaudit doktor") == ["no verb 'doktor'"]
    assert _wrong("kubectl -n numaudit rollout restart daemonset/numaudit") == []


@pages
def test_every_flag_that_a_page_names_alone_is_one_of_ours_or_known_to_be_anothers(page: Path) -> None:
    named = {re.split(r"[ =]", span)[0] for span in _code(page) if span.startswith("-")}
    flags = {one for one in named if re.fullmatch(r"--?[a-z][a-z-]*", one)}
    assert flags <= _flags(main) | FOREIGN_FLAGS


@pages
def test_every_target_of_make_that_a_page_names_is_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (TOP / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {match[1] for line in _code(page) if (match := re.match(r"make ([a-z]+)", line))}
    assert named <= targets


@pages
def test_every_metric_that_a_page_names_is_exported(page: Path) -> None:
    named = {name for span in _code(page) for name in re.findall(rf"\b{PREFIX}[a-z_]+\b", span)}
    families = {metric.full_name for metric in METRICS}
    assert {name for name in named if name not in families and name.removesuffix("_total") not in families} == set()


@pages
def test_every_setting_that_a_page_names_is_one(page: Path) -> None:
    sections = {path.partition(".")[0] for path in KEYS if "." in path}
    dotted = {span for span in _code(page) if re.fullmatch(r"[a-z]+\.[a-z_]+", span)}
    named = {span for span in dotted if span.partition(".")[0] in sections and not (TOP / span).exists()}
    assert named - set(KEYS) == set()


@pages
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)}
    assert {link for link in links if link and not (page.parent / link).exists()} == set()
    named = {span for span in _code(page) if re.fullmatch(r"(?:agent|bpf|deploy|docs|tests)/[\w./-]+", span)}
    assert {name for name in named if not (TOP / name).exists() and "/x." not in name} == set()


def test_the_pod_monitor_keeps_the_labels_of_the_measured_containers() -> None:
    monitor = yaml.safe_load((TOP / "deploy/components/monitoring/podmonitor.yaml").read_text(encoding="utf-8"))
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["honorLabels"] is True
    assert endpoint["path"] == "/metrics"
