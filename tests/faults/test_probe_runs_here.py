"""The kernel's own count of how often the probes' programs ran, and for how long."""

from __future__ import annotations

import mmap
import os
from contextlib import ExitStack

import pytest

from numaudit.kernel import bpf
from numaudit.kernel.host import Host
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import Session

pytestmark = pytest.mark.root

_PAGES = 2000


def test_runs_and_their_time_grow_with_the_events_of_a_probe_while_the_kernel_counts() -> None:
    with Session.open(Host(), cgroups=1024, nodes=4, probes=("page_alloc",)) as session, ExitStack() as stack:
        if isinstance(session.page_alloc, Refusal):
            pytest.skip(str(session.page_alloc))
        stack.callback(os.close, bpf.count_run_time())
        before, _ = session.read_runs()["page_alloc"]
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            pages.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(pages), mmap.PAGESIZE):
                pages[at] = 1
        runs, seconds = session.read_runs()["page_alloc"]
        assert runs - before >= _PAGES
        assert seconds > 0
        assert set(session.read_runs()) == {"page_alloc"}
