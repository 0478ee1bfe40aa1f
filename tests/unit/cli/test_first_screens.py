"""The first screen of each verb, 80 columns by 24 lines, word for word. `make golden` rewrites the expected files."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from numaudit.cli import EXIT_FINDINGS
from numaudit.cli.main import call
from screens.pages import TOP

COLUMNS, LINES = 80, 24
MISALIGNED, EIGHT_NODES = "misaligned-node", "eight-nodes"
SCREENS = {
    "report": (MISALIGNED, ("report",)),
    "report-of-nothing-misaligned": ("kubernetes-four-nodes", ("report",)),
    "report-of-a-pod": (MISALIGNED, ("report", "default/gu-init-numanode")),
    "report-of-a-pod-on-eight-nodes": (EIGHT_NODES, ("report", "prod/cache-7d9f")),
    "explain": (MISALIGNED, ("explain", "default/gu-init-numanode")),
    "explain-a-refused-pod": (MISALIGNED, ("explain", "default/gu-toobig-numanode")),
    "headroom": (MISALIGNED, ("headroom",)),
    "forecast": (MISALIGNED, ("forecast",)),
    "doctor": (MISALIGNED, ("doctor",)),
    "topology": (MISALIGNED, ("topology",)),
    "topology-of-eight-nodes": (EIGHT_NODES, ("topology",)),
    "setup": ("kubernetes-cluster", ("setup",)),
    "state-show": (MISALIGNED, ("state", "show")),
}
STYLE = re.compile(r"\x1b\[[0-9;]*m")
POD = """
metadata: {name: large}
spec:
  containers:
  - {name: app, resources: {limits: {cpu: 500m, memory: 900Mi}}}
"""

MatchesGolden = Callable[[str, str], None]


class Terminal(io.StringIO):
    """Standard output, as a terminal of this size."""

    def isatty(self) -> bool:
        return True


def first_screen(*words: str, folder: Path | None = None, columns: int = COLUMNS, most: int = LINES) -> str:
    """What a terminal of this size shows of a verb before somebody scrolls."""
    terminal = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("COLUMNS", str(columns)), ("LINES", str(LINES)), ("TERM", "xterm")):
            patch.setenv(name, value)
        patch.setattr(sys, "stdout", terminal)
        assert call(list(words)) in (0, EXIT_FINDINGS)
    text = STYLE.sub("", terminal.getvalue())
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(len(line) for line in lines if not re.match(r" +(echo|find) ", line)) <= columns, (
        "but a command is one line"
    )
    shown = "".join(f"{line}\n" for line in lines[: most - 1])
    return shown if folder is None else shown.replace(str(folder), "ROOT")


@pytest.mark.parametrize("name", SCREENS)
def test_the_first_screen_about_a_captured_host_is_known(
    name: str, fixtures: Path, matches_golden: MatchesGolden
) -> None:
    host, words = SCREENS[name]
    screen = first_screen(*words, "--root", str(fixtures / host), folder=fixtures / host)
    matches_golden(f"tests/golden/first-screens/{name}.txt", screen)


def test_the_first_screen_of_fit_is_known(fixtures: Path, matches_golden: MatchesGolden, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    screen = first_screen("fit", "-f", str(tmp_path / "pod.yaml"), "--root", str(fixtures / MISALIGNED))
    matches_golden("tests/golden/first-screens/fit.txt", screen)


def test_the_first_screen_of_a_simulation_is_known(matches_golden: MatchesGolden) -> None:
    screen = first_screen("simulate", str(TOP / "docs/examples/walk-through.yaml"))
    matches_golden("tests/golden/first-screens/simulate.txt", screen)


def test_the_first_screen_of_a_report_has_the_misaligned_containers_and_what_to_do(fixtures: Path) -> None:
    shown = " ".join(first_screen("report", "--root", str(fixtures / MISALIGNED)).split())
    assert "default/gu-init-numanode/app: drifted" in shown and "default/gu-small-numanode/app: cpu-remote" in shown
    assert shown.count("-> Find out who wrote to its cpuset") == 2


@pytest.mark.parametrize(("columns", "gone"), [(80, ["STRANDED", "USES PROMISED"]), (100, ["STRANDED"])])
def test_a_narrow_headroom_keeps_what_is_not_zero_and_explains_only_what_it_shows(
    fixtures: Path, columns: int, gone: list[str]
) -> None:
    text = first_screen("headroom", "--root", str(fixtures / "kubernetes-cluster"), columns=columns)
    (header,) = (" ".join(line.split()) for line in text.splitlines() if line.startswith("NODE "))
    assert header.startswith("NODE SYSTEM ALLOCATABLE PROMISED FREE FREE CPUS UNPROMISED USES FREE")  # no GROUP: alone
    assert f"left out: {', '.join(gone)} (all 0)\n" in text
    for title in ("STRANDED", "USES FREE", "USES PROMISED"):
        assert (f"{title} =" in text, title in header) == (title not in gone, title not in gone)


@pytest.mark.parametrize("verb", [("report", "--nodes"), ("headroom",), ("forecast",), ("doctor",)])
@pytest.mark.parametrize("host", [MISALIGNED, "kubernetes-cluster", EIGHT_NODES])
def test_no_screen_has_two_blank_lines_in_a_row(
    verb: tuple[str, ...], host: str, fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = ("--top", "1") if verb[0] == "report" else ()
    call([*verb, *top, "--root", str(fixtures / host)])
    assert "\n\n\n" not in capsys.readouterr().out


@pytest.mark.parametrize("columns", [76, 80, 92, 96, 100, 120])
def test_a_narrow_report_keeps_what_is_wrong_a_line_for_each_container(fixtures: Path, columns: int) -> None:
    text = first_screen("report", "--root", str(fixtures / MISALIGNED), columns=columns, most=99)
    head, *rows = [line for line in text.partition("\nCONTAINER")[2].splitlines() if line][:12]
    assert " ".join(head.split()).endswith("REMOTE VERDICT WHY") and len(rows) == 11
    assert " ".join(rows[0].split()).endswith("100Mi cpu-remote CPUs on 1; promised 0")
    assert rows[1].split()[-6] == "." and "0" not in rows[2].split()
    names = [row.split()[0] for row in rows]
    assert columns < 92 or "default/gu-small-numanode/app" in names, "names before nodes"
    system = rows[names.index("/system")]
    if columns < 120:
        assert "N2:42.7Mi" in system and " +" in system and "other nodes (+)" in " ".join(text.split())


def test_a_command_of_an_explanation_is_one_line_that_can_be_copied(fixtures: Path) -> None:
    words = ("explain", "default/gu-init-numanode", "--root", str(fixtures / MISALIGNED))
    text = first_screen(*words, most=99)
    (command,) = [line for line in text.splitlines() if line.startswith("  echo ")]
    assert command.startswith("  echo 2 > /sys/fs/cgroup/kubepods/") and command.endswith("/cpuset.mems")
    assert "\nprocesses\n" not in text and "\ncost\n" not in text and "\n-o wide also shows" in text
    assert len(text.splitlines()) <= 41
