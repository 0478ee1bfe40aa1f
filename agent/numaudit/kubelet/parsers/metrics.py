"""The kubelet's own counters of admissions and pinning, for cross-checks. Pure: bytes in, values out.

All of them are of the stability class ALPHA and start again at 0 when the kubelet starts. Some
mislead: `kubelet_cpu_manager_shared_pool_size_millicores` can go below 0, since an init container's
CPUs are taken off twice.

Source: pkg/kubelet/metrics/metrics.go, the Prometheus text format.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from msgspec import Struct

from numaudit.intent.kubelet import REJECTIONS, KubeletSeries

NAMES = frozenset(
    {
        REJECTIONS,
        "kubelet_topology_manager_admission_requests_total",
        "kubelet_topology_manager_admission_errors_total",
        "kubelet_memory_manager_pinning_requests_total",
        "kubelet_memory_manager_pinning_errors_total",
        "kubelet_container_aligned_compute_resources_count",
        "kubelet_container_aligned_compute_resources_failure_count",
        "kubelet_cpu_manager_pinning_requests_total",
        "kubelet_cpu_manager_pinning_errors_total",
        "kubelet_cpu_manager_shared_pool_size_millicores",
        "kubelet_cpu_manager_exclusive_cpu_allocation_count",
        "kubelet_cpu_manager_allocation_per_numa",
        "resource_manager_allocations_total",
        "resource_manager_allocation_errors_total",
        "resource_manager_container_assignments",
    }
)
MOST_SERIES = 1000
LONGEST_LINE = 8 << 10
"""Bytes. No series is as long, and to look for labels takes hundred times a line's size."""
_START = "process_start_time_seconds"
_BUILD = "kubernetes_build_info"

_LINE = re.compile(
    rf"^({'|'.join(sorted({*NAMES, _START, _BUILD}))})(?=[{{ ])[^\n]{{0,{LONGEST_LINE}}}+$".encode(), re.MULTILINE
)
_SERIES = re.compile(r"([a-zA-Z_:][\w:]*)(\{[^}]*\})? (\S+)(?: -?\d+)?", re.ASCII)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"', re.ASCII)
_ESCAPE = re.compile(r"\\(.)")
_VERSION = re.compile(r"[{,]git_version=\"(v[0-9][\w.+-]{0,60})\"", re.ASCII)


class KubeletMetrics(Struct, frozen=True):
    """Metrics of the kubelet that numaudit uses."""

    counters: Mapping[KubeletSeries, float]
    version: str | None
    """v1.36.2, of kubernetes_build_info."""
    started_at: float | None = None
    """Time when the kubelet started, and its counters with it: seconds since the epoch."""


def parse(body: bytes) -> KubeletMetrics:
    """Pick the series of NAMES out of the text; lines of any other kind are passed over."""
    counters: dict[KubeletSeries, float] = {}
    version = started_at = None
    for found in _LINE.finditer(body):
        name, line = found[1].decode(), found[0].decode("utf-8", "replace").rstrip()
        if name == _BUILD:
            match = _VERSION.search(line)
            version = match[1] if match else version
        elif name == _START:
            started_at = _value(line)
        elif len(counters) < MOST_SERIES:
            series = _SERIES.fullmatch(line)
            if series is not None:
                _add(counters, series)
    return KubeletMetrics(counters, version, started_at)


def _value(line: str) -> float | None:
    series = _SERIES.fullmatch(line)
    try:
        value = float(series[3]) if series is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _add(counters: dict[KubeletSeries, float], series: re.Match[str]) -> None:
    value = _value(series[0])
    if value is not None:
        labels = tuple((label[1], _unescaped(label[2])) for label in _LABEL.finditer(series[2] or ""))
        counters[KubeletSeries(series[1], labels)] = value


def _unescaped(value: str) -> str:
    """A label's value, in which the text format escapes quotes, backslashes and newlines."""
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
