"""Rows of a report by their kind: containers, and apart from them sandboxes, pods, slices and other cgroups; and rows
that people need not read: memory that groups hold themselves, not through a container in them. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter

from numaudit.evaluation.verdicts import MISALIGNED
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


_SMALL = 1 << 20
_PARENTS = ("sandbox", "pod", "slice")
_OF_KUBELET = tuple(
    f"/kubepods{partition}{tier}" for partition in ("", "/system") for tier in ("", "/burstable", "/besteffort")
)
"""The kubelet's parent groups of pods under the cgroupfs driver; under systemd they are slices."""


def is_small_remainder(container: ContainerReport) -> bool:
    """A pause sandbox or a parent group, also one without children, that holds next to nothing itself."""
    is_parent = not container.whole or container.kind in _PARENTS or (container.path or "").endswith(_OF_KUBELET)
    return is_parent and _holds_little(container)


def is_small_group(container: ContainerReport) -> bool:
    """No container, not misaligned, and it holds next to nothing: what a live screen folds."""
    if container.kind == "container" or (container.verdict is not None and container.verdict.name in MISALIGNED):
        return False
    return _holds_little(container)


def _holds_little(container: ContainerReport) -> bool:
    """False where it is not known."""
    return container.resident is not None and (container.judged_bytes or 0) + container.page_cache_bytes < _SMALL


def small_remainders(number: int) -> str:
    """Describe the number of rows that were left out."""
    return (
        "1 cgroup that holds less than 1 MiB of its own"
        if number == 1
        else f"{number} cgroups that hold less than 1 MiB of their own"
    )
