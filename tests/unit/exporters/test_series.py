"""One series per container name, whatever restarts."""

from __future__ import annotations

import pytest

from made_up.reports import container, report
from numaudit.exporters.metric import Metric
from numaudit.exporters.series import ENDED_FOR_TICKS, Series, SeriesTracker, key_of
from numaudit.report.values import ContainerReport
from numaudit.snapshot import Container

KEY = ("prod", "db-0", "db")


class Source:
    """A counter source: what each cgroup has counted, by its id."""

    def __init__(self) -> None:
        self.counts: dict[int, dict[str, int]] = {}

    def row(self) -> Metric[ContainerReport]:
        return Metric(
            "container_test_total", "", "A test's counter.", ("event",),
            lambda one: [((event,), count) for event, count in self.counts.get(one.id, {}).items()],
            since="container",
        )  # fmt: skip


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def tracker(source: Source) -> SeriesTracker:
    return SeriesTracker((source.row(),))


def _update(
    tracker: SeriesTracker, *containers: Container, scrapes: int = 0, pushes: int = 0, at: float = 100.0
) -> list[Series]:
    return tracker.update(report(*containers).containers, at, (scrapes, pushes))


def _total(series: list[Series], event: str = "fault") -> float:
    (one,) = series
    return dict(one.totals["container_test_total"])[event,]


def test_a_plain_cgroup_goes_by_its_path() -> None:
    (one,) = report(container(9, pod=None)).containers
    assert key_of(one) == ("", "", "/system.slice/unit-9.service")


def test_a_container_whose_name_is_not_known_goes_by_its_path() -> None:
    (one,) = report(container(9, name=None)).containers
    assert key_of(one) == ("", "", "/kubepods.slice/db-0/None-9.scope")


def test_a_counter_is_carried_on_over_a_restart(tracker: SeriesTracker, source: Source) -> None:
    source.counts = {1: {"fault": 10}, 2: {"fault": 3}}
    assert _total(_update(tracker, container(1))) == 10
    restarted = _update(tracker, container(2))
    assert _total(restarted) == 13
    assert restarted[0].report.id == 2
    assert restarted[0].created == 100.0


def test_a_counter_begins_before_what_it_has_counted(source: Source) -> None:
    """With the agent, or with the newest tick in which the container was not there."""
    source.counts = {1: {"fault": 10}, 2: {"fault": 3}}
    tracker = SeriesTracker((source.row(),), began=40.0)
    (first,) = _update(tracker, container(1), at=100.0)
    assert first.created == 40.0
    found = _update(tracker, container(1), container(2, name="web"), at=115.0)
    assert {one.key[2]: one.created for one in found} == {"db": 40.0, "web": 100.0}


def test_a_counter_is_carried_on_when_no_tick_saw_the_old_one_end(tracker: SeriesTracker, source: Source) -> None:
    source.counts = {1: {"fault": 10}, 2: {"fault": 3}}
    _update(tracker, container(1))
    assert _total(_update(tracker, container(1), container(2))) == 13
    source.counts[2]["fault"] = 5
    assert _total(_update(tracker, container(2))) == 15


def test_what_a_container_counted_last_is_in_its_series_and_in_its_successors(
    tracker: SeriesTracker, source: Source
) -> None:
    source.counts = {1: {"fault": 10}, 2: {"fault": 3}}
    _update(tracker, container(1))
    source.counts[1] = {"fault": 14, "scan": 1}
    last = report(container(1)).containers
    ended = tracker.update((), 110.0, (0, 0), last)
    assert (ended[0].ended, _total(ended), _total(ended, "scan")) == (True, 14, 1)
    assert _total(_update(tracker, container(2))) == 17


def test_the_newest_of_two_instances_is_shown(tracker: SeriesTracker) -> None:
    _update(tracker, container(9))
    (both,) = _update(tracker, container(9), container(4))
    assert both.report.id == 4


def test_a_counter_never_falls_when_its_source_begins_at_zero_again(tracker: SeriesTracker, source: Source) -> None:
    source.counts = {1: {"fault": 10, "scan": 1}}
    _update(tracker, container(1))
    source.counts = {1: {"fault": 2}}
    series = _update(tracker, container(1))
    assert _total(series) == 12
    assert _total(series, "scan") == 1
    source.counts = {1: {"fault": 4}}
    assert _total(_update(tracker, container(1))) == 14


def test_an_ended_container_stays_until_two_scrapes_saw_it(tracker: SeriesTracker) -> None:
    _update(tracker, container(1), scrapes=5)
    assert [(one.key, one.ended) for one in _update(tracker, scrapes=5)] == [(KEY, True)]
    assert len(_update(tracker, scrapes=6)) == 1
    assert _update(tracker, scrapes=7) == []


def test_an_ended_container_stays_until_every_output_in_use_had_it_twice(tracker: SeriesTracker) -> None:
    _update(tracker, container(1), scrapes=1, pushes=1)
    _update(tracker, scrapes=1, pushes=1)
    assert len(_update(tracker, scrapes=9, pushes=2)) == 1
    assert _update(tracker, scrapes=9, pushes=3) == []


def test_an_ended_container_is_forgotten_without_scrapes(tracker: SeriesTracker) -> None:
    _update(tracker, container(1))
    for _ in range(ENDED_FOR_TICKS):
        assert len(_update(tracker)) == 1
    assert _update(tracker) == []


def test_a_successor_takes_over_the_series_of_an_ended_container(tracker: SeriesTracker, source: Source) -> None:
    source.counts = {1: {"fault": 10}, 2: {"fault": 1}}
    _update(tracker, container(1))
    _update(tracker)
    (one,) = _update(tracker, container(2))
    assert (one.key, one.ended, one.report.id) == (KEY, False, 2)
    assert _total([one]) == 11


def test_a_container_that_got_its_name_late_leaves_no_second_series(tracker: SeriesTracker) -> None:
    nameless = Container(container(1).id, container(1).path, "container", pod_uid="uid-of-db-0")
    assert _update(tracker, nameless)[0].key == ("", "", container(1).path)
    assert [(one.key, one.ended) for one in _update(tracker, container(1))] == [(KEY, False)]


def test_no_more_ended_containers_are_kept_than_allowed_and_the_rest_is_counted(source: Source) -> None:
    tracker = SeriesTracker((source.row(),), most_ended=2)
    for number in range(5):
        _update(tracker, container(number, pod=f"db-{number}"))
    kept = _update(tracker)
    assert [one.key[1] for one in kept] == ["db-3", "db-4"]
    assert tracker.forgotten == 3


def test_those_that_every_output_has_had_give_way_first_and_are_no_loss(source: Source) -> None:
    tracker = SeriesTracker((source.row(),), most_ended=1)
    _update(tracker, container(1, pod="db-1"), container(2, pod="db-2"), scrapes=1, pushes=1)
    _update(tracker, container(2, pod="db-2"), scrapes=1, pushes=1)
    assert [one.key[1] for one in _update(tracker, scrapes=2, pushes=2)] == ["db-2"]
    assert tracker.forgotten == 0
    assert [one.key[1] for one in _update(tracker, container(3, pod="db-3"), scrapes=3, pushes=2)] == ["db-3", "db-2"]
    assert [one.key[1] for one in _update(tracker, scrapes=3, pushes=2)] == ["db-3"]
    assert tracker.forgotten == 1


def test_nothing_is_remembered_of_containers_that_were_scraped_after_their_end(tracker: SeriesTracker) -> None:
    for number in range(300):
        series = _update(tracker, container(number, pod=f"job-{number}"), scrapes=number)
        assert len(series) <= 3


@pytest.fixture
def bounded(source: Source) -> SeriesTracker:
    row: Metric[ContainerReport] = Metric(
        "container_test_total", "", "A test's counter.", ("cpu_numa_node", "numa_node", "locality"),
        lambda one: [
            (tuple(labels.split()), count) for labels, count in source.counts.get(one.id or 0, {}).items()
        ],
        since="container", largest=2,
    )  # fmt: skip
    return SeriesTracker((row,))


def _pairs(series: list[Series]) -> dict[str, float]:
    return {" ".join(labels): count for labels, count in series[0].totals["container_test_total"]}


def test_of_many_pairs_the_largest_have_series_and_the_others_are_added_up(
    bounded: SeriesTracker, source: Source
) -> None:
    source.counts[1] = {"0 0 local": 1, "0 1 remote": 50, "1 0 remote": 2, "1 1 local": 40, "2 0 remote": 3}
    found = _pairs(_update(bounded, container(1)))
    assert found == {
        "0 1 remote": 50,
        "1 1 local": 40,
        "other other local": 1,
        "other other remote": 5,
    }


def test_a_pair_that_has_a_series_keeps_it_and_no_sum_falls(bounded: SeriesTracker, source: Source) -> None:
    source.counts[1] = {"0 0 local": 1, "0 1 remote": 2}
    first = _pairs(_update(bounded, container(1)))
    source.counts[1] = {"0 0 local": 1, "0 1 remote": 2, "1 0 remote": 90, "1 1 local": 80}
    second = _pairs(_update(bounded, container(1)))
    source.counts[1] = {"0 0 local": 5, "0 1 remote": 2, "1 0 remote": 95, "1 1 local": 81}
    third = _pairs(_update(bounded, container(1)))
    assert second == first | {"other other remote": 90, "other other local": 80}
    assert third == {"0 0 local": 5, "0 1 remote": 2, "other other remote": 95, "other other local": 81}
    restarted = _pairs(_update(bounded, container(2)))
    assert restarted == third
