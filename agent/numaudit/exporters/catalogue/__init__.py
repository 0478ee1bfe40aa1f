"""The catalogue: one row for each metric family. Both exporters and docs/metrics.md loop over these rows.

To add a metric, add a row. A row's function gives label values and numbers, or nothing where the
number is not known: absent is not 0.
"""

from __future__ import annotations

from typing import Any

from numaudit.exporters.catalogue.labels import LABELS
from numaudit.exporters.catalogue.of_agent import LIVE_METRICS
from numaudit.exporters.catalogue.of_containers import CONTAINER_METRICS
from numaudit.exporters.catalogue.of_nodes import TICK_METRICS
from numaudit.exporters.metric import IDENTITY, Metric

__all__ = ["CONTAINER_METRICS", "LABELS", "LIVE_METRICS", "METRICS", "TICK_METRICS", "labels_of"]

METRICS: tuple[Metric[Any], ...] = (*CONTAINER_METRICS, *TICK_METRICS, *LIVE_METRICS)


def labels_of(metric: Metric[Any]) -> tuple[str, ...]:
    """All labels of a row, those of the container first."""
    return (*IDENTITY, *metric.labels) if metric in CONTAINER_METRICS else metric.labels
