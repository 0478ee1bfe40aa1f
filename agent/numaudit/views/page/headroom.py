"""The page's part about headroom: room on each node, limits to it, and the pods that hold memory."""

from __future__ import annotations

from collections.abc import Iterator

from numaudit.containermanager.pod.spec import full_name
from numaudit.report.memory_manager import MemoryManagerReport
from numaudit.report.words import UNKNOWN, amounts
from numaudit.views.headroom import HUGE_PAGES, largest, largest_with_huge_pages, map_columns, map_rows, warnings
from numaudit.views.page.markup import Markup, PageSection, columns_table, element, explanations, short, table


def headroom_part(manager: MemoryManagerReport | None) -> PageSection:
    """The Memory Manager's room for new containers."""
    none = element("p", "There is no memory map of the kubelet's Memory Manager.")
    return PageSection("headroom", "Headroom", (none,) if manager is None else tuple(_content(manager)))


def _content(manager: MemoryManagerReport) -> Iterator[Markup]:
    yield element("p", f"{largest(manager)}.")
    if manager.fragmentation_ratio is not None:
        yield element(
            "p",
            "Fragmentation = the share by which that is smaller than what all free memory would allow.",
            class_="facts",
        )
    columns = map_columns(manager)
    yield columns_table("Promised and free memory of each node", columns, map_rows(manager))
    yield explanations(columns)
    if manager.huge_pages:
        yield columns_table("Huge pages: by the memory map and by the kernel", HUGE_PAGES, manager.huge_page_rows())
        yield explanations(HUGE_PAGES)
    for line in (*largest_with_huge_pages(manager), *warnings(manager)):
        yield element("p", f"{line}.")
    if manager.holders:
        rows = (
            (
                str(one.group),
                short(full_name(one.namespace, one.pod, one.pod_uid, None)),
                amounts(one.bytes),
                "yes" if one.stale else UNKNOWN if one.stale is None else "",
            )
            for one in manager.holders
        )
        yield table("Pods that hold promised memory", ("Group", "Pod", "Holds", "Stale"), rows)
