"""Names of containers, sizes and shares in words, for every view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from operator import attrgetter

from numaudit.errors import printable
from numaudit.evaluation.access import Access
from numaudit.evaluation.hint_outcomes import HintOutcome
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.report.values import ContainerReport
from numaudit.snapshot import Kind
from numaudit.topology.nodeset import CpuSet, NodeSet
from numaudit.topology.quantity import in_units


def display_name(container: ContainerReport) -> str:
    """namespace/pod/container as far as known, else the pod's UID; docker/name; else the cgroup path."""
    if container.pod_uid is None and container.container is not None:
        return printable(f"{container.runtime}/{container.container}")
    if container.pod_uid is None:
        return printable(container.path or "")
    pod = f"{container.namespace}/{container.pod}" if container.pod else f"pod {container.pod_uid}"
    if container.kind == "container":
        return printable(f"{pod}/{container.container or (container.container_id or '')[:12]}")
    return printable(f"{pod} ({container.kind})")


UNKNOWN, ESTIMATE = "?", "~"


def size(value: int | None) -> str:
    """Bytes in binary units, one decimal below 100: 1.5Gi, 50.1Mi, 4Ki, 0; `?` when not known."""
    return UNKNOWN if value is None else in_units(value)


def amounts(of: Mapping[str, int] | None) -> str:
    """memory 4Gi, hugepages-2Mi 16Mi; empty = none, or not known."""
    return ", ".join(f"{name} {size(amount)}" for name, amount in (of or {}).items() if amount)


def requested(of: HintOutcome) -> str:
    """Of a refused pod: 3 CPUs, memory 4Gi, hugepages-2Mi 16Mi; empty = nothing, or not known."""
    milli = of.asked_milli_cpus or 0
    cpus = f"{milli / 1000:g} {'CPU' if milli == 1000 else 'CPUs'}" if milli else ""
    return ", ".join(filter(None, (cpus, amounts(of.asked))))


def in_utc(at: float) -> str:
    """A time for people."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def share(part: int | None, whole: int | None) -> str:
    if part is None or whole is None:
        return UNKNOWN
    return "-" if whole == 0 else f"{round(100 * part / whole, 1) + 0:.1f}%"


def or_unknown(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


def cpu_list(cpus: CpuSet | None) -> str:
    """In the kernel's list format; none and unknown in words."""
    return UNKNOWN if cpus is None else str(cpus) or "none"


def promised_nodes(container: ContainerReport) -> str:
    """`-` = none; nothing where no promise can be."""
    if container.intended is None:
        return ""
    nodes = container.intended.memory_nodes
    return UNKNOWN if nodes is None else str(nodes) or "-"


def node_list(nodes: NodeSet | None) -> str:
    """In the kernel's list format."""
    return UNKNOWN if nodes is None else str(nodes) or "none"


def counted_share(access: Access) -> str:
    """The remote share of counted accesses; ~ where a part of the count is made up for."""
    shown = percent(access.remote_ratio)
    is_made_up = access.remote_ratio is not None and access.counted is not None and access.counted.multiplexed
    return f"~{shown}" if is_made_up else shown


def percent(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else f"{100 * ratio:.1f}%"


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
