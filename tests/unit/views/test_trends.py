"""The last ticks that the agent keeps for its page: what is kept, for how long, and in how many bytes."""

from __future__ import annotations

import gc
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from made_up.accesses import counted
from made_up.reports import container, report
from numaudit.evaluation.access import measured
from numaudit.report.values import ContainerReport, Report
from numaudit.views.trends import KEPT, MOST, Trends
from screens.page_reports import many

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


@given(st.lists(st.dictionaries(st.integers(1, 5), st.integers(0, 3)), max_size=12))
def test_any_ticks_keep_of_each_container_what_was_since_it_came(ticks: list[dict[int, int]]) -> None:
    trends, expected, before = Trends(), dict[int, list[int]](), dict[tuple[int, int], ContainerReport]()
    for of in ticks:
        rows = {
            pair: before.get(pair) or _of(id=pair[0], remote_bytes=pair[1] << 10).containers[0] for pair in of.items()
        }
        trends.add(replace(_of(), containers=tuple(rows.values())))
        expected = {id_: [*expected.get(id_, []), size << 10] for id_, size in of.items()}
        before = rows  # what did not change is the very same row
        assert {id_: trends.outside(_of(id=id_).containers[0]) for id_ in range(1, 6)} == {
            id_: expected.get(id_, []) for id_ in range(1, 6)
        }


def test_only_the_worst_of_very_many_are_kept() -> None:
    trends = Trends()
    of = _of()
    trends.add(replace(of, containers=tuple(replace(of.containers[0], id=id_) for id_ in range(MOST + 1))))
    assert len(trends.outside(replace(of.containers[0], id=MOST - 1))) == 1
    assert trends.outside(replace(of.containers[0], id=MOST)) == []


def test_a_thousand_containers_take_a_bounded_part_of_the_agents_memory() -> None:
    two = many(1000), many(1000)  # each row is another value in every tick
    gc.collect()
    tracemalloc.start()
    try:
        trends = Trends()
        for tick in range(2 * KEPT):
            trends.add(two[tick % 2])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(trends.outside(two[0].containers[0])) == KEPT
    assert 300 * 1000 < held < MOST_BYTES * 1000
