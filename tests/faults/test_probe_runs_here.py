"""The kernel's own count of how often the probes' programs ran, and for how long."""

from __future__ import annotations

import mmap
import os
from contextlib import ExitStack

import pytest

from numaudit.kernel.host import Host
from numaudit.kernel.tracing import bpf
from numaudit.kernel.tracing.bpf import RunTime
from numaudit.probes.page_alloc import PAGE_ALLOC
from numaudit.probes.reasons import ProbeRefusal
from numaudit.probes.session import Session

pytestmark = pytest.mark.root

_PAGES = 2000


def test_runs_and_their_time_grow_with_the_events_of_a_probe_while_the_kernel_counts() -> None:
    with Session.open(Host(), [PAGE_ALLOC], cgroups=1024, nodes=4) as session, ExitStack() as stack:
        if isinstance(session.probe(PAGE_ALLOC), ProbeRefusal):
            pytest.skip(str(session.probe(PAGE_ALLOC)))
        stack.callback(os.close, bpf.count_run_time())
        before = _run_time(session)
        with mmap.mmap(-1, _PAGES * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
            pages.madvise(mmap.MADV_NOHUGEPAGE)
            for at in range(0, len(pages), mmap.PAGESIZE):
                pages[at] = 1
        spent = _run_time(session) - before
        assert spent.runs >= _PAGES
        assert spent.nanoseconds > 0


def _run_time(session: Session) -> RunTime:
    probe = session.probe(PAGE_ALLOC)
    assert not isinstance(probe, ProbeRefusal)
    spent = probe.run_time()
    assert spent is not None
    return spent
