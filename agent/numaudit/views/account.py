"""One container in words, part by part: verdict, remedy, promise, cpuset, bytes, accesses, cost.

`numaudit explain`, `top` and the page say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from numaudit.evaluation.access import Access, UsedRemotely
from numaudit.evaluation.huge_pages import HugePagesOfContainer
from numaudit.report import cells
from numaudit.report.values import ContainerReport, NodeReport, PromiseOfSource
from numaudit.report.words import UNKNOWN, amounts, in_utc, share, size
from numaudit.snapshot.processes import ContainerDevices, HeldBy, Interrupts
from numaudit.topology.nodeset import NodeSet
from numaudit.topology.quantity import plural

_WAYS: Mapping[HeldBy, str] = {
    "descriptor": "open files",
    "network-namespace": "network namespace",
    "device-list": "device list",
}
"""Ways to a device, in words."""


def parts(
    container: ContainerReport,
    nodes: Sequence[NodeReport],
    why: list[str] | None = None,
    promised_at: float | None = None,
    started_at: float | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """Headings with their lines. `why`: the account of its admission; None = there is none. Times in seconds."""
    yield "verdict", list(_verdict(container, started_at))
    remedy, commands = (
        (None, ()) if container.verdict is None else (container.verdict.remedy, container.verdict.commands)
    )
    yield "what to do", [remedy or "Nothing has to be done.", *commands]
    at = [] if promised_at is None else [f"the pod has been on this host since {in_utc(promised_at)}"]
    yield "promised", [*_promised(container), *at]
    if why is not None:
        yield "why", why
    yield "allowed by its cpuset", list(_allowed(container))
    yield "resident", list(_bytes(container, nodes))
    if container.devices is not None:
        yield "devices", list(device_lines(container.devices))
    if container.ranks_summary is not None:
        yield "ranks", [container.ranks_summary]
    yield "accessed", list(_accesses(container))
    yield "cost", list(_cost(container))


def _promised(one: ContainerReport) -> Iterator[str]:
    intended = one.intended
    if one.pod_uid is not None:
        yield f"QoS {one.qos or UNKNOWN}"
    if intended is None:
        yield "unknown"
        return
    if intended.memory_nodes is None:
        yield "memory: unknown"
    elif not intended.memory_nodes:
        yield "no memory; it may use any node"
    else:
        yield f"{amounts(intended.bytes) or 'memory'} on {intended.memory_nodes.in_words}"
    if intended.cpus is None:
        yield "CPUs: unknown"
    elif not intended.cpus:
        yield "no CPUs of its own; it runs on the shared pool"
    else:
        yield f"{intended.cpus.in_words} on {(intended.cpu_nodes or NodeSet()).in_words}"
    if intended.device_nodes:
        yield f"devices on {intended.device_nodes.in_words}"
    for each in intended.by_source:
        yield _by_source(each)


def _by_source(one: PromiseOfSource) -> str:
    """by claim default/cpus-10 (dra.cpu): CPUs 10-14 on node 1; no memory"""
    who = "the kubelet" if one.claim is None else f"claim {one.claim} ({one.driver or UNKNOWN})"
    if one.problem is not None:
        return f"by {who}: unknown: {one.problem}"
    memory = f"{amounts(one.bytes) or 'memory'} on {one.memory_nodes.in_words}" if one.memory_nodes else "no memory"
    cpus = f"{one.cpus.in_words} on {(one.cpu_nodes or NodeSet()).in_words}" if one.cpus else "no CPUs"
    devices = f"; devices {', '.join(one.devices)}" if one.devices else ""
    return f"by {who}: {cpus}; {memory}{devices}"


def _allowed(one: ContainerReport) -> Iterator[str]:
    memory, cpus = one.allowed_memory_nodes, one.allowed_cpus
    yield "cpuset.mems " + (UNKNOWN if memory is None else str(memory) or "none")
    on = "" if one.allowed_cpu_nodes is None else f", on {one.allowed_cpu_nodes.in_words}"
    yield f"cpuset.cpus {UNKNOWN if cpus is None else str(cpus) or 'none'}{on}"
    if one.path is None:
        yield "It does not run now."


def _bytes(one: ContainerReport, nodes: Sequence[NodeReport]) -> Iterator[str]:
    if one.resident is None:
        yield "unknown"
        return
    rows = {row.numa_node: row for row in one.resident}
    held = [f"N{node.numa_node} {size(rows[node.numa_node].judged)}" for node in nodes if node.numa_node in rows]
    yield f"anon + shmem + hugetlb {size(one.judged_bytes)}: {', '.join(held)}"
    yield f"page cache {size(one.page_cache_bytes)}, which does not count in verdicts"
    if one.aligned_bytes is not None:
        yield f"on the promised nodes: {size(one.aligned_bytes)} ({share(one.aligned_bytes, one.judged_bytes)})"
    for pages in one.huge_pages or ():
        yield _huge_pages(pages)
    remote = f"{size(one.remote_bytes)} ({share(one.remote_bytes, one.judged_bytes)})"
    yield f"remote, on nodes whose CPUs it may not use: {remote}"
    yield _given(one)


def _given(one: ContainerReport) -> str:
    """pages given since page_alloc began to count: N0 3.1Gi, N1 12Mi; 12Mi of them to CPUs of another node

    Page cache and what was given back since are in it; huge pages of the pool are not.
    """
    if one.allocated is None:
        return "pages given by each node: unknown, because the probe page_alloc does not run"
    by_node: dict[int, int] = {}
    unplaced = afar = 0
    for pair in one.allocated:
        if pair.numa_node is None:
            unplaced += pair.bytes
            continue
        by_node[pair.numa_node] = by_node.get(pair.numa_node, 0) + pair.bytes
        afar += pair.bytes if pair.numa_node != pair.cpu_numa_node else 0
    given = [f"N{node} {size(amount)}" for node, amount in sorted(by_node.items())]
    given += [f"{size(unplaced)} of unknown nodes"] if unplaced else []
    to_others = f"; {size(afar)} of them to CPUs of another node" if afar else ""
    return f"pages given since page_alloc began to count: {', '.join(given) or 'none'}{to_others}"


def device_lines(found: ContainerDevices) -> Iterator[str]:
    """network adapter 0000:3b:02.1 (net1) on node 1, by its network namespace; 3 interrupts: 2 on node 0, 1 on node 1

    A line for each device, and for each way to devices that could not be followed.
    """
    for one in found.items:
        node = "on a node that the firmware does not say" if one.numa_node is None else f"on node {one.numa_node}"
        line = f"{one.title} {node}, by its {' and '.join(_WAYS[way] for way in one.held_by)}"
        yield line if one.interrupts is None else f"{line}; {_interrupts(one.interrupts)}"
    if not found.items and not found.unread:
        yield "no PCI devices"
    for unread in found.unread:
        yield f"not known by its {_WAYS[unread.what]}: {unread.reason}"


def _interrupts(found: Interrupts) -> str:
    on = [
        f"{count} on node {node}{f' ({found.fired_by_node[node]} fired)' if node in found.fired_by_node else ''}"
        for node, count in sorted(found.by_node.items())
    ]
    several = found.interrupts - sum(found.by_node.values())
    on += [f"{several} on several nodes"] if several else []
    return f"{plural(found.interrupts, 'interrupt')}: {', '.join(on)}"


def _huge_pages(pages: HugePagesOfContainer) -> str:
    """hugepages-1Gi 2Gi of the promised 4Gi: N0 1Gi, N1 1Gi; 1Gi of them are not on the promised node 0"""
    text = f"{pages.type} {size(pages.held)}"
    if pages.promised_bytes is not None:
        text += f" of the promised {size(pages.promised_bytes)}" if pages.promised_bytes else ", without a promise"
    held = ", ".join(f"N{node} {size(amount)}" for node, amount in pages.bytes_by_node.items() if amount)
    text += f": {held}" if held else ""
    if pages.misplaced_bytes and pages.promised_nodes:
        text += f"; {size(pages.misplaced_bytes)} of them are not on the promised {pages.promised_nodes.in_words}"
    return text


def _accesses(one: ContainerReport) -> Iterator[str]:
    for access in one.accesses:
        yield f"{access.source}: {_said_by(access)}{_basis(one) if access.of == 'expectation' else ''}"
    if one.cpu_seconds:
        yield f"CPU time by node: {cells.cpu_time_by_node(one)}"
    if all(access.of == "expectation" for access in one.accesses):
        yield "Not measured."


def _basis(one: ContainerReport) -> str:
    """The basis of what is expected."""
    bases = {"processes": " (the sum over its processes)", "container": " (of the container as a whole)"}
    by = ", by an estimate of its CPU time" if cells.estimate(one) else ""
    return bases.get(one.expected_basis or "", "") + by


def _said_by(access: Access) -> str:
    """A share is of what the source saw; an expectation is named one."""
    if access.used_remotely is not None:
        return _pages(access.used_remotely, access.age or 0.0)
    if access.remote_ratio is None:
        return f"unknown: {access.reason or 'no samples'}"
    if access.of == "accesses":
        return f"{access.remote_ratio:.0%} of the counted accesses were remote"
    return f"{access.remote_ratio:.0%} of its accesses would be remote if it used every byte equally from where it ran"


def _pages(used: UsedRemotely, age: float) -> str:
    memory = "" if used.memory_bytes is None else f" of its {size(used.memory_bytes)}"
    pairs = [f"{size(one.bytes)} of node {one.numa_node} from node {one.cpu_numa_node}" for one in used.by_pair]
    return f"at least {size(used.at_least_bytes)}{memory} were used remotely, {age:.0f} s ago: {', '.join(pairs)}"


def _verdict(one: ContainerReport, started_at: float | None) -> Iterator[str]:
    verdict = one.verdict
    if verdict is None:
        yield "None, because nothing is promised to it."
        return
    yield f"{verdict.name}: {verdict.reason}"
    for cause in verdict.causes:
        yield f"{cause.cause}: {cause.evidence}"
    if verdict.since is None:
        yield "Since: before this reading."
        if started_at is not None:
            yield f"The container has been running since {in_utc(started_at)}."
    else:
        yield f"Since: {in_utc(verdict.since)} or a little earlier."
    if one.findings:
        yield f"findings: {', '.join(one.findings)}"


def _cost(one: ContainerReport) -> Iterator[str]:
    stall = one.remote_stall
    if stall is None:
        yield "Unknown, because its remote accesses were not counted, or the latency of its nodes is unknown."
        return
    yield f"It waited for remote memory for at most {stall.seconds_low:.2f} to {stall.seconds_high:.2f} CPU seconds."
    if stall.share_low is not None and stall.share_high is not None:
        yield f"That is {stall.share_low:.1%} to {stall.share_high:.1%} of its CPU time ({stall.latency} latency)."
