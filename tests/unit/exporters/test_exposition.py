"""One tick's numbers: filters and limits."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import ProcessCollector

from made_up.reports import container, exposition, report
from numaudit.evaluation.verdicts import Verdict
from numaudit.exporters.catalogue import METRICS
from numaudit.exporters.exposition import Exposition, evaluate_containers
from numaudit.exporters.selection import Omitted, SeriesLimit
from numaudit.exporters.series import Series, SeriesTracker
from numaudit.report.values import NodeBytes
from numaudit.snapshot import Container


def _series(*containers: Container) -> list[Series]:
    return SeriesTracker().update(report(*containers).containers, 100.0, (0,))


def _values(found: Exposition, name: str) -> dict[tuple[object, ...], float]:
    (family,) = [family for family in found.families if family.metric.name == name]
    return {(*(key or ()), *labels): value for key, labels, value in family.points}


def test_what_is_not_known_has_no_series() -> None:
    resident = _values(exposition(report(container())), "container_resident_bytes")
    assert {kind for *_, kind in resident} == {"anon", "file"}
    node = _values(exposition(report(container())), "node_unattributed_bytes")
    assert {kind for *_, kind in node} == {"anon"}


def test_a_container_has_no_series_of_0_bytes_and_a_node_has() -> None:
    of = report(container())
    found = exposition(of)
    assert all(_values(found, "container_resident_bytes").values())
    zeros = dict.fromkeys(("shmem", "file", "hugetlb", "kernel", "unevictable"), 0)
    empty = replace(of.nodes[0].resident, **zeros)
    node = exposition(replace(of, nodes=(replace(of.nodes[0], resident=empty),)))
    assert _values(node, "node_memory_bytes")["0", "hugetlb"] == 0


def test_series_that_a_label_filter_makes_one_are_added_up() -> None:
    series = _series(container(1, pod="a"), container(2, pod="b"), container(3, pod="c", namespace="test"))
    found = evaluate_containers(series, kept_labels=("namespace",))
    assert _values(found, "container_judged_bytes") == {("prod", "", ""): 24576, ("test", "", ""): 12288}
    assert _values(found, "container_allowed_node")["prod", "", "", "0", "memory"] == 1
    assert not [family for family in found.families if family.metric.name == "container_info"]
    assert found.created == {("prod", "", ""): 100.0, ("test", "", ""): 100.0}


def test_verdicts_and_misplaced_bytes_of_a_node_are_counted_before_labels_make_containers_one() -> None:
    of = report(container(1, pod="a"), container(2, pod="b"), container(3, pod="c"))
    spilled = Verdict("spilled", "", None, (), None)
    first, second, third = of.containers
    found = exposition(
        replace(
            of,
            containers=(
                replace(first, verdict=spilled, judged_bytes=100, aligned_bytes=60),
                replace(second, verdict=spilled, judged_bytes=50, aligned_bytes=45),
                replace(third, verdict=replace(spilled, name="aligned"), judged_bytes=7, aligned_bytes=7),
            ),
        )
    )
    counts = _values(found, "node_containers")
    assert (counts["spilled",], counts["aligned",], counts["drifted",]) == (2, 1, 0)
    assert _values(found, "node_misplaced_bytes") == {("spilled",): 45, ("aligned",): 0}


def test_over_the_limit_the_least_interesting_containers_are_left_out_whole_and_counted() -> None:
    series = _series(*(container(number, pod=f"p-{number}") for number in range(10)))
    whole = evaluate_containers(series)
    each = whole.series // 10
    cut = evaluate_containers(series, limit=SeriesLimit(int(4 * each / 0.98) + 1))
    assert set(_values(cut, "container_judged_bytes")) == {one.key for one in series[:4]}
    assert (cut.series, cut.omitted) == (4 * each, Omitted(6 * each, 6))


def test_kernel_memory_below_a_page_has_no_series() -> None:
    (one,) = _series(container())
    home = NodeBytes(0, anon=1, shmem=0, file=0, hugetlb=None, kernel=4096, unevictable=0)
    foreign = NodeBytes(1, anon=0, shmem=0, file=1, hugetlb=None, kernel=4095, unevictable=0)
    found = evaluate_containers([replace(one, report=replace(one.report, resident=(home, foreign)))])
    sizes = {labels[-2:]: size for labels, size in _values(found, "container_resident_bytes").items()}
    assert sizes == {("0", "anon"): 1, ("0", "kernel"): 4096, ("1", "file"): 1}


def test_a_container_on_two_nodes_has_no_more_series_than_budgeted() -> None:
    assert evaluate_containers(_series(container())).series <= 25


def test_every_row_of_the_catalogue_has_a_name_and_instrument_of_its_own() -> None:
    assert len({metric.full_name for metric in METRICS}) == len(METRICS)
    ours = [metric.instrument for metric in METRICS if metric.is_pushed]
    assert len(set(ours)) == len(ours)


def test_the_agents_process_has_the_names_that_stock_alerts_use() -> None:
    standard = {metric.full_name for metric in METRICS if metric.is_standard}
    theirs = {family.name for family in ProcessCollector(registry=None).collect()}  # a counter's without `_total`
    assert {name.removesuffix("_total") for name in standard} == theirs


def test_names_end_with_their_unit_and_counters_with_total() -> None:
    for metric in METRICS:
        assert metric.name.endswith("_total") == metric.is_counter, metric.name
        assert not metric.unit or metric.family.endswith(f"_{metric.unit}"), metric.name
