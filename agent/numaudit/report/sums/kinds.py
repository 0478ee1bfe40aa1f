"""Rows of a report by their kind: containers, and apart from them sandboxes, pods, slices and other cgroups. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter

from numaudit.report.values import ContainerReport
from numaudit.snapshot import Kind

_NAMES: Mapping[Kind, tuple[str, str]] = {
    "container": ("container", "containers"),
    "job": ("job", "jobs"),
    "step": ("job step", "job steps"),
    "sandbox": ("sandbox", "sandboxes"),
    "pod": ("pod", "pods"),
    "service": ("service", "services"),
    "scope": ("scope", "scopes"),
    "slice": ("slice", "slices"),
    "group": ("other cgroup", "other cgroups"),
}
"""Of one row, and of several."""


_kind = attrgetter("kind")


def count_kinds(containers: Iterable[ContainerReport]) -> dict[Kind, int]:
    """Number of rows of each kind that occurs, containers first."""
    counts = Counter(map(_kind, containers))
    return {kind: counts[kind] for kind in _NAMES if counts[kind]}


def kinds_in_words(counts: Mapping[Kind, int]) -> str:
    """Describe the numbers: `5 containers; 3 sandboxes, 12 slices`."""
    containers = [_some("container", counts["container"])] if "container" in counts else []
    others = ", ".join(_some(kind, number) for kind, number in counts.items() if kind != "container")
    return "; ".join([*containers, *([others] if others else [])]) or "no containers"


def _some(kind: Kind, number: int) -> str:
    return f"{number} {_NAMES[kind][number != 1]}"
