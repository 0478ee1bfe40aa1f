"""/proc/PID/stat, whatever the process is called."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from numaudit.kernel.process_stat import name_of, parse, parse_task


def line(start: int, name: bytes = b"a) S 1 (b") -> bytes:
    """One line of /proc/PID/stat."""
    return b"1 (%s) S %s0 0 0 0 20 0 1 0 %d 9 9\n" % (name, b"1 " * 10, start)


def test_the_kernels_own_line_is_read() -> None:
    found = parse(1, Path("/proc/self/stat").read_bytes())
    assert found.started > 0
    assert found.state == "R"


@given(st.binary(max_size=15), st.integers(0, 10**9))
def test_any_name_leaves_the_fields_as_they_are(name: bytes, start: int) -> None:
    stat = line(start, name.replace(b"\n", b"?"))
    assert parse(7, stat) == (7, start, "S")
    assert name_of(stat) == name.replace(b"\n", b"?")


def test_a_task_has_its_parent_its_time_and_the_cpu_it_ran_on_last() -> None:
    line = b"7 (a) S 1) R 3 7 7 0 -1 4194560 1 2 3 4 150 50 9 9 20 0 1 0 4242 %s17 6 0 0\n" % (b"1 " * 15)
    assert parse_task(line) == (b"a) S 1", "R", 3, 200, 4242, 6)


@given(st.binary(max_size=200))
def test_any_other_task_is_refused_or_read(text: bytes) -> None:
    try:
        parse_task(text)
    except (IndexError, ValueError):
        return


@given(st.binary(max_size=200))
def test_any_other_text_is_refused_or_read(text: bytes) -> None:
    try:
        parse(1, text)
    except (IndexError, ValueError):
        return
