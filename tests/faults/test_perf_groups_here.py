"""Groups of perf events in this host's own kernel: switched on together, read together, closed together."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from numaudit.kernel.tracing import perf_event
from numaudit.kernel.tracing.perf_event import Event

pytestmark = pytest.mark.root

PAGE_FAULTS, CPU_CLOCK = Event(perf_event.TYPE_SOFTWARE, 2), Event(perf_event.TYPE_SOFTWARE, 0)
UNKNOWN = Event(perf_event.TYPE_SOFTWARE, 4711)


def test_events_of_a_group_are_counted_for_the_same_time() -> None:
    leader, member = perf_event.open_group([PAGE_FAULTS, CPU_CLOCK], cpu=0)
    try:
        assert perf_event.read_group(leader) == (0, 0, (0, 0))
        perf_event.enable(leader)
        found = perf_event.read_group(leader)
    finally:
        os.close(leader)
        os.close(member)
    assert found.enabled == found.running > 0
    assert len(found.counts) == 2 and found.counts[1] > 0


def test_a_group_of_which_one_event_is_refused_leaves_no_descriptor() -> None:
    before = _events()
    with pytest.raises(OSError, match="perf_event_open") as refusal:
        perf_event.open_group([PAGE_FAULTS, UNKNOWN], cpu=0)
    assert refusal.value.errno in (errno.ENOENT, errno.EINVAL)
    assert _events() == before


def _events() -> int:
    names = (str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    return sum("perf_event" in name for name in names)
