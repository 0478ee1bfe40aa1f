"""/proc/PID/status, as far as it says how much memory a process maps."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numaudit.errors import ParseError
from numaudit.kernel.host import Host
from numaudit.kernel.process_status import ProcessMemory, parse, read

STATUS = b"Name:\tRssAnon:\nVmRSS:\t   41620 kB\nRssAnon:\t   31496 kB\nRssFile:\t    8076 kB\nRssShmem:\t 2048 kB\n"


def test_sizes_are_bytes() -> None:
    assert parse(STATUS) == ProcessMemory(31496 << 10, 8076 << 10, 2 << 20)


def test_the_kernels_own_text_is_read() -> None:
    sizes = read(Host(), os.getpid())
    assert sizes.anon > 0
    assert sizes.file > 0


def test_a_kernel_thread_has_no_sizes() -> None:
    with pytest.raises(ParseError, match="RssAnon"):
        parse(b"Name:\tkthreadd\nState:\tS (sleeping)\n")


@given(st.binary(max_size=200))
def test_any_other_text_is_refused_or_read(text: bytes) -> None:
    try:
        assert min(parse(text)) >= 0
    except ParseError as error:
        assert "RssAnon" in str(error)


def test_a_process_that_has_ended_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="status"):
        read(Host(), 1 << 22)
