"""The last ticks that the agent keeps for its page: what is kept, for how long, and in how many bytes."""

from __future__ import annotations

import gc
import tracemalloc

from msgspec.structs import replace

from accesses import counted
from numaudit.evaluation.access import measured
from numaudit.report.values import Report
from numaudit.views.trends import KEPT, MOST, Trends
from page_reports import many
from reports import container, report

MOST_BYTES = 700
"""For each container, its entry in the table included."""


def _of(**changes: object) -> Report:
    of = report(container())
    return replace(of, containers=(replace(of.containers[0], **changes),))


def test_the_newest_ticks_are_kept_in_their_order() -> None:
    trends = Trends()
    for tick in range(KEPT + 5):
        of = _of(remote_bytes=tick << 20, measured=measured((counted(tick / 100),)))
        trends.add(replace(of, summary=replace(of.summary, misaligned=tick, aligned=9, refused_pods=2)))
    (one,) = of.containers
    assert trends.outside(one) == [tick << 20 for tick in range(5, KEPT + 5)]
    assert trends.remote_share(one) == list(range(5, KEPT + 5))
    assert (trends.misaligned, trends.aligned) == (list(range(5, KEPT + 5)), [9] * KEPT)
    assert trends.refused == [2] * KEPT


def test_bytes_are_those_outside_the_promise_where_there_is_one() -> None:
    trends = Trends()
    of = _of(judged_bytes=10 << 20, aligned_bytes=4 << 20, remote_bytes=1 << 20)
    trends.add(of)
    assert trends.outside(of.containers[0]) == [6 << 20]


def test_what_is_not_known_is_none_and_a_little_is_not_nothing() -> None:
    trends = Trends()
    of = _of(remote_bytes=None, measured=None)
    trends.add(of)
    trends.add(_of(remote_bytes=1, measured=measured((counted(0.0001),))))
    trends.add(_of(remote_bytes=1 << 60, measured=measured((counted(0.0),))))
    (one,) = of.containers
    unknown, little, much = trends.outside(one)
    assert (unknown, little) == (None, 1024)
    assert much is not None
    assert much > 1 << 41
    assert trends.remote_share(one) == [None, 1, 0]


def test_a_container_that_is_gone_is_forgotten_and_one_that_came_has_what_was_since() -> None:
    trends = Trends()
    trends.add(_of(id=1))
    trends.add(_of(id=2))
    trends.add(_of(id=2))
    assert trends.outside(_of(id=1).containers[0]) == []
    assert len(trends.outside(_of(id=2).containers[0])) == 2


def test_only_the_worst_of_very_many_are_kept() -> None:
    trends = Trends()
    of = _of()
    trends.add(replace(of, containers=tuple(replace(of.containers[0], id=id_) for id_ in range(MOST + 1))))
    assert len(trends.outside(replace(of.containers[0], id=MOST - 1))) == 1
    assert trends.outside(replace(of.containers[0], id=MOST)) == []


def test_a_thousand_containers_take_a_bounded_part_of_the_agents_memory() -> None:
    of = many(1000)
    gc.collect()
    tracemalloc.start()
    try:
        trends = Trends()
        for _ in range(2 * KEPT):
            trends.add(of)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(trends.outside(of.containers[0])) == KEPT
    assert 300 * 1000 < held < MOST_BYTES * 1000
