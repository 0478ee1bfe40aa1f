"""Texts of the cells of a container's row, where they take more than a field of the report. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from numaudit.containermanager.pod.spec import HUGEPAGES_PREFIX
from numaudit.evaluation.huge_pages import HugePagesOfContainer
from numaudit.evaluation.verdicts import MISALIGNED
from numaudit.ranks.policy import understood
from numaudit.report.processes import is_weighted
from numaudit.report.values import ContainerReport
from numaudit.report.words import ESTIMATE, UNKNOWN, counted_share, node_list, percent, share, size
from numaudit.topology.nodeset import NodeSet

_LONGEST_WHY = 30
Tone = Literal["good", "bad", "unknown"]
"""Tone that a view shows in colour."""


def verdict(one: ContainerReport) -> str:
    return "" if one.verdict is None else one.verdict.name


def verdict_tone(one: ContainerReport) -> Tone | None:
    name = verdict(one)
    if name in MISALIGNED:
        return "bad"
    return "good" if name == "aligned" else "unknown" if name == "unknown" else None


def why(one: ContainerReport) -> str:
    """The evidence for its verdict in a few words: `allowed 0,2; promised 2`. The verdict's reason has all of them."""
    if one.verdict is None:
        return ""
    text = _evidence(one, one.verdict.name, one.verdict.reason)
    return text if len(text) <= _LONGEST_WHY else f"{text[: _LONGEST_WHY - 1]}…"


def _evidence(one: ContainerReport, name: str, reason: str) -> str:
    promised = (None if one.intended is None else one.intended.memory_nodes) or NodeSet()
    match name:
        case "drifted" if not promised or one.allowed_memory_nodes == promised:
            cpus = None if one.intended is None else one.intended.cpus
            return f"CPUs {one.allowed_cpus}; promised {cpus}"
        case "drifted":
            return f"allowed {node_list(one.allowed_memory_nodes)}; promised {promised}"
        case "cpu-remote" if one.allowed_cpu_nodes and not one.allowed_cpu_nodes <= promised:
            return f"CPUs on {one.allowed_cpu_nodes}; promised {promised}"
        case "cpu-remote":
            return f"CPU time not on {promised}"
        case "spilled":
            held = (row.numa_node for row in one.resident or () if row.judged)
            return f"{size(one.misplaced_bytes)} on {NodeSet.from_ids(held) - promised}; promised {promised}"
        case "unmanaged" if one.pod_uid is None:
            return "no pod"
        case "split":
            return f"promise spans {promised}"
        case "remote-access" | "aligned":
            return _used_remotely(one)
    return re.split("[:,]", reason, maxsplit=1)[0]


def _used_remotely(one: ContainerReport) -> str:
    if one.measured is None:
        return ""
    found = one.measured
    if found.used_remotely is None:
        return f"{100 * found.lower:.1f}% of accesses remote"
    return f">={size(found.used_remotely.at_least_bytes)} used remotely"


def bytes_of_type(kind: str, one: ContainerReport) -> int | None:
    """anon, shmem, hugetlb or file over all nodes."""
    values = [getattr(row, kind) for row in one.resident or ()]
    return None if not values or None in values else sum(values)


def type_size(kind: str, one: ContainerReport) -> str:
    return size(bytes_of_type(kind, one))


def misplaced(one: ContainerReport) -> str:
    """`-` where nothing was promised."""
    if one.misplaced_bytes is None:
        return UNKNOWN if one.intended is not None and one.intended.memory_nodes else "-"
    return size(one.misplaced_bytes)


def policy(one: ContainerReport) -> str:
    """The memory policies other than the default, those with the most bytes first: bind:1, weighted interleave:0-1 3:1.

    `default` where all its memory has that; `-` where it has no process.
    """
    mappings = one.mappings
    if mappings is None or (mappings.processes_read < mappings.processes and not mappings.policies):
        return UNKNOWN
    if not mappings.processes:
        return "-"
    sums: dict[str, int] = {}
    for row in mappings.policies:
        if row.name != "default":
            sums[row.name] = sums.get(row.name, 0) + row.bytes
    named = sorted(sums, key=lambda name: (-sums[name], name))
    return ", ".join(_with_weights(name, mappings.interleave_weights) for name in named) or "default"


def huge_pages(one: ContainerReport) -> str:
    """`2Mi: 16Mi of 16Mi, 1Gi: 1Gi of 2Gi (1Gi misplaced)`; where nothing was promised `2Mi: 28Mi`."""
    if one.huge_pages is None:
        return UNKNOWN
    return ", ".join(map(_of_size, one.huge_pages)) or "-"


def _of_size(pages: HugePagesOfContainer) -> str:
    text = f"{pages.type.removeprefix(HUGEPAGES_PREFIX)}: {size(pages.held)}"
    if pages.promised_bytes:
        text += f" of {size(pages.promised_bytes)}"
    return f"{text} ({size(pages.misplaced_bytes)} misplaced)" if pages.misplaced_bytes else text


def _with_weights(name: str, weights: Mapping[int, int] | None) -> str:
    if not weights or not is_weighted(name):
        return name
    found = understood(name)
    return name if found is None else f"{name} {':'.join(str(weights.get(node, '?')) for node in found.nodes)}"


def remote_with_share(one: ContainerReport) -> str:
    part = share(one.remote_bytes, one.judged_bytes)
    return size(one.remote_bytes) if part in (UNKNOWN, "-") else f"{size(one.remote_bytes)} ({part})"


def by_node(one: ContainerReport, most: int | None = None) -> str:
    """`N0:1.5G N1:4K`; of more nodes than `most`, those that hold most and how many others: `N0:1.5G +3`."""
    if one.resident is None:
        return UNKNOWN
    rows = [(row.numa_node, row.judged) for row in one.resident if row.judged]
    largest = rows if most is None else sorted(rows, key=lambda row: -(row[1] or 0))[:most]
    others = [f"+{len(rows) - len(largest)}"] if len(largest) < len(rows) else []
    return " ".join([*(f"N{node}:{size(value)}" for node, value in rows if (node, value) in largest), *others]) or "-"


def on_node(node: int, one: ContainerReport) -> str:
    if one.resident is None:
        return UNKNOWN
    return size(sum(row.judged for row in one.resident if row.numa_node == node))


def home(one: ContainerReport) -> int | None:
    """The node that holds most of it."""
    held = [(row.judged, -row.numa_node) for row in one.resident or ()]
    most, node = max(held, default=(0, 0))
    return -node if most else None


def shared_of_others(one: ContainerReport) -> str:
    if one.mappings is None or one.mappings.shared_of_others is None:
        return UNKNOWN
    return " ".join(f"N{node}:{size(value)}" for node, value in one.mappings.shared_of_others.items()) or "-"


def cpu_seconds(one: ContainerReport) -> float | None:
    return None if one.cpu_seconds is None else sum(on.seconds for on in one.cpu_seconds)


def estimate(one: ContainerReport) -> str:
    """A mark before what is made of its CPU time, where that is an estimate."""
    return ESTIMATE if one.cpu_time_source == "last-cpu" else ""


def cpu_time(one: ContainerReport) -> str:
    seconds = cpu_seconds(one)
    return UNKNOWN if seconds is None else f"{estimate(one)}{seconds:.1f} s"


def cpu_time_by_node(one: ContainerReport) -> str:
    """N1 9.8s, N0 0.1s: the most first."""
    if one.cpu_seconds is None:
        return UNKNOWN
    largest = sorted(one.cpu_seconds, key=lambda on: (-on.seconds, on.numa_node))
    return ", ".join(f"N{on.numa_node} {estimate(one)}{on.seconds:.1f}s" for on in largest if on.seconds) or "-"


def expected(one: ContainerReport) -> str:
    """The share of accesses that would be remote."""
    ratio = one.expected_remote_ratio
    return f"{estimate(one) if ratio is not None else ''}{percent(ratio)}"


def cpu_off(one: ContainerReport) -> str:
    """The share of its CPU time on other nodes than the promised ones."""
    if one.intended is None or not one.intended.memory_nodes:
        return "-"
    if one.cpu_seconds is None:
        return UNKNOWN
    total = sum(on.seconds for on in one.cpu_seconds)
    off = sum(on.seconds for on in one.cpu_seconds if on.numa_node not in one.intended.memory_nodes)
    return "-" if total == 0 else f"{estimate(one)}{percent(off / total)}"


def counted_remote(one: ContainerReport) -> str:
    for access in one.accesses:
        if access.counted is not None:
            return counted_share(access)
    return "-"


def used_remotely(one: ContainerReport) -> str:
    """Bytes that were seen used from other nodes, at least: `>=12.0Mi`."""
    for access in one.accesses:
        if access.used_remotely is not None:
            return f">={size(access.used_remotely.at_least_bytes)}"
    return UNKNOWN


def stall(one: ContainerReport) -> str:
    found = one.remote_stall
    if found is None or found.share_low is None or found.share_high is None:
        return "-"
    low, high = f"{found.share_low:.1%}", f"{found.share_high:.1%}"
    return f"<{high}" if low == high else f"<{low}-{high}"


def distance(one: ContainerReport) -> str:
    return UNKNOWN if one.distance_ratio is None else f"{one.distance_ratio:.2f}"


def measured(one: ContainerReport) -> str:
    """The best source's measurement, in words."""
    found = one.measured
    if found is None:
        return "not measured"
    used = found.used_remotely
    if used is None:
        return f"{100 * found.lower:.1f}% of accesses remote, counted"
    memory = "" if used.memory_bytes is None else f" of {size(used.memory_bytes)}"
    return f"{100 * found.lower:.1f}% at least used remotely: {size(used.at_least_bytes)}{memory}, sampled pages"
