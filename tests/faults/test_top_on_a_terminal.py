"""`numaudit top` as people meet it: on a real terminal, which it leaves as it was, however it ends."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from screens.tmux import Terminal, terminal

COMMAND = f"{sys.executable} -c 'from numaudit.cli.start import run; run()' top"
WORST = ">default/gu-small-numanode/app"


@pytest.fixture
def shell() -> Iterator[Terminal]:
    with terminal() as shown:
        yield shown


@pytest.fixture
def captured(fixtures: Path) -> str:
    return f"{COMMAND} --root {fixtures / 'misaligned-node'}"


def _start(shell: Terminal, command: str) -> None:
    """Then the shell says what it ended with, and whether the modes of the terminal are those from before."""
    shell.run(f'before=$(stty -g); {command}; code=$?; [ "$before" = "$(stty -g)" ]; echo ended with $code, $?.')


def _is_left_as_it_was(shell: Terminal, code: int) -> None:
    shell.shows(f"ended with {code}, 0.")
    assert shell.state("alternate_on", "cursor_flag", "keypad_flag", "mouse_any_flag") == ["0", "1", "0", "0"]


def test_it_can_be_read_filtered_opened_and_left(shell: Terminal, captured: str) -> None:
    _start(shell, captured)
    text = shell.shows(WORST, "q quit")
    assert "2 of 8 promised containers are misaligned" in text
    assert len(text.splitlines()) == 24
    shell.type("/sidecar aligned")
    shell.shows("filter: sidecar aligned", ">default/gu-sidecar-numanode/app")
    shell.press("Down", "Enter")
    shell.shows("2 of 2 (30 in all)", ">default/gu-sidecar-numanode/side")
    shell.press("Enter")
    shell.shows("promised", "CPU 6 on node 3")
    shell.press("Escape")
    shell.shows(">default/gu-sidecar-numanode/side")
    shell.press("Escape")
    shell.hides("filter: sidecar")
    shell.press("q")
    _is_left_as_it_was(shell, 0)


def test_another_size_of_the_terminal_is_drawn_at_once(shell: Terminal, captured: str) -> None:
    """Also where COLUMNS and LINES were exported, as under xdist."""
    _start(shell, f"COLUMNS=80 LINES=24 {captured}")
    shell.shows(WORST)
    shell.resize(60, 15)
    narrow = shell.sees(_has_its_keys_in_line(15), "keys in the last line")
    assert max(map(len, narrow.splitlines())) <= 60
    assert "JUDGED" not in narrow
    shell.resize(200, 50)
    wide = shell.sees(_has_its_keys_in_line(50), "keys in the last line")
    assert "BY NODE" in wide
    assert "default/be-numanode/app" in wide


def _has_its_keys_in_line(last: int) -> Callable[[str], bool]:
    return lambda text: [number for number, line in enumerate(text.splitlines(), 1) if "q quit" in line] == [last]


def test_the_shell_can_stop_it_and_go_on_with_it(shell: Terminal, captured: str) -> None:
    _start(shell, captured)
    shell.shows(WORST)
    shell.press("C-z")
    shell.shows("Stopped")
    assert shell.state("alternate_on", "mouse_any_flag") == ["0", "0"]
    shell.run("fg")
    shell.shows(WORST, "2 of 8 promised", "NODE", "q quit")
    assert shell.state("alternate_on", "mouse_any_flag") == ["1", "1"]
    shell.press("q")
    shell.hides(WORST)
    shell.run("jobs; echo none is le''ft")
    assert "Stopped" not in shell.shows("none is left")
    assert shell.state("alternate_on", "cursor_flag") == ["0", "1"]


def test_a_stop_from_outside_gives_the_terminal_back(shell: Terminal, captured: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    _start(shell, f"(echo $BASHPID > {pid}; exec {captured})")
    shell.shows(WORST)
    os.kill(int(pid.read_text()), signal.SIGTSTP)
    shell.shows("Stopped")
    assert shell.state("alternate_on", "mouse_any_flag") == ["0", "0"]
    shell.run("fg")
    shell.shows(WORST, "q quit")
    shell.press("q")
    shell.hides(WORST)
    assert shell.state("alternate_on", "mouse_any_flag") == ["0", "0"]


def test_ctrl_c_leaves_the_terminal_as_it_was(shell: Terminal, captured: str) -> None:
    _start(shell, captured)
    shell.shows(WORST)
    shell.press("C-c")
    _is_left_as_it_was(shell, 130)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_terminal_as_it_was(
    shell: Terminal, captured: str, number: signal.Signals, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    _start(shell, f"(echo $BASHPID > {pid}; exec {captured})")
    shell.shows(WORST)
    os.kill(int(pid.read_text()), number)
    _is_left_as_it_was(shell, 130)


def test_what_ends_it_is_said_on_the_terminal_that_was_left(shell: Terminal, captured: str) -> None:
    _start(shell, f"{captured} gu-smal-numanode")
    shell.shows("numaudit: no container matches 'gu-smal-numanode'; did you mean")
    _is_left_as_it_was(shell, 2)


def test_a_bug_is_said_on_the_terminal_that_was_left(shell: Terminal, captured: str) -> None:
    _start(shell, captured.replace("-c '", "-c 'import numaudit.views.top.app as app; app.node_grid = None; "))
    shell.shows("numaudit: internal error: TypeError: 'NoneType'")
    _is_left_as_it_was(shell, 4)


def test_this_host_is_measured_again_and_again(shell: Terminal) -> None:
    _start(shell, f"{COMMAND} --interval 200ms")
    text = shell.shows("every 0.2 s", "CONTAINER")
    shell.hides(text.splitlines()[0].split("  ")[-1])  # its time
    shell.press("p")
    shell.shows("PAUSED")
    shell.press("Enter")
    shell.shows("what to do")
    shell.press("q")
    shell.shows("q quit")
    shell.press("q")
    _is_left_as_it_was(shell, 0)


def test_no_color_and_a_terminal_without_colours_are_respected(captured: str) -> None:
    for variables in ({"NO_COLOR": "1"}, {}):
        with terminal(environment=variables) as shell:
            _start(shell, captured)
            shell.shows(WORST)
            text = shell.text(styles=True)
            assert bool(re.search(r"\x1b\[(?:\d+;)*[34][0-7]m", text)) is not bool(variables)
            assert "\x1b[7m" in text, "the chosen row"


@pytest.mark.parametrize("kind", ["linux", "screen", "tmux", "xterm-256color", "vt100"])
def test_it_draws_on_terminals_of_every_kind(shell: Terminal, captured: str, kind: str) -> None:
    _start(shell, f"TERM={kind} {captured}")
    shell.shows(WORST, "q quit")
    shell.press("Down")
    shell.shows(">default/gu-init-numanode/app")
    shell.press("q")
    _is_left_as_it_was(shell, 0)


def test_a_locale_without_utf_8_gets_ascii(shell: Terminal, captured: str) -> None:
    _start(shell, f"LC_ALL=C {captured}")
    shell.shows(WORST)
    shell.resize(50, 24)
    assert shell.shows("~").isascii()
