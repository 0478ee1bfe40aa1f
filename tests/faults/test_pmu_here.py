"""Events that are counted by cgroup on this host's own kernel, with a BPF program and without.

The pairs of events are made up where the processor counts no memory accesses: page faults and CPU time, which the
workers know of themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from made_up_plans import faults_and_time
from numaudit.kernel.host import Host
from numaudit.probes.accesses import AccessCounts
from numaudit.probes.pmu import Pmu, kind_of
from numaudit.probes.pmu_cgroups import PmuOfCgroups
from numaudit.probes.probe import Probe
from numaudit.probes.reasons import Refusal
from numaudit.probes.session import Session

pytestmark = pytest.mark.root

NewGroup = Callable[[str], Path]
StartWorker = Callable[[Path, int], Callable[[str], None]]
MIB = 1 << 20
PAGES = 8 * MIB // 4096
REST = 64
"""Pages of Python's own that a worker may touch beside its memory."""
BOTH_WAYS = ("bpf", "cgroup events")


@pytest.fixture(params=BOTH_WAYS)
def probe(request: pytest.FixtureRequest) -> Iterator[Probe[AccessCounts]]:
    if request.param == "cgroup events":
        with closing(PmuOfCgroups(Host(), faults_and_time())) as opened:
            yield opened
        return
    kind = kind_of(lambda _: [faults_and_time()])
    with Session.open(Host(), [kind], cgroups=1000, nodes=1) as session:
        found = session.probe(kind)
        if isinstance(found, Refusal):
            pytest.skip(str(found))
        assert isinstance(found, Pmu)
        yield found


def test_each_cgroup_gets_its_own_counts(
    probe: Probe[AccessCounts], new_group: NewGroup, start_worker: StartWorker
) -> None:
    one, other = new_group("one"), new_group("other")
    orders = [start_worker(group, 8 * MIB) for group in (one, other)]
    before = probe.read()
    for times, order in zip((3, 1), orders, strict=True):
        for _ in range(times):
            order("refill")
    added = probe.read().since(before)
    for group, times in ((one, 3), (other, 1)):
        assert times * PAGES <= _local(added, group) < times * (PAGES + REST)
        spent = added.times[group.stat().st_ino]
        assert spent["enabled"] == spent["running"] > 0


def test_what_was_counted_before_a_pause_stays_and_what_happens_in_it_does_not_count(
    probe: Probe[AccessCounts], new_group: NewGroup, start_worker: StartWorker
) -> None:
    group = new_group("paused")
    order = start_worker(group, 8 * MIB)
    before = probe.read()
    order("refill")
    probe.pause()
    order("refill")
    probe.resume()
    order("refill")
    added = probe.read().since(before)
    assert 2 * PAGES <= _local(added, group) < 2 * (PAGES + REST)


def _local(counts: AccessCounts, group: Path) -> int:
    """Page faults, for these stand in the place of local accesses."""
    row = counts.accesses[group.stat().st_ino]
    return sum(count for (_, locality), count in row.items() if locality == "local")
