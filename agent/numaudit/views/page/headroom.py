"""The page's part about headroom: room on each node, limits to it, and the pods that hold memory."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.pod.spec import MEMORY, full_name
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.words import UNKNOWN, amounts, size
from numaudit.topology.quantity import at_most
from numaudit.views.page.markup import Markup, PageSection, element, short, table

_MAP = ("Node", "Group", "Allocatable", "Promised", "Free", "Stranded", "Without promise", "Uses free", "Uses promised")
_HELP = (
    "Group = nodes that serve containers together. Stranded = free, but not for a container of one node. "
    "Without promise = anon + shmem of everything that has no promise. Uses free = its part that "
    "uses memory that is free in the map. Uses promised = its part that uses memory that was promised."
)


_HUGE = ("Nodes", "Map free", "Kernel free", "Unclaimed", "Without promise", "Left", "Short")
_HUGE_HELP = (
    "Map free = pages that the Memory Manager would still promise. Kernel free = free pages of the kernel's pool. "
    "Unclaimed = promised, but not used yet. Without promise = used by others. Left = what a new container can have. "
    "Short = what the map would promise and the kernel cannot give."
)


def headroom_part(manager: MemoryManagerReport | None) -> PageSection:
    """The Memory Manager's room for new containers."""
    if manager is None:
        content: tuple[Markup | str, ...] = (element("p", "There is no memory map of the kubelet's Memory Manager."),)
    else:
        content = (
            table("Promised and free memory of each node", _MAP, _rows(manager)),
            element("p", _HELP),
            *_huge_pages(manager),
            *_admissible(manager),
            _holders(manager),
        )
    return PageSection("headroom", "Headroom", content)


def _rows(manager: MemoryManagerReport) -> Iterator[tuple[str, ...]]:
    """A row for each resource of each node that has some."""
    nodes = {one.numa_node: one for one in manager.nodes}
    for one in manager.tables:
        node = nodes[one.numa_node]
        in_the_way = (node.unpromised_bytes, node.unpromised_in_free_bytes, node.unpromised_in_reserved_bytes)
        rest = map(size, (node.stranded_bytes, *in_the_way)) if one.type == MEMORY else [""] * 4
        if one.total:
            yield (
                f"{one.numa_node}, {one.type}",
                "-" if node.group is None else str(node.group) or UNKNOWN,
                *map(size, (one.allocatable, one.reserved, one.free)),
                *rest,
            )


def _huge_pages(manager: MemoryManagerReport) -> Iterator[Markup]:
    rows = [
        (
            f"{row.nodes}, {row.type}",
            *map(size, (row.map_free, row.kernel_free, row.unclaimed, row.others, row.left)),
            size(row.short) if row.short else "",
        )
        for row in manager.huge_page_rows()
    ]
    if rows:
        yield table("Huge pages: by the memory map and by the kernel", _HUGE, rows)
        yield element("p", _HUGE_HELP)


def _admissible(manager: MemoryManagerReport) -> Iterator[Markup]:
    if manager.fragmentation_ratio is not None:
        part = f"{manager.fragmentation_ratio:.0%}"
        yield element(
            "p",
            f"Fragmentation {part}: the largest container that would be admitted is smaller by "
            "this share than the one that all free memory would allow.",
        )
    if manager.admissible is None:
        yield element("p", "The largest container is unknown, because the Topology Manager's policy is unknown.")
    else:
        rows = ((str(one.nodes), at_most(one.bytes) if one.bytes else "none") for one in manager.admissible)
        yield table("Largest Guaranteed container that would be admitted now", ("Nodes", "Memory"), rows)
        if manager.cpus_in_words:
            yield element("p", f"This is {manager.cpus_in_words}.")


def _holders(manager: MemoryManagerReport) -> Markup | str:
    if not manager.holders:
        return ""
    rows = (
        (
            str(one.group),
            short(full_name(one.namespace, one.pod, one.pod_uid, None)),
            amounts(one.bytes),
            "yes" if one.stale else UNKNOWN if one.stale is None else "",
        )
        for one in manager.holders
    )
    return table("Pods that hold promised memory", ("Group", "Pod", "Holds", "Stale"), rows)
