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
from numaudit.report.node_columns import node_rows
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
    assert trends.remote_accesses(one) == list(range(5, KEPT + 5))
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
    assert trends.remote_accesses(one) == [None, 1, 0]


def _named(pod: str, **changes: object) -> ContainerReport:
    return replace(_of(**changes).containers[0], pod_uid=f"uid-{pod}")


def test_a_container_that_was_started_again_goes_on() -> None:
    trends = Trends()
    for id_, bytes_ in ((1, 4096), (2, 8192)):
        trends.add(replace(_of(), containers=(_named("db", id=id_, remote_bytes=bytes_),)))
    assert trends.outside(_named("db", id=2)) == [4096, 8192]


def test_the_share_is_of_bytes_until_accesses_are_measured() -> None:
    trends, of = Trends(), _of(remote_bytes=1 << 20, judged_bytes=4 << 20, measured=None)
    trends.add(of)
    assert (trends.of_what, trends.remote(of.containers[0])) == ("bytes", [25])
    trends.add(_of(remote_bytes=1 << 20, judged_bytes=4 << 20, measured=measured((counted(0.5),))))
    assert (trends.of_what, trends.remote(of.containers[0])) == ("accesses", [None, 50])


def test_of_a_node_the_remote_share_of_what_containers_hold_on_it_is_kept() -> None:
    trends, of = Trends(), _of()
    trends.add(of, node_rows(replace(of, containers=())))
    for _ in range(KEPT):
        assert len(trends.remote_of_node(1)) <= KEPT
        trends.add(of, node_rows(of))
    assert (trends.remote_of_node(0), trends.remote_of_node(1)) == ([0] * KEPT, [100] * KEPT), "its CPUs are on node 0"
    trends.add(of, node_rows(_of(resident=None)))
    assert trends.remote_of_node(1)[-2:] == [100, None]
    trends.add(of, node_rows(replace(of, nodes=of.nodes[:1])))
    assert trends.remote_of_node(1) == [], "the node is gone"


@given(st.lists(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 3)), max_size=12))
def test_any_ticks_keep_of_each_container_what_was_since_it_came(ticks: list[dict[str, int]]) -> None:
    trends, expected = Trends(), dict[str, list[int]]()
    for of in ticks:
        rows = tuple(_named(pod, remote_bytes=amount << 10) for pod, amount in of.items())
        trends.add(replace(_of(), containers=rows))
        expected = {pod: [*expected.get(pod, []), amount << 10] for pod, amount in of.items()}
        assert {pod: trends.outside(_named(pod)) for pod in "abcde"} == {pod: expected.get(pod, []) for pod in "abcde"}


def test_only_the_worst_of_very_many_are_kept() -> None:
    trends = Trends()
    trends.add(replace(_of(), containers=tuple(_named(str(number)) for number in range(MOST + 1))))
    assert len(trends.outside(_named(str(MOST - 1)))) == 1
    assert trends.outside(_named(str(MOST))) == []


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
