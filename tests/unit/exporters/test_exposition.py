"""One tick's numbers: filters and limits."""

from __future__ import annotations

from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.exposition import Exposition, evaluate_containers
from numaudit.exporters.series import Ledger, Series
from numaudit.snapshot import Container
from reports import container, exposition, report


def _series(*containers: Container) -> list[Series]:
    return Ledger().update(report(*containers).containers, 100.0, (0,))


def _values(found: Exposition, name: str) -> dict[tuple[object, ...], float]:
    (family,) = [family for family in found.families if family.metric.name == name]
    return {(*(key or ()), *labels): value for key, labels, value in family.points}


def test_what_is_not_known_has_no_series() -> None:
    resident = _values(exposition(report(container())), "container_resident_bytes")
    assert {kind for *_, kind in resident} == {"anon", "shmem", "file"}
    assert resident["prod", "db-0", "db", "0", "shmem"] == 0


def test_series_that_a_label_filter_makes_one_are_added_up() -> None:
    series = _series(container(1, pod="a"), container(2, pod="b"), container(3, pod="c", namespace="test"))
    found = evaluate_containers(series, kept_labels=("namespace",))
    assert _values(found, "container_judged_bytes") == {("prod", "", ""): 24576, ("test", "", ""): 12288}
    assert _values(found, "container_allowed_node")["prod", "", "", "0", "memory"] == 1
    assert not [family for family in found.families if family.metric.name == "container_info"]
    assert found.created == {("prod", "", ""): 100.0, ("test", "", ""): 100.0}


def test_over_the_limit_the_least_interesting_containers_are_left_out_whole_and_counted() -> None:
    series = _series(*(container(number, pod=f"p-{number}") for number in range(10)))
    whole = evaluate_containers(series)
    each = whole.series // 10
    cut = evaluate_containers(series, max_series=4 * each + 1)
    assert set(_values(cut, "container_judged_bytes")) == {one.key for one in series[:4]}
    assert (cut.series, cut.dropped) == (4 * each, 6 * each)


def test_a_container_on_two_nodes_has_no_more_series_than_budgeted() -> None:
    assert evaluate_containers(_series(container())).series <= 25


def test_every_row_of_the_catalogue_has_a_name_and_instrument_of_its_own() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert len({metric.instrument for metric in METRICS}) == len(METRICS)


def test_names_end_with_their_unit_and_counters_with_total() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == metric.is_counter, metric.name
        assert not metric.unit or metric.family.endswith(f"_{metric.unit}"), metric.name
