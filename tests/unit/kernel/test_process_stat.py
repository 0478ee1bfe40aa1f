"""/proc/PID/stat, whatever the process is called."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from numaudit.kernel.process_stat import name_of, parse


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


@given(st.binary(max_size=200))
def test_any_other_text_is_refused_or_read(text: bytes) -> None:
    try:
        parse(1, text)
    except (IndexError, ValueError):
        return
