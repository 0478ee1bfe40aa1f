"""Scrapes of an agent that were recorded elsewhere, as columns: one list of values for each series.

Where probes run, an agent cannot be started at will; tests/vm/record_scrapes.py recorded one in the guest.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

GUEST = Path(__file__).resolve().parents[2] / "fixtures/guest-scrapes.json.xz"
BEGAN = 1_700_000_000
"""When the first scrape was, as far as the database knows."""

Samples = Mapping[str, float]
"""A series as Prometheus writes it -> its value."""


@dataclass(frozen=True, slots=True)
class Recording:
    """`at` in seconds since the first scrape; a series has None where a scrape does not have it."""

    at: list[float]
    series: dict[str, list[float | None]]

    @property
    def end(self) -> float:
        return BEGAN + self.at[-1]

    def openmetrics(self) -> Iterator[str]:
        """As `promtool tsdb create-blocks-from openmetrics` takes it."""
        for name, values in self.series.items():
            for at, value in zip(self.at, values, strict=True):
                if value is not None:
                    yield f"{name} {value} {BEGAN + at:.3f}\n"
        yield "# EOF\n"


def samples(text: str, **more: str) -> dict[str, float]:
    """One scrape, with more labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = {**sample.labels, **more}
            inside = ",".join(f"{label}={json.dumps(value)}" for label, value in sorted(labels.items()) if value)
            found[f"{sample.name}{{{inside}}}"] = sample.value
    return found


def recording(scrapes: Mapping[float, Samples]) -> Recording:
    """Of scrapes by their time."""
    begun = min(scrapes)
    names = sorted({name for scrape in scrapes.values() for name in scrape})
    return Recording(
        [round(at - begun, 3) for at in scrapes], {name: [one.get(name) for one in scrapes.values()] for name in names}
    )


def write(recorded: Recording, file: Path) -> None:
    with lzma.open(file, "wt", preset=9 | lzma.PRESET_EXTREME) as stream:
        json.dump({"at": recorded.at, "series": recorded.series}, stream, separators=(",", ":"))


def read(file: Path = GUEST) -> Recording:
    with lzma.open(file, "rt") as stream:
        return Recording(**json.load(stream))
