"""How long one tick's metrics take to evaluate, render and pack, beside prometheus-client's own renderer.

Run: python tests/bench/bench_render.py. It fails when rendering takes more than a third of `generate_latest`.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from goals import at_most, least_ms, pick, run
from hosts.node_tree import NodeTree
from numaudit.engine.observer import Observer
from numaudit.exporters.catalogue import labels_of
from numaudit.exporters.exposition import Exposition, evaluate_containers, evaluate_tick
from numaudit.exporters.facts import ExportedTick
from numaudit.exporters.prometheus import render
from numaudit.exporters.series import SeriesTracker
from numaudit.kernel.host import Host
from numaudit.report.build import build

CONTAINERS = pick(1000, short=50)
ROUNDS = pick(7, short=1)
MOST_OF_THE_LIBRARY = 1 / 3


class Library(Collector):
    """The same points, as a custom collector of prometheus-client gives them."""

    def __init__(self, of: Exposition) -> None:
        self.of = of

    def collect(self) -> Iterator[Metric]:
        for family in self.of.families:
            row = family.metric
            make = CounterMetricFamily if row.is_counter else GaugeMetricFamily
            metric = make(row.family, row.help, labels=labels_of(row), unit=row.unit)
            for key, labels, value in family.points:
                metric.add_metric((*(key or ()), *labels), value)
            yield metric


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        tree = NodeTree(Path(folder))
        tree.fill(CONTAINERS)
        report = build(Observer.of(Host.under(Path(folder))).observe())
    tracker = SeriesTracker()

    def evaluate() -> Exposition:
        series = tracker.update(report.containers, report.taken_at, (0,))
        return evaluate_tick(ExportedTick(report, "0", "3", 1.0, 2.0), evaluate_containers(series))

    of = evaluate()
    registry = CollectorRegistry()
    registry.register(Library(of))
    text = render(of, "openmetrics")
    print(
        f"{CONTAINERS} containers x 2 nodes: {of.series} series, {len(text) / 1e6:.2f} MB, CPU ms (best of {ROUNDS}):"
    )
    print(f"  evaluate                 {least_ms(evaluate, ROUNDS):7.1f}")
    print(f"  gzip -1                  {least_ms(lambda: zlib.compress(text, 1), ROUNDS):7.1f}")
    print(f"  gzip -9 (the library's)  {least_ms(lambda: gzip.compress(text), ROUNDS):7.1f}")
    worst = 0.0
    for name, ours, theirs in (
        ("text", lambda: render(of, "text"), lambda: generate_latest(registry)),
        ("openmetrics", lambda: render(of, "openmetrics"), lambda: generate_openmetrics(registry)),
    ):
        mine, library = least_ms(ours, ROUNDS), least_ms(theirs, ROUNDS)
        worst = max(worst, mine / library)
        print(f"  render {name:12}      {mine:7.1f}   generate_latest {library:7.1f}   ratio {mine / library:.2f}")
    at_most("render, of the client library's", worst, MOST_OF_THE_LIBRARY, short=2 * MOST_OF_THE_LIBRARY)


if __name__ == "__main__":
    run(main)
