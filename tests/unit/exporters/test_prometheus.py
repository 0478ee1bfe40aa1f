"""The text formats, compared with prometheus-client's own renderer and parsers."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from made_up.reports import LIVE, STARTED, container, exposition, report
from numaudit.exporters.catalogue import CONTAINER_METRICS, labels_of
from numaudit.exporters.exposition import Exposition, MetricFamily, SeriesBlock, evaluate_live
from numaudit.exporters.prometheus import Format, MetricPages, ScrapeForm, end_of, negotiate, render

TWO = report(container(1), container(2, pod=None))


class Oracle(Collector):
    """The same numbers through prometheus-client's own classes."""

    def __init__(self, of: Exposition, format_: Format) -> None:
        self.of = of
        self.format = format_

    def collect(self) -> Iterator[Metric]:
        for family in self.of.families:
            row = family.metric
            names = labels_of(row)
            if row.is_info and self.format == "openmetrics":
                yield self._facts(family)
                continue
            make = CounterMetricFamily if row.is_counter else GaugeMetricFamily
            name = row.family if row.is_counter else row.full_name
            metric = make(name, row.help, labels=names, unit=row.unit)
            for key, labels, value in family.points:
                if isinstance(metric, CounterMetricFamily):
                    metric.add_metric((*(key or ()), *labels), value, created=self.of.created_at(row, key))
                else:
                    metric.add_metric((*(key or ()), *labels), value)
            yield metric

    def _facts(self, family: MetricFamily) -> Metric:
        metric = InfoMetricFamily(family.metric.family, family.metric.help)
        for key, labels, value in family.points:
            assert value == 1
            metric.add_metric((), dict(zip(labels_of(family.metric), (*(key or ()), *labels), strict=True)))
        return metric


def _parsed(text: str, format_: Format) -> list[tuple[str, str, str, str, list[object]]]:
    families = parse_openmetrics(text) if format_ == "openmetrics" else parse_text(text)
    return [
        (one.name, one.type, one.unit, one.documentation, [(s.name, s.labels, s.value) for s in one.samples])
        for one in families
    ]


@pytest.mark.parametrize("of", [exposition(TWO), evaluate_live(LIVE, STARTED)], ids=["tick", "live"])
def test_both_formats_say_what_the_client_library_would(of: Exposition) -> None:
    registry = CollectorRegistry()
    registry.register(Oracle(of, "openmetrics"))
    ours = render(of, "openmetrics").decode() + "# EOF\n"
    assert _parsed(ours, "openmetrics") == _parsed(generate_openmetrics(registry).decode(), "openmetrics")
    # In the older format the library adds `_created` as gauges of their own, which doubles every counter.
    registry = CollectorRegistry()
    registry.register(Oracle(of, "text"))
    text = generate_latest(registry).decode()
    theirs = [one for one in _parsed(text, "text") if not one[0].endswith("_created")]
    assert _parsed(render(of, "text").decode(), "text") == theirs


SECONDS = next(row for row in CONTAINER_METRICS if row.unit == "seconds")


@given(st.floats() | st.integers(-10, 1 << 70) | st.sampled_from((999_999.9999999999, 1e6, 1e-5, -0.0)))
def test_any_number_of_seconds_is_written_as_the_client_library_does(number: float) -> None:
    block = SeriesBlock(("ns", "pod", "one"), (("0",),), (number,))
    (line,) = render(Exposition((MetricFamily.of(SECONDS, (block,)),)), "text").decode().splitlines()[2:]
    assert line.rpartition(" ")[2] == floatToGoString(number)


def test_facts_are_of_the_type_info_in_openmetrics_and_keep_their_name() -> None:
    families = parse_openmetrics(render(exposition(TWO), "openmetrics").decode() + "# EOF\n")
    facts = {one.name: {sample.name for sample in one.samples} for one in families if one.type == "info"}
    assert facts["numaudit_container"] == {"numaudit_container_info"}
    assert set(facts) >= {"numaudit_build", "numaudit_feature_problem"}


def test_label_values_come_back_as_they_were() -> None:
    (family,) = [
        one
        for one in parse_text(render(exposition(TWO), "text").decode())
        if one.name == "numaudit_feature_problem_info"
    ]
    assert family.samples[0].labels == {"feature": "pmu", "reason": 'no "PMU"\nhere\\'}


def test_a_percent_sign_in_a_label_is_a_percent_sign() -> None:
    odd = exposition(report(container(1, pod="100%s", name="50%")))
    assert b'pod="100%s",container="50%"' in render(odd, "text")


def test_created_series_can_be_switched_off() -> None:
    assert b"_created" in render(exposition(TWO), "openmetrics")
    assert b"_created" not in render(exposition(TWO), "openmetrics", created=False)


PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "encoding", "form", "content_type"),
    [
        (PROMETHEUS_3, "gzip", ScrapeForm("openmetrics", True), "application/openmetrics-text; version=1.0.0"),
        ("", "", ScrapeForm("text", False), "text/plain; version=0.0.4"),
        ("*/*", "gzip;q=0, identity", ScrapeForm("text", False), "text/plain; version=0.0.4"),
        ("text/html", "deflate, *;q=0.5", ScrapeForm("text", True), "text/plain; version=0.0.4"),
    ],
)
def test_the_scraper_gets_the_form_it_asks_for(accept: str, encoding: str, form: ScrapeForm, content_type: str) -> None:
    found, found_type = negotiate(accept, encoding)
    assert found == form
    assert found_type.startswith(content_type)


@pytest.mark.parametrize("format_", ["text", "openmetrics"])
def test_a_packed_answer_is_one_gzip_stream_with_the_same_bytes(format_: Format) -> None:
    pages = MetricPages(lambda: evaluate_live(LIVE, STARTED))
    forms = ScrapeForm(format_, True), ScrapeForm(format_, False)
    for number in (1, 2, 3):  # the first answer makes the page, and the next ticks do
        pages.publish(exposition(report(*(container(one, pod=f"pod-{one}") for one in range(1, number + 1)))))
        packed, plain = (pages.get(form) or b"" for form in forms)
        assert plain.endswith(end_of(format_)) and plain.count(b"\nnumaudit_container_info{") == number
        unpacker = zlib.decompressobj(wbits=31)
        assert unpacker.decompress(packed) == plain
        assert unpacker.eof and not unpacker.unused_data  # one member: not every reader goes on to the next


def test_what_changes_between_ticks_is_fresh_in_every_answer_while_the_tick_is_rendered_once() -> None:
    ages = iter([1.5, 7.25])
    rendered: list[object] = []

    def live() -> Exposition:
        rendered.append(pages._rendered[ScrapeForm("text", False)])
        return evaluate_live(replace(LIVE, snapshot_age=next(ages)), STARTED)

    pages = MetricPages(live)
    pages.publish(exposition(TWO))
    assert b"numaudit_snapshot_age_seconds 1.5\n" in (pages.get(ScrapeForm("text", False)) or b"")
    assert b"numaudit_snapshot_age_seconds 7.25\n" in (pages.get(ScrapeForm("text", False)) or b"")
    assert rendered[0] is rendered[1]


class _Slow(tuple[MetricFamily, ...]):
    """Families whose rendering goes on only when it may."""

    begun: threading.Event
    go_on: threading.Event

    def __iter__(self) -> Iterator[MetricFamily]:
        self.begun.set()
        assert self.go_on.wait(60)
        return super().__iter__()


@pytest.mark.parametrize(
    "form", [ScrapeForm("text", True), ScrapeForm("text", False), ScrapeForm("openmetrics", False)]
)
def test_no_answer_waits_for_the_rendering_of_a_tick(form: ScrapeForm) -> None:
    pages = MetricPages(Exposition)
    pages.publish(exposition(TWO))
    pages.get(ScrapeForm("text", True))
    slow = _Slow(exposition(TWO).families)
    slow.begun, slow.go_on = threading.Event(), threading.Event()
    tick = threading.Thread(target=pages.publish, args=(Exposition(slow),), daemon=True)
    tick.start()
    assert slow.begun.wait(60)
    found: list[bytes | None] = []
    reader = threading.Thread(target=lambda: found.append(pages.get(form)), daemon=True)
    reader.start()
    reader.join(20)
    answered = len(found)
    slow.go_on.set()
    tick.join(60)
    assert answered == 1


def test_before_the_first_tick_there_is_no_page() -> None:
    pages = MetricPages(Exposition)
    assert pages.get(ScrapeForm("text", False)) is None
    assert pages.scrapes == 0


def test_a_form_without_recent_requests_is_not_rendered_ahead() -> None:
    clock = [0.0]
    pages = MetricPages(Exposition, now=lambda: clock[0])
    pages.publish(exposition(TWO))
    assert not pages._rendered
    pages.get(ScrapeForm("text", True))
    pages.publish(exposition(TWO))
    assert set(pages._rendered) == {ScrapeForm("text", True)}
    clock[0] = 301
    pages.publish(exposition(TWO))
    assert not pages._rendered


def test_the_text_of_a_containers_labels_is_kept_as_long_as_it_is_there() -> None:
    pages, form = MetricPages(Exposition), ScrapeForm("text", False)
    pages.publish(exposition(TWO))
    pages.get(form)
    for name in ("one", "other", "one"):
        now = exposition(report(container(1, pod="pod", name=name)))
        pages.publish(now)
        assert pages.get(form) == render(now, "text")
        assert [key[2] for key in pages._identities] == [name]
