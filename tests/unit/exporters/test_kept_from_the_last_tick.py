"""What did not change since the last tick is neither evaluated nor rendered nor packed again, and no byte differs."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from made_up.reports import LIVE, STARTED, container, report, tick
from numaudit.container_devices import ContainerDevice, ContainerDevices
from numaudit.evaluation.access import Access, Measured, RemoteUse, UsedRemotely
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.remote_stall import RemoteStall
from numaudit.evaluation.room.by_page_size import HugePagesOfContainer
from numaudit.evaluation.verdicts import Verdict
from numaudit.exporters.blocks import NOTHING
from numaudit.exporters.catalogue import CONTAINER_METRICS
from numaudit.exporters.exposition import Exposition, evaluate_containers, evaluate_live, evaluate_tick
from numaudit.exporters.metric import Metric
from numaudit.exporters.packed import Packer
from numaudit.exporters.prometheus import Format, MetricPages, Rendered, ScrapeForm, render
from numaudit.exporters.series import SeriesTracker
from numaudit.memorymanager.outcome import AdmissionOutcome
from numaudit.report.counters import (
    AllocatedBytes,
    CountedAccessesReport,
    HintFaultsReport,
    MigratedReport,
    NodeSeconds,
    TierMoves,
)
from numaudit.report.processes.values import RanksReport
from numaudit.report.values import ContainerReport, Intended, NodeBytes, PromiseOfSource, Report
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.value import Timestamp

PAGES = UsedRemotely(40, (RemoteUse(0, 1, 40),), 100, 0)
CLAIM = PromiseOfSource("dra", "ns/claim", "dra.memory", NodeSet.of(0), {"memory": 9}, None, None, (), None)
FULL = structs.replace(
    report(container()).containers[0],
    intended=Intended(NodeSet.of(0), {"memory": 9}, CpuSet.of(1), NodeSet.of(0), NodeSet.of(1), (CLAIM,)),
    huge_pages=(HugePagesOfContainer("hugepages-2Mi", 4, NodeSet.of(0), {0: 2, 1: 2}, 2),),
    devices=ContainerDevices((ContainerDevice("gpu", "0000:3b:00.0", 1, ("descriptor",)),), (), {}),
    aligned_bytes=4096,
    verdict=Verdict("spilled", "made up", None, (), None),
    hint_outcome=HintOutcome(None, None, None, None, AdmissionOutcome.DEGRADED, "log", None, None, None),
    findings=("stale", "oom-risk"),
    distance_ratio=1.5,
    accesses=(Access("pmu", "accesses", 0.25), Access("hint_faults", "pages", None, 0.4, used_remotely=PAGES)),
    measured=Measured("pmu", "accesses", 0.25),
    remote_stall=RemoteStall("ratio", "made up", 0.1, 0.2, (), None, None, None, None),
    cpu_seconds=(NodeSeconds(0, 1.5),),
    allocated=(AllocatedBytes(0, 1, 4096),),
    hint_faults=(HintFaultsReport(0, 1, "remote", (), 7),),
    memory_accesses=(CountedAccessesReport(0, "remote", "lines", 9),),
    tier_moves=(TierMoves(0, 8192, 4096),),
    migrated=(MigratedReport("compaction", 4096, 0),),
    ranks=RanksReport({"in-force": 3, "unknown": 0}, (), None, Timestamp(STARTED), 3, None),
)
"""A container that has a point in every family."""


class _Watched:
    """A report that notes which of its fields are read."""

    def __init__(self, of: ContainerReport) -> None:
        self._of, self.read = of, set[str]()

    def __getattr__(self, name: str) -> object:
        found = getattr(ContainerReport, name)
        if isinstance(found, property):
            assert found.fget is not None
            return found.fget(self)
        self.read.add(name)
        return getattr(self._of, name)


@pytest.mark.parametrize("row", CONTAINER_METRICS, ids=lambda row: row.name)
def test_a_row_reads_the_fields_that_it_names_and_no_others(row: Metric[ContainerReport]) -> None:
    watched = _Watched(FULL)
    assert dict(row.values(watched))  # type: ignore[arg-type]
    assert watched.read == set(row.reads)


NODES = (NodeBytes(0, 4096, 0, 4096, 0, 0, None), NodeBytes(1, 8192, 0, 0, 0, 0, None))
CHANGES: Sequence[dict[str, object]] = (
    {"resident": NODES, "judged_bytes": 12288},
    {"resident": (NodeBytes(0, 1 << 30, 0, 0, 0, 0, None),), "judged_bytes": 1 << 30, "aligned_bytes": 77},
    {"resident": None, "judged_bytes": None, "aligned_bytes": None},
    {"verdict": Verdict("aligned", "other words", None, (), None)},
    {"verdict": None, "findings": ()},
    {"cpu_seconds": (NodeSeconds(0, 2.5), NodeSeconds(1, 0.125))},
    {"cpu_seconds": (NodeSeconds(0, 0.5),)},
    {"allocated": (AllocatedBytes(0, 1, 8192), AllocatedBytes(1, 0, 1))},
    {"ranks": RanksReport({"in-force": 2, "unknown": 1}, (), None, Timestamp(STARTED), 3, None)},
    {"hint_faults": None, "accesses": (), "measured": None},
    {"qos": None, "container_id": "other"},
    {"intended": None, "hint_outcome": None, "remote_stall": None, "distance_ratio": None},
)
TICKS = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, *CHANGES])), max_size=4), min_size=1, max_size=8
)
"""In each tick, what becomes of some containers; None = it ends, or comes back."""


def _reports(ticks: Sequence[Sequence[tuple[int, dict[str, object] | None]]]) -> Sequence[Report]:
    of = report(*[container(number, pod=f"pod-{number}") for number in range(1, 5)])
    rows: dict[int, ContainerReport] = {one.id or 0: structs.replace(FULL, **_names(one)) for one in of.containers}
    ended: dict[int, ContainerReport] = {}
    found = []
    for number, changes in enumerate(ticks):
        for id_, change in changes:
            if change is None and id_ in rows:
                ended[id_] = rows.pop(id_)
            elif change is None:
                rows[id_] = ended.pop(id_)
            elif id_ in rows:
                rows[id_] = structs.replace(rows[id_], **change)
        order = sorted(rows.values(), key=lambda one: one.judged_bytes or 0)
        found.append(structs.replace(of, containers=tuple(order), taken_at=of.taken_at + number))
    return found


def _names(one: ContainerReport) -> dict[str, object]:
    return {"id": one.id, "path": one.path, "pod": one.pod}


def _points(of: Exposition) -> dict[str, set[object]]:
    return {one.metric.name: set(one.points) for one in of.families if one.blocks}


@given(TICKS, st.sampled_from([("namespace", "pod", "container"), ("namespace",)]))
def test_any_tick_exports_what_it_would_with_nothing_kept(
    ticks: Sequence[Sequence[tuple[int, dict[str, object] | None]]], labels: Sequence[str]
) -> None:
    tracker, evaluated = SeriesTracker(), NOTHING
    before: dict[Format, Rendered] = {"text": Rendered(), "openmetrics": Rendered()}
    pages = MetricPages(lambda: evaluate_live(LIVE, STARTED))
    pages.publish(Exposition())
    forms = [ScrapeForm(format_, is_packed) for format_ in before for is_packed in (True, False)]
    for form in forms:
        pages.get(form)
    for number, of in enumerate(_reports(ticks)):
        series = tracker.update(of.containers, of.taken_at, (number,))
        containers, evaluated = evaluate_containers(series, labels, last=evaluated)
        afresh, _ = evaluate_containers(series, labels)
        assert _points(containers) == _points(afresh)
        assert containers.created == afresh.created
        assert containers.series == afresh.series
        exposition = evaluate_tick(tick(of), containers)
        pages.publish(exposition)
        for format_, known in before.items():
            assert render(exposition, format_, before=known) == render(exposition, format_)
            packed, plain = (pages.get(ScrapeForm(format_, is_packed)) for is_packed in (True, False))
            assert packed is not None and plain is not None
            assert gzip.decompress(packed) == plain
            assert plain.startswith(render(exposition, format_))


RESTARTS = st.lists(
    st.lists(st.tuples(st.integers(1, 2), st.sampled_from([None, None, CHANGES[6]])), max_size=2), max_size=10
)


@given(TICKS | RESTARTS)
def test_any_series_is_what_it_would_be_if_every_report_were_another_value(
    ticks: Sequence[Sequence[tuple[int, dict[str, object] | None]]],
) -> None:
    """The first three containers are instances of one series."""
    tracker, unaware = SeriesTracker(), SeriesTracker()
    names: dict[int | None, dict[str, object]] = {id_: {"pod": "db", "path": f"/{id_}"} for id_ in (1, 2, 3)}
    named: dict[int, ContainerReport] = {}
    last: Sequence[ContainerReport] = ()
    for number, of in enumerate(_reports(ticks)):
        rows = [named.setdefault(id(one), structs.replace(one, **names.get(one.id, {}))) for one in of.containers]
        ended = [one for one in last if one.id not in {row.id for row in rows}]
        found = tracker.update(rows, of.taken_at, (number,), ended)
        assert found == unaware.update(list(map(structs.replace, rows)), of.taken_at, (number,), ended)
        last = rows


def test_a_series_that_counts_since_another_time_says_so() -> None:
    (of,) = _reports([[]])
    series = SeriesTracker().update(of.containers, 1.0, (0,))
    _, evaluated = evaluate_containers(series)
    later = [structs.replace(one, created=5.0) if place == 1 else one for place, one in enumerate(series)]
    now, _ = evaluate_containers(later, last=evaluated)
    assert now.created == {one.key: one.created for one in later}


def test_a_family_without_a_change_is_the_very_same_value() -> None:
    tracker = SeriesTracker()
    first, second = _reports([[], [(2, CHANGES[1])]])
    containers, evaluated = evaluate_containers(tracker.update(first.containers, 1.0, (0,)))
    now, again = evaluate_containers(tracker.update(second.containers, 2.0, (0,)), last=evaluated)
    same = {
        row.name
        for row, new, old in zip(CONTAINER_METRICS, again.columns, evaluated.columns, strict=True)
        if new is old
    }
    changed = {
        "container_resident_bytes",
        "container_judged_bytes",
        "container_aligned_bytes",
        "container_aligned_ratio",
    }
    assert {row.name for row in CONTAINER_METRICS} - same == changed | {"container_misplaced_bytes"}
    assert [block.key for block in now.families[0].blocks] == [block.key for block in containers.families[0].blocks]


TEXT_IN_PIECES = st.lists(st.binary(max_size=9000), max_size=3)


@given(st.lists(TEXT_IN_PIECES, max_size=6), st.lists(st.integers(0, 5), max_size=4), st.binary())
def test_any_texts_packed_one_by_one_are_one_gzip_stream(
    texts: list[list[bytes]], again: list[int], tail: bytes
) -> None:
    packer = Packer()
    packer.pack(texts)
    texts = [[*text, b"!"] if number in again else text for number, text in enumerate(texts)]
    plain = b"".join(piece for text in texts for piece in text)
    for _ in range(2):  # the second time all is known
        packed = packer.pack(texts)
        stream = packed.stream + packed.end(tail)
        assert gzip.decompress(stream) == plain + tail
        unpacker = zlib.decompressobj(wbits=31)
        assert unpacker.decompress(stream) == plain + tail
        assert unpacker.eof and not unpacker.unused_data  # one member: not every reader goes on to the next
